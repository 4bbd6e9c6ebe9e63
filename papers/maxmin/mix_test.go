package maxmin

import (
	"math"
	"math/rand/v2"
	"testing"
)

// mixed is the loop of several delays with the gains made for them, and its longest delay.
func mixed(rho, tau []float64) (l loop, longest float64) {
	var delays []Delay
	for i := range rho {
		delays = append(delays, Delay{Seconds: tau[i], Weight: rho[i]})
		longest = math.Max(longest, tau[i])
	}
	a, b := MixGains(delays)
	return loop{a, b, rho, tau}, longest
}

// For random mixes, their gains are stable and decay faster than gains for the longest delay. If the margin
// does not reduce them, no gains near them decay faster.
func TestMixGainsOfRandomMixes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		n, sum := 2+rng.IntN(5), 0.
		rho, tau := make([]float64, n), make([]float64, n)
		for i := range rho {
			rho[i], tau[i] = rng.Float64(), .1*rng.Float64()*rng.Float64()
			sum += rho[i]
		}
		for i := range rho {
			rho[i] /= sum
		}
		l, longest := mixed(rho, tau)
		a, b := gains(longest)
		d, before := l.decay(), loop{a, b, rho, tau}.decay()
		if !l.stable() || d < 1.5*before {
			t.Errorf("ρ %v, τ %v: stable %v, decay %.2f/s, %.2f/s with the gains of the longest delay", rho, tau,
				l.stable(), d, before)
		}
		if StableDelay(l.a, l.b) < 1.26*longest {
			continue
		}
		for _, k := range [][2]float64{{.9, 1}, {1.1, 1}, {1, .9}, {1, 1.1}, {.9, .81}, {1.1, 1.21}} {
			if other := (loop{l.a * k[0], l.b * k[1], rho, tau}).decay(); other > d*1.01 {
				t.Errorf("ρ %v, τ %v: decay %.2f/s, %.2f/s with the gains times %v", rho, tau, d, other, k)
			}
		}
	}
}
