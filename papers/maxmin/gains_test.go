package maxmin_test

import (
	"math"
	"testing"

	"github.com/titrate/titrate/control/vectortest"
	"github.com/titrate/titrate/papers/maxmin"
)

// paperDelays returns the delays of the paper's figure 4, with equal weights.
func paperDelays() []maxmin.Delay {
	var out []maxmin.Delay
	for _, ms := range []float64{20, 30, 40, 50, 60, 70} {
		out = append(out, maxmin.Delay{Seconds: ms / 1000, Weight: 2})
	}
	return out
}

// fades plays e' = −Σρ·(A·e(t−τ) + B·∫e(t−τ)) from e = 1 in steps of 0.1 ms and returns the
// decay of |e| between two times, 1/s.
func fades(a, b float64, delays []maxmin.Delay, from, to float64) float64 {
	const step = 1e-4
	weight, e, sum := 0.0, []float64{1}, []float64{0}
	for _, d := range delays {
		weight += d.Weight
	}
	for k := 0; float64(k)*step < to; k++ {
		slope := 0.0
		for _, d := range delays {
			if at := k - int(d.Seconds/step+.5); at >= 0 {
				slope -= d.Weight / weight * (a*e[at] + b*sum[at])
			}
		}
		e, sum = append(e, e[k]+step*slope), append(sum, sum[k]+step*e[k])
	}
	largest := func(at float64) float64 { // within 70 ms
		most := 0.0
		for _, v := range e[int((at-.07)/step):int(at/step)] {
			most = math.Max(most, math.Abs(v))
		}
		return most
	}
	return math.Log(largest(from)/largest(to)) / (to - from)
}

// Gains for all delays settle the loop more than twice as fast as gains for the longest delay, and are stable
// even if all delays are 1.25 times the longest.
func TestMixGains(t *testing.T) {
	delays := paperDelays()
	a, b := maxmin.MixGains(delays)
	longA, longB := maxmin.BestGains(.07)
	mix, long := fades(a, b, delays, 1.5, 2.5), fades(longA, longB, delays, 1.5, 2.5)
	t.Logf("decay: %.2f/s, with the gains of the longest delay %.2f/s", mix, long)
	if mix < 2*long || mix < 10 {
		t.Errorf("decay %.2f/s, with the gains of the longest delay %.2f/s", mix, long)
	}
	if tau := maxmin.StableDelay(a, b); tau < 1.25*.07 {
		t.Errorf("stable up to %v s", tau)
	}
	late := []maxmin.Delay{{Seconds: 1.2 * .07, Weight: 1}}
	if d := fades(a, b, late, .5, 3); d <= 0 {
		t.Errorf("all at 1.2 times the longest delay: decay %v/s", d)
	}
}

// A few late sources among many fast ones slow the gains only as far as stability needs.
func TestMixGainsKeepsTheMargin(t *testing.T) {
	delays := []maxmin.Delay{{Seconds: .001, Weight: 100}, {Seconds: .2, Weight: 1}}
	a, b := maxmin.MixGains(delays)
	if tau := maxmin.StableDelay(a, b); !vectortest.Near(tau, 1.25*.2, 1e-6) {
		t.Errorf("stable up to %v s, want 0.25", tau)
	}
}

func TestMixGainsEdges(t *testing.T) {
	one := func(s float64) []maxmin.Delay { return []maxmin.Delay{{Seconds: s, Weight: 3}} }
	for _, s := range []float64{1e-6, .07, 30} {
		a, b := maxmin.MixGains(one(s))
		wantA, wantB := maxmin.BestGains(s)
		if !vectortest.Near(a/wantA, 1, 1e-6) || !vectortest.Near(b/wantB, 1, 1e-6) {
			t.Errorf("one delay of %v s: %v, %v, want %v, %v", s, a, b, wantA, wantB)
		}
	}
	bad := []float64{math.NaN(), math.Inf(1), -1, 0, 1e-300, 1e300}
	for _, s := range bad {
		for _, w := range bad {
			a, b := maxmin.MixGains([]maxmin.Delay{{Seconds: s, Weight: w}, {Seconds: .01, Weight: 1},
				{Seconds: 5, Weight: w}})
			if !(a > 0 && b > 0) || math.IsInf(a, 1) || math.IsInf(b, 1) {
				t.Errorf("delay %v, weight %v: %v, %v", s, w, a, b)
			}
		}
	}
	if a, b := maxmin.MixGains(nil); !(a > 0 && b > 0) {
		t.Errorf("no delays: %v, %v", a, b)
	}
}
