package capacity

// recent remembers the rates that the upstream served in the last rounds. It corrects two
// effects that theory leaves out, but that an upstream on a busy machine shows:
//
//   - The rate of a round is the median of three rounds. In a round in which everything
//     stood still for a while (a collection, a starved processor) little was served,
//     which says nothing about the capacity.
//   - A rate that was served recently can be served again. The estimate returns to nine
//     tenths of that rate faster than by the 3 % a round of Measured.
type recent struct {
	last [3]float64 // rates of the last rounds, units/s, in turn
	next int
	best float64 // highest rate of late, units/s
}

const (
	// regain is the factor by which an estimate grows a round on the way back. More is sooner
	// back and, where the capacity has really fallen, overshoots by as much.
	regain = 1.12
	// known is the part of the best rate up to which the estimate grows that fast.
	known = .9
	// forget is the part of the best rate that a round with a backlog leaves, and fade
	// the part that a second takes away. A capacity that has fallen is soon no longer
	// expected back.
	forget = .8
	fade   = 1. / 60
)

// median adds one round's rate and returns the middle one of the last three.
func (r *recent) median(rate float64) float64 {
	r.last[r.next] = rate
	r.next = (r.next + 1) % len(r.last)
	a, b, c := r.last[0], r.last[1], r.last[2]
	return max(min(a, b), min(max(a, b), c))
}

// recover returns the next estimate: the given one, or a higher one if there is no
// backlog and the upstream served more recently.
func (r *recent) recover(estimate, rate, backlog float64, a Answers) float64 {
	r.best *= max(0, 1-fade*a.Span)
	switch {
	case backlog > 0:
		r.best = max(rate, forget*r.best)
	case a.Binding && estimate < known*r.best:
		return min(regain*estimate, known*r.best)
	default:
		r.best = max(r.best, rate)
	}
	return estimate
}
