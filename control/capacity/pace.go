package capacity

// pace knows what the upstream has served of late. Two things that Measured does
// not need on paper, and an upstream on a busy machine does:
//
//   - the median of three rounds is its rate: in a round in which everything stood
//     still for a while (a collection, a starved processor) it served little, and
//     that is no capacity;
//   - what it served within the last while it will serve again, so the way back up
//     to nine tenths of that is not the slow one of probing.
type pace struct {
	last [3]float64 // rates of the last rounds, units/s, in turn
	next int
	best float64 // highest rate of late
}

const (
	// regain is how much an estimate grows a round on the way back. More is sooner
	// back and, where the capacity has really fallen, overshoots by as much.
	regain = 1.12
	// known is the part of the best rate up to which the way is known.
	known = .9
	// forget is what a round with a backlog leaves of the best rate, and fade what a
	// second does: a capacity that has fallen is soon no longer looked for.
	forget = .8
	fade   = 1. / 60
)

// median takes one round's rate and returns the middle one of the last three.
func (p *pace) median(rate float64) float64 {
	p.last[p.next] = rate
	p.next = (p.next + 1) % len(p.last)
	a, b, c := p.last[0], p.last[1], p.last[2]
	return max(min(a, b), min(max(a, b), c))
}

// recover takes what the law made of the estimate, and returns what to make of it
// where there is no backlog and the way up is known.
func (p *pace) recover(estimate, rate, backlog float64, a Answers) float64 {
	p.best *= max(0, 1-fade*a.Span)
	switch {
	case backlog > 0:
		p.best = max(rate, forget*p.best)
	case a.Binding && estimate < known*p.best:
		return min(regain*estimate, known*p.best)
	default:
		p.best = max(p.best, rate)
	}
	return estimate
}
