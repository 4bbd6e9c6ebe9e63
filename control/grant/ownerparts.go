package grant

import (
	"math"
	"slices"
)

// ownedParts is an owner's knowledge of parts.
type ownedParts struct {
	roster *Roster
	list   []part // of members that were called
	lease  int64
	used   int64   // when a gateway asked last
	past   buckets // while parts are at gateways

	shrinks int64 // when a roster was found for which gateways have too much

	asks    int   // since asksAt
	asksAt  int64 // begin of a time of half a lease
	foreign int64 // spent of parts that were given to earlier owners, as of foreignAt
	seenAt  int64
}

// part is a gateway's part at an owner.
type part struct {
	peer  Peer
	until int64 // the gateway keeps away from it until then; 0: it may use it
	since int64 // when it was called, and the call is not answered; 0: it is not called
	slow  bool  // it has not answered soon: nobody waits for it
}

const (
	// partPause is the time without a question after which a full bucket counts as not in use.
	partPause = 15 * second
	// beforeLapse is the time before parts go back to their gateways at which others' tokens of them are recalled.
	beforeLapse = second
)

// advance refills up to now. Parts whose calls lapse meanwhile are their gateways' from then on, full.
func (o *Owner) advance(now int64) {
	if o.notes() {
		o.parts.past.note(&o.b)
	}
	for {
		first := -1
		for i := range o.parts.list {
			v := &o.parts.list[i]
			if v.until != 0 && v.until <= now && (first < 0 || v.until < o.parts.list[first].until) {
				first = i
			}
		}
		if first < 0 {
			break
		}
		v := &o.parts.list[first]
		o.b.advance(o.p, v.until)
		if v.until = 0; o.w.omits(ruleLapse) {
			v.until = forever
		}
		o.resize()
	}
	o.b.advance(o.p, now)
}

// notes reports whether the owner has to remember when its bucket was spent: parts may come to it.
func (o *Owner) notes() bool { return o.divided() && !o.allIn() }

// beginPast forgets when the bucket was spent, but for how long it has been full.
func (o *Owner) beginPast() { o.parts.past.begin(&o.b, o.p.Rate) }

// FullSince says that nobody has used the key since then: its bucket, which is full, has turned refill away.
func (o *Owner) FullSince(at int64) {
	if o.divided() && o.b.spent == 0 && at < o.b.at-o.b.full() {
		o.b.spans = 0
		o.b.miss(span{at, o.b.at})
		o.beginPast()
	}
}

// UnusedSince returns since when nobody has used the key, as far as is known here; at the latest now.
func (o *Owner) UnusedSince(now int64) int64 {
	v := &o.parts.past
	if o.advance(now); o.b.spent == 0 && len(v.list) == 0 && len(v.rates) == 1 && o.notes() {
		return v.rates[0].from
	}
	return now
}

// resize puts the rate and the burst of what is not at gateways in force, and returns by how much the burst grows.
// What is spent stays: of what goes the tokens go, which gateways get; what comes has its own.
func (o *Owner) resize() (gain int64) {
	gain = o.grow()
	o.beginPast()
	return gain
}

// grow is resize while the past goes on.
func (o *Owner) grow() (gain int64) {
	was := o.p.Burst
	share := 1 - o.shareOut()
	o.p.Rate, o.p.Burst = o.w.Rate*share, max(1, int64(math.Round(share*float64(o.w.Burst))))
	if gain = o.p.Burst - was; gain > 0 {
		o.b.spans = 0
	}
	return gain
}

// shareOut is the share of the bucket that gateways may use beforehand.
func (o *Owner) shareOut() float64 {
	if !o.divided() {
		return 0
	}
	return o.parts.roster.share(o.partsIn())
}

// divided reports whether gateways have parts of this limit.
func (o *Owner) divided() bool {
	r := o.parts.roster
	if r == nil {
		return false
	}
	_, ok := o.w.Part(r.Least)
	return ok
}

// isIn reports whether a part is here.
func (o *Owner) isIn(p Peer) bool {
	v := o.partOf(p)
	return v != nil && v.until != 0
}

// partsIn counts the parts that are here; only members of the roster are in the list.
func (o *Owner) partsIn() (n int) {
	for i := range o.parts.list {
		if o.parts.list[i].until != 0 {
			n++
		}
	}
	return n
}

// allIn reports whether no gateway may use a part.
func (o *Owner) allIn() bool { return !o.divided() || o.partsIn() == len(o.parts.roster.Members) }

func (o *Owner) partOf(p Peer) *part {
	for i := range o.parts.list {
		if o.parts.list[i].peer == p {
			return &o.parts.list[i]
		}
	}
	return nil
}

// callParts calls all parts that are at gateways, and reports whether one may come soon.
func (o *Owner) callParts(now int64, out Outbox) (missing bool) {
	if !o.divided() {
		return false
	}
	for _, p := range o.parts.roster.Members {
		if o.isIn(p) {
			continue
		}
		v := o.call(now, p, out)
		if v.slow = v.slow || now-v.since >= o.w.Hold/2; !v.slow {
			missing = true
		}
	}
	return missing
}

// call calls a part, unless it is called.
func (o *Owner) call(now int64, p Peer, out Outbox) *part {
	v := o.partOf(p)
	if v == nil {
		o.parts.list = append(o.parts.list, part{peer: p})
		v = &o.parts.list[len(o.parts.list)-1]
	}
	if v.since == 0 {
		v.since, v.slow = max(now, 1), false
		out.CallPart(p)
	}
	return v
}

// Calling returns the call that a gateway has not answered, as it is to be sent now; not ok: there is none.
func (o *Owner) Calling(now int64, p Peer) (c PartCall, ok bool) {
	if v := o.partOf(p); v == nil || v.since == 0 || !o.granting() {
		return PartCall{}, false
	}
	return PartCall{Owner: o.life, At: now, Lease: o.parts.lease, Rate: o.w.Rate, Burst: o.w.Burst}, true
}

// PartAnswer takes in the answer to a call.
func (o *Owner) PartAnswer(now int64, from Peer, a PartAnswer, out Outbox) {
	o.advance(now)
	v := o.partOf(from)
	if v == nil || a.Owner != o.life || v.since == 0 || a.At > now || !o.divided() {
		return
	}
	until := a.At + o.parts.lease
	if o.w.omits(ruleEcho) {
		until = now + o.parts.lease
	}
	if until <= now || a.At < v.since {
		return
	}
	here := v.until != 0
	v.until, v.since, v.slow = max(v.until, until), 0, false
	if !here {
		o.takeIn(from, &a)
	}
	o.serve(now, out)
}

// minds renews calls while the key is in use, calls parts if there is debt, and recalls what gateways have of called
// parts before these go back.
func (o *Owner) minds(now int64, out Outbox) {
	if !o.divided() || !o.granting() {
		return
	}
	rest := o.atRest(now)
	for _, p := range o.parts.roster.Members {
		v := o.partOf(p)
		if v == nil || v.until == 0 {
			continue
		}
		if v.until-now <= o.parts.lease/2 && !rest {
			o.call(now, p, out)
		}
		if v.until-now <= beforeLapse {
			o.recallWhere(out, func(u *user) bool { return u.exclusive || u.out() > 0 })
		}
	}
	if o.b.free(o.p) < 0 { // the debt is of the whole bucket, though nobody may wait for the parts
		o.callParts(now, out)
	}
	if !o.allIn() && slices.ContainsFunc(o.users, func(u user) bool { return u.exclusive }) {
		o.callParts(now, out) // what an earlier owner has called
	}
}

// atRest reports whether nobody uses the key, and its bucket is full.
func (o *Owner) atRest(now int64) bool {
	return o.b.spent == 0 && now-o.parts.used >= partPause && !o.inUse()
}

// inUse reports whether a gateway has something of the bucket, or wants it.
func (o *Owner) inUse() bool {
	return slices.ContainsFunc(o.users, func(u user) bool { return u.exclusive || u.ask.waiting || u.out() > 0 })
}

// partsDue returns when minds has something to do, or a gateway waits no longer for a part; 0: never.
func (o *Owner) partsDue() (due int64) {
	soon := func(at int64) {
		if due == 0 || at < due {
			due = at
		}
	}
	if !o.divided() || !o.granting() {
		return 0
	}
	waits := slices.ContainsFunc(o.users, func(u user) bool { return u.ask.waiting })
	for i := range o.parts.list {
		v := &o.parts.list[i]
		switch {
		case v.until == 0 && v.since+o.w.Hold/2 > o.b.at && v.since != 0 && !v.slow && waits:
			soon(v.since + o.w.Hold/2)
		case v.until == 0:
		case v.since == 0 && v.until-o.parts.lease/2 > o.b.at:
			soon(v.until - o.parts.lease/2)
		case v.until-beforeLapse > o.b.at:
			soon(v.until - beforeLapse)
		default:
			soon(v.until)
		}
	}
	return due
}

// horizon returns until when no part that is not at a gateway goes there.
func (o *Owner) horizon(now int64) int64 {
	h := now + o.parts.lease
	for i := range o.parts.list {
		switch v := &o.parts.list[i]; {
		case v.until != 0:
			h = min(h, v.until)
		case v.since != 0:
			h = min(h, v.since+o.parts.lease)
		}
	}
	return h
}

// valid returns Grant.Valid of what a gateway has now.
func (o *Owner) valid(now int64, u *user) int64 {
	switch {
	case u.recall.deaf || u.recall.open(): // it has what the owner has written off, or wants back
		return 0
	case !o.divided() || o.w.omits(ruleValid):
		return forever
	case u.exclusive && !o.allIn(), o.b.out > o.p.Burst:
		return 0
	}
	return max(1, o.horizon(now)-now)
}

// mayHandOver reports whether the bucket itself may go to a gateway. It needs all parts, which are called when so many
// questions have come that this costs less.
func (o *Owner) mayHandOver(now int64, out Outbox) bool {
	if now-o.parts.shrinks < second && o.parts.shrinks != 0 {
		return false
	}
	if o.allIn() {
		return o.horizon(now)-now >= o.parts.lease/4 || !o.divided() || o.w.omits(ruleAllIn)
	}
	p := &o.parts
	if now-p.asksAt > p.lease/2 {
		p.asks, p.asksAt = 0, now
	}
	if p.asks++; p.asks > 2*len(p.roster.Members) {
		o.callParts(now, out)
	}
	return o.w.omits(ruleAllIn)
}
