package maxmin_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/vectortest"
	"github.com/titrate/titrate/papers/maxmin"
)

func TestTuneVectors(t *testing.T) {
	for _, v := range vectortest.Read(t, "../testdata/gains-and-marking.json", "pi-tune") {
		var in struct{ D int }
		var want struct{ A, B, Radius float64 }
		vectortest.Decode(t, v.Input, &in)
		vectortest.Decode(t, v.Expect, &want)
		got := maxmin.Tune(in.D)
		if !vectortest.Near(got.A, want.A, v.Tol) || !vectortest.Near(got.B, want.B, v.Tol) || !vectortest.Near(got.Radius, want.Radius, v.Tol) {
			t.Errorf("%s: %+v, want %+v", v.ID, got, want)
		}
	}
}

func TestTrajectoryVectors(t *testing.T) {
	for _, v := range vectortest.Read(t, "../testdata/gains-and-marking.json", "pi-trajectory") {
		var in struct {
			D  int
			E0 float64
		}
		var want struct{ E []float64 }
		vectortest.Decode(t, v.Input, &in)
		vectortest.Decode(t, v.Expect, &want)
		law, e, pending := maxmin.PI{Tuning: maxmin.Tune(in.D)}, in.E0, make([]float64, in.D)
		for k, w := range want.E {
			pending = append(pending, law.Step(e))
			e += pending[0]
			pending = pending[1:]
			if !vectortest.Near(e, w, v.Tol) {
				t.Errorf("%s: e[%d] = %v, want %v", v.ID, k+1, e, w)
			}
		}
	}
}

// The tuned triple root is the best: no nearby gain decays faster.
func TestTuneIsOptimal(t *testing.T) {
	for d := 1; d <= 4; d++ {
		best := maxmin.Tune(d)
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
	law, e, pending := maxmin.PI{Tuning: maxmin.Tuning{A: a, B: b}}, 1.0, make([]float64, d)
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
	law := maxmin.PI{Tuning: maxmin.Tune(1), Min: -1, Max: 1}
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

// Whatever the error and the gains, the command is a number within the clamp, and a
// good error afterwards gives a good command.
func TestPIBadNumbers(t *testing.T) {
	bad := rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0, 1, 1e-7, 1e7, math.MaxFloat64})
	rapid.Check(t, func(t *rapid.T) {
		law := maxmin.PI{Tuning: maxmin.Tuning{A: bad.Draw(t, "A"), B: bad.Draw(t, "B")}, Min: bad.Draw(t, "min"),
			Max: bad.Draw(t, "max")}
		for range 20 {
			u := law.Step(bad.Draw(t, "e"))
			if math.IsNaN(u) || law.Max != 0 && u > law.Max || u < law.Min && !(law.Min > law.Max) && law.Min != 0 {
				t.Fatalf("%+v commands %v", law, u)
			}
		}
		for _, d := range []int{-1, 0, 3, 1e6} {
			if g := maxmin.Tune(d); !(g.A > 0 && g.B > 0 && g.A <= 1) {
				t.Fatalf("Tune(%d) = %+v", d, g)
			}
		}
		for _, v := range []float64{maxmin.StableV(bad.Draw(t, "U")), maxmin.StableDelay(bad.Draw(t, "a"),
			bad.Draw(t, "b"))} {
			if math.IsNaN(v) || v < 0 {
				t.Fatalf("a bound of %v", v)
			}
		}
	})
}

func TestPIAllocatesNothing(t *testing.T) {
	law := maxmin.PI{Tuning: maxmin.Tune(2), Min: -1, Max: 1}
	if n := testing.AllocsPerRun(100, func() { law.Step(.1) }); n != 0 {
		t.Errorf("%v allocations per step", n)
	}
}

func BenchmarkPI(b *testing.B) {
	law := maxmin.PI{Tuning: maxmin.Tune(2), Min: -1, Max: 1}
	b.ReportAllocs()
	for b.Loop() {
		law.Step(.1)
	}
}
