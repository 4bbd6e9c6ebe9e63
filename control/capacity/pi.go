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
// pool would wind it up without bound. Bad numbers: see the package comment.
type PI struct {
	Period  float64 // T in seconds, > 0, default 0.25
	Nominal float64 // μ in units/s, > 0
	Target  float64 // qT in cost units, ≥ 0
	Delay   int     // d, rounds until a capacity shows in q

	law fairshare.PI
}

// Step takes the queue behind the limiter (cost units) and returns the
// capacity to share, at least floor and at most 1.2·Nominal.
func (p *PI) Step(queued, floor float64) float64 {
	nominal, t := sane(p.Nominal), seconds(p.Period)
	if nominal == 0 {
		return 0
	}
	high := 0.2 * nominal
	low := min(sane(floor)-nominal, high-math.SmallestNonzeroFloat64)
	p.law.Tuning = fairshare.Tune(p.Delay)
	p.law.Min, p.law.Max = low*t, high*t
	c := nominal + p.law.Step(sane(queued)-sane(p.Target))/t
	return min(max(c, sane(floor)), 1.2*nominal) // again: the sum rounds
}
