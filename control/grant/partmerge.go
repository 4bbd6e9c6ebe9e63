package grant

import "math"

// profile bounds what a bucket has admitted.
type profile struct {
	rate, d, whole float64 // millionths per nanosecond, millionths
	full           float64 // nanoseconds
}

// at is h(a), r the rate of the whole limit.
func (p *profile) at(a, r float64) float64 {
	if p.d == 0 {
		return -p.rate * min(a, p.full)
	}
	return min(p.d, p.whole+(r-p.rate)*a)
}

// corner returns the a at which the two lines of h meet.
func (p *profile) corner(r float64) float64 {
	switch {
	case p.d == 0:
		return p.full
	case r <= p.rate:
		return 0
	}
	return max(0, p.d-p.whole) / (r - p.rate)
}

// takeIn adds a part to the owner's bucket.
func (o *Owner) takeIn(from Peer, a *PartAnswer) {
	const perNS = float64(Token) / second
	r := o.w.Rate * perNS
	mine := profile{rate: o.p.Rate * perNS, d: float64(o.b.spent), whole: float64(o.b.spent) - o.b.gapNow()}
	if o.b.spent == 0 {
		mine.full = float64(o.b.full())
	}
	gain := o.resize()
	missing := max(0, gain-max(0, a.Size)) // the gateway may have divided by more than is counted here
	hadNone := a.Size >= o.w.Burst
	if since := o.parts.roster.since(from); hadNone && since != 0 && !o.w.omits(ruleSince) {
		p := o.w.scale(float64(gain) / float64(o.w.Burst))
		missing = max(missing, gain-int64(min(p.cost(o.b.at-since), float64(gain))))
	}
	if o.w.omits(ruleSize) {
		missing = 0
	}
	spent := missing + min(max(0, a.Spent), debtBursts*o.w.Burst) // it may lie
	theirs := profile{rate: float64(gain) / float64(o.w.Burst) * r, d: float64(spent),
		whole: float64(min(missing+max(0, a.Whole), spent)), full: float64(min(max(0, a.Full), forever))}
	if a.Given != o.life {
		o.takeForeign(spent)
		return
	}
	d, whole := 0., 0.
	for _, x := range [...]float64{0, mine.corner(r), theirs.corner(r)} {
		sum := mine.at(x, r) + theirs.at(x, r)
		d, whole = max(d, sum), max(whole, sum-(r-mine.rate-theirs.rate)*x)
	}
	if o.w.omits(ruleLevels) {
		d, whole = mine.d, mine.d
	}
	total, full := max(min(int64(math.Ceil(d)), debtBursts*o.w.Burst), o.b.out), int64(0)
	if total == o.b.out {
		full = int64(min(mine.full, theirs.full))
	}
	o.b.fill(total, full)
	o.b.gap = max(0, float64(total)-whole)
}

// takeForeign takes in a part that was given to an earlier owner: what was spent of it is in what gateways have
// registered, if they know it.
func (o *Owner) takeForeign(spent int64) {
	p := &o.parts
	p.foreign = max(0, p.foreign-int64(o.w.cost(o.b.at-p.seenAt))) + spent
	p.seenAt = o.b.at
	if p.foreign > o.b.spent {
		o.b.fill(min(p.foreign, debtBursts*o.w.Burst), 0)
	}
}
