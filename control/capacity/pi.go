package capacity

import (
	"math"

	"github.com/titrate/titrate/control/fairshare"
)

// PI regulates the queue behind the limiter to a target with the discrete PI
// law around a nominal capacity:
//
//	e = q − qT;  c = μ − (a·e + b·Σe)/T,  clipped to [Σm, 1.2·μ]
//
// with the gains of [fairshare.Tune]. At a clip the integral stops, or an idle
// pool would wind it up without bound.
type PI struct {
	Period  float64 // T in seconds, > 0
	Nominal float64 // μ in units/s, > 0
	Target  float64 // qT in cost units, ≥ 0
	Delay   int     // d, rounds until a capacity shows in q

	law fairshare.PI
}

// Step takes the queue behind the limiter (cost units) and returns the
// capacity to share, at least floor and at most 1.2·Nominal.
func (p *PI) Step(queued, floor float64) float64 {
	high := 0.2 * p.Nominal
	low := min(sane(floor)-p.Nominal, high-math.SmallestNonzeroFloat64)
	p.law.Tuning = fairshare.Tune(p.Delay)
	p.law.Min, p.law.Max = low*p.Period, high*p.Period
	c := p.Nominal + p.law.Step(sane(queued)-p.Target)/p.Period
	return min(max(c, sane(floor)), 1.2*p.Nominal) // again: the sum rounds
}
