package maxmin

import "math"

// CapacityPI is the discrete PI law as the loop around an allocator. It sets the capacity
// c that is shared out, so that the queue q behind the limiter stays at a target qT, for
// a pool whose rate μ is known:
//
//	e = q − qT;  c = μ − (a·e + b·Σe)/T,  clipped to [Σm, 1.2·μ]
//
// with the gains a and b of [Tune] and the sum Σm of the guarantees. At a clip the integral
// stops, or an idle pool would wind it up without bound. The product does not know μ and
// measures it (capacity.Measured). Where an upstream loses half of its rate, one round
// late, the backlog peaks at 289 with that and at 390 with this law, and settles in 6
// rounds against 15 (see the tests).
//
// Bad numbers: a queue, target or floor that is NaN or negative counts as 0, above
// 1e15 as that; a period below 1 µs as 0.25 s.
type CapacityPI struct {
	Period  float64 // T in seconds, > 0, default 0.25
	Nominal float64 // μ in units/s, > 0
	Target  float64 // qT in cost units, ≥ 0
	Delay   int     // d, rounds until a capacity shows in q

	law PI
}

// Step takes the queue behind the limiter (cost units) and returns the
// capacity to share, at least floor and at most 1.2·Nominal.
func (p *CapacityPI) Step(queued, floor float64) float64 {
	nominal, t := min(sane(p.Nominal), largest), seconds(p.Period)
	if nominal == 0 {
		return 0
	}
	high := 0.2 * nominal
	floor = min(sane(floor), largest)
	low := min(floor-nominal, high-math.SmallestNonzeroFloat64)
	p.law.Tuning = Tune(p.Delay)
	p.law.Min, p.law.Max = low*t, high*t
	c := nominal + p.law.Step(min(sane(queued), largest)-min(sane(p.Target), largest))/t
	return min(max(c, floor), 1.2*nominal) // again: the sum rounds
}

// seconds is a period as it is used.
func seconds(period float64) float64 {
	if !(period >= 1e-6) {
		return 0.25
	}
	return min(period, 1e9)
}
