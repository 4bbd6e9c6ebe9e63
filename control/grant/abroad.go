package grant

// abroad is the use of the key at other sites, each of which has an owner and a bucket of its own.
type abroad struct {
	used    bool
	charged int64 // in all; it may wrap around
	late    int64 // to be charged once the bucket is back from the gateway that has it
	deepest int64 // D that a late charge leaves at most
}

// SetAbroad notes whether other sites use the key. Then no gateway gets the bucket itself: what the others have
// admitted is charged here.
func (o *Owner) SetAbroad(now int64, used bool, out Outbox) {
	if o.abroad.used == used {
		return
	}
	o.abroad.used = used
	o.b.advance(o.p, now)
	if used {
		o.recallWhere(out, func(v *user) bool { return v.exclusive })
	}
}

// Charge charges what other sites have admitted since some time ago; a negative cost takes that back. Had it been known
// at once, refill that was turned away since then would have repaid it. It leaves D at most as deep as deepest, in
// millionths.
func (o *Owner) Charge(now, since, cost, deepest int64, out Outbox) {
	o.b.advance(o.p, now)
	o.abroad.late += cost
	o.abroad.deepest = deepest
	if !o.shared() {
		o.chargeLate()
		o.b.late(o.p, since, cost)
	}
	if cost < 0 {
		o.serve(now, out)
	}
}

// chargeLate charges what could not be charged while a gateway had the bucket.
func (o *Owner) chargeLate() {
	a := &o.abroad
	before := o.b.spent
	o.b.spent = max(o.b.out, min(before+a.late, max(before, a.deepest)))
	a.charged, a.late = a.charged+o.b.spent-before, 0
}

// Admitted returns the cost admitted at this site since the owner began, in millionths, as far as is known here; only
// its change counts, and it may wrap around. Tokens that are granted and not spent are not in it.
func (o *Owner) Admitted(now int64) int64 {
	o.b.advance(o.p, now)
	return o.b.refilled + o.b.spent - o.b.out - o.abroad.charged
}
