package fairshare_test

import (
	"math"
	"testing"

	"github.com/titrate/titrate/control/fairshare"
)

func TestTuneVectors(t *testing.T) {
	for _, v := range vectors(t, "pi-tune") {
		var in struct{ D int }
		var want struct{ A, B, Radius float64 }
		decode(t, v.Input, &in)
		decode(t, v.Expect, &want)
		got := fairshare.Tune(in.D)
		if !near(got.A, want.A, v.Tol) || !near(got.B, want.B, v.Tol) || !near(got.Radius, want.Radius, v.Tol) {
			t.Errorf("%s: %+v, want %+v", v.ID, got, want)
		}
	}
}

func TestTrajectoryVectors(t *testing.T) {
	for _, v := range vectors(t, "pi-trajectory") {
		var in struct {
			D  int
			E0 float64
		}
		var want struct{ E []float64 }
		decode(t, v.Input, &in)
		decode(t, v.Expect, &want)
		law, e, pending := fairshare.PI{Tuning: fairshare.Tune(in.D)}, in.E0, make([]float64, in.D)
		for k, w := range want.E {
			pending = append(pending, law.Step(e))
			e += pending[0]
			pending = pending[1:]
			if !near(e, w, v.Tol) {
				t.Errorf("%s: e[%d] = %v, want %v", v.ID, k+1, e, w)
			}
		}
	}
}

// The tuned triple root is the best: no nearby gain decays faster.
func TestTuneIsOptimal(t *testing.T) {
	for d := 1; d <= 4; d++ {
		best := fairshare.Tune(d)
		rate := decay(best.A, best.B, d)
		for _, scale := range []float64{0.9, 1.1} {
			for _, other := range [][2]float64{{best.A * scale, best.B}, {best.A, best.B * scale}} {
				if r := decay(other[0], other[1], d); r < rate-1e-3 {
					t.Errorf("d=%d: gains %v decay at %v, the tuning at %v", d, other, r, rate)
				}
			}
		}
	}
}

// decay is the error's geometric rate of decay per round, observed late.
func decay(a, b float64, d int) float64 {
	law, e, pending := fairshare.PI{Tuning: fairshare.Tuning{A: a, B: b}}, 1.0, make([]float64, d)
	peak := [2]float64{}
	for k := range 400 {
		pending = append(pending, law.Step(e))
		e += pending[0]
		pending = pending[1:]
		switch {
		case k >= 100 && k < 140:
			peak[0] = math.Max(peak[0], math.Abs(e))
		case k >= 160 && k < 200:
			peak[1] = math.Max(peak[1], math.Abs(e))
		}
	}
	return math.Pow(peak[1]/peak[0], 1.0/60)
}

// An idle link clamps the command; the integral must not wind up meanwhile.
func TestPIDoesNotWindUp(t *testing.T) {
	law := fairshare.PI{Tuning: fairshare.Tune(1), Min: -1, Max: 1}
	for range 10000 {
		if u := law.Step(-50); u != 1 {
			t.Fatalf("command %v, want the clamp", u)
		}
	}
	rounds := 0
	for ; law.Step(1) > 0; rounds++ {
	}
	if rounds > 5 {
		t.Errorf("left the clamp after %d rounds", rounds)
	}
	if u := law.Step(math.NaN()); math.IsNaN(u) {
		t.Error("NaN in the command")
	}
}
