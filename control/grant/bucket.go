package grant

import "slices"

// bucket is a token bucket of which some tokens are out: granted, not spent.
//
//	D' = −r while D > out, else 0        0 ≤ out ≤ D, unless debt: D ≤ 2b
type bucket struct {
	spent  int64   // D
	out    int64   // granted and not spent, as far as was reported
	at     int64   // time of spent
	rest   float64 // refill below a millionth, in [0, 1)
	missed [5]span // when refill was turned away at D = out, oldest first
	spans  int

	refilled int64 // in all; it may wrap around
}

// span is a time interval [from, to).
type span struct{ from, to int64 }

// memory is the time for which turned-away refill is remembered: an older report is
// not compensated.
const memory = 3 * second

// advance refills up to now.
func (b *bucket) advance(p Params, now int64) {
	dt := now - b.at
	if dt <= 0 {
		return
	}
	room := b.spent - b.out
	gain := p.cost(dt) + b.rest
	if gain < float64(room) {
		whole := int64(gain)
		b.spent -= whole
		b.refilled += whole
		b.rest = gain - float64(whole)
		b.at = now
		return
	}
	full := b.at
	if rest := float64(room) - b.rest; rest > 0 {
		full += p.time(int64(rest))
	}
	b.refilled += max(0, room)
	b.spent, b.rest, b.at = min(b.spent, b.out), 0, now
	b.miss(span{min(full, now), now})
}

// rounding is the most, in millionths, by which refill may fall short of exact arithmetic.
const rounding = 4

// full returns for how long, in nanoseconds up to the time of spent, refill has been turned
// away without a break.
func (b *bucket) full() int64 {
	if b.spans == 0 || b.missed[b.spans-1].to != b.at {
		return 0
	}
	return b.at - b.missed[b.spans-1].from
}

// fill puts D in force, with refill turned away for so long.
func (b *bucket) fill(spent, full int64) {
	b.spent, b.spans, full = spent, 0, min(full, memory)
	if spent == b.out && full > 0 {
		b.miss(span{b.at - full, b.at})
	}
}

// waited refills what a charge would have refilled if it had been made when its request
// came, p.Due before now at most. A request that waits pays late, and a full bucket turns
// refill away meanwhile.
func (b *bucket) waited(p Params, since, charge int64) {
	if since = max(since, b.at-p.Due); since < b.at {
		b.late(p, since, min(charge, int64(p.cost(b.at-since))))
	}
}

// giveBack takes off D what was granted and not spent. What of it was taken for spent may have been refilled
// since: a bucket that had not granted it would have turned that refill away.
func (b *bucket) giveBack(p Params, amount int64) {
	refilled := amount - max(0, b.spent-b.out)
	b.spent = max(b.spent-amount, b.out)
	if refilled <= 0 {
		return
	}
	b.refilled -= refilled
	s := span{b.at - p.time(refilled), b.at}
	if last := b.spans - 1; last >= 0 && b.missed[last].to == b.at {
		s.from -= s.to - b.missed[last].from
		b.spans--
		if last > 0 {
			s.from = max(s.from, b.missed[last-1].to)
		}
	}
	b.miss(s)
}

// miss remembers an interval of turned-away refill.
func (b *bucket) miss(s span) {
	b.forget(s.to - memory)
	if s.from >= s.to {
		return
	}
	if last := b.spans - 1; last >= 0 && b.missed[last].to >= s.from {
		b.missed[last].to = s.to
		return
	}
	var all [len(b.missed) + 1]span
	b.keep(append(append(all[:0], b.missed[:b.spans]...), s))
}

// keep remembers intervals, oldest first. If there is one too many, the shortest goes, so that short pauses of now do
// not displace a long one. The latest two stay, since requests that wait now have met them.
func (b *bucket) keep(all []span) {
	all = slices.DeleteFunc(all, func(s span) bool { return s.from >= s.to })
	if len(all) > len(b.missed) {
		shortest := 0
		for i, s := range all[:len(all)-2] {
			if s.to-s.from < all[shortest].to-all[shortest].from {
				shortest = i
			}
		}
		all = slices.Delete(all, shortest, shortest+1)
	}
	b.spans = copy(b.missed[:], all)
}

// forget drops what is older than t.
func (b *bucket) forget(t int64) {
	for b.spans > 0 && b.missed[0].to <= t {
		copy(b.missed[:], b.missed[1:b.spans])
		b.spans--
	}
}

// late adds the refill that spends reported only now would have got since the given time:
// at most amount, at most what was turned away since then, and nothing twice.
func (b *bucket) late(p Params, since, amount int64) {
	amount = min(amount, b.spent-b.out)
	if amount <= 0 || b.spans == 0 {
		return
	}
	var room [len(b.missed) + 1]span
	left := room[:0] // one of the intervals has a part before since
	for _, s := range b.missed[:b.spans] {
		if from := max(s.from, since); amount > 0 && from < s.to {
			used := min(p.time(amount), s.to-from)
			got := min(amount, int64(p.cost(used)))
			amount -= got
			b.spent -= got
			b.refilled += got
			if s.from < from {
				left = append(left, span{s.from, from})
			}
			s.from = from + used
		}
		left = append(left, s)
	}
	b.keep(left)
}

// lateFor refills what spends of so much, charged only now, would have refilled since they were made.
func (b *bucket) lateFor(p Params, now, charged int64, all [Refills]Refill) {
	for i := len(all) - 1; i >= 0; i-- {
		refilled := max(0, min(all[i].Amount, charged))
		charged -= refilled
		b.late(p, now-max(0, all[i].Age), refilled)
	}
}

// free returns L = b − D; negative while there is debt.
func (b *bucket) free(p Params) int64 { return p.Burst - b.spent }

// carry carries D over to a bucket of another depth, as drc.Carry does. What is out stays out: the
// gateways have it.
func (b *bucket) carry(from, to int64) {
	part := b.spent - b.out
	if from > to {
		part = int64(float64(part) * float64(to) / float64(from))
	}
	b.spent = b.out + min(part, to)
}

// charge adds cost to D. Debt beyond one more burst of the limit is forgiven: the limit must not
// be blocked for longer than it takes to refill two. Debt of other sites stands.
func (b *bucket) charge(burst, cost int64) {
	b.spent = max(b.out, min(b.spent+cost, max(b.spent, 2*burst)))
}
