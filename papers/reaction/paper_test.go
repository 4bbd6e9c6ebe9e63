package reaction_test

import (
	"encoding/json"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/titrate/titrate/papers/reaction"
)

// expect unpacks the expected values of the reference vector id into v.
func expect(t *testing.T, id string, v any) {
	t.Helper()
	raw, err := os.ReadFile("../testdata/chemical.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []struct {
		ID     string
		Expect json.RawMessage
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	for _, x := range all {
		if x.ID == id {
			if err := json.Unmarshal(x.Expect, v); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("no vector %s", id)
}

func wantWithin(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tol) {
		t.Errorf("%s: %v, want %v within %v", what, got, want, tol)
	}
}

// run holds two inputs for span seconds at h = 1 ms and returns the output at
// the end, its peak and when that came.
func run(t *testing.T, a reaction.Adaptive, v *reaction.Vessel, in, ext, span float64) (out, peak, at float64) {
	t.Helper()
	v.SetInput(a.Int, in)
	v.SetInput(a.Ext, ext)
	const h = 1e-3
	for i := range int(math.Round(span / h)) {
		if err := v.Step(h); err != nil {
			t.Fatal(err)
		}
		if out = v.Flux(a.Out); out > peak {
			peak, at = out, float64(i+1)*h
		}
	}
	return out, peak, at
}

// Section 2.2, equation (1), whose ratio is inverted in print: the two-species
// bucket of figure 2 releases k2·e0·cS/(cS + k2/k1).
func TestFixedRateBucket(t *testing.T) {
	for _, c := range []struct{ k1, k2, e0, in float64 }{{1, 1, 100, 50}, {2, 10, 30, 299}, {0.1, 5, 200, 10}} {
		var k reaction.Kit
		s, e, es := k.Species("S"), k.Species("E"), k.Species("ES")
		k.React("r1", c.k1, []reaction.Species{s, e}, []reaction.Species{es})
		release := k.React("r2", c.k2, []reaction.Species{es}, []reaction.Species{e})
		in := k.Input("in", s)
		net, err := k.Build()
		if err != nil {
			t.Fatal(err)
		}
		v := reaction.NewVessel(net)
		v.SetAmount(e, c.e0)
		v.SetInput(in, c.in)
		if err := v.Settle(); err != nil {
			t.Fatal(err)
		}
		cs := v.Amount(s)
		wantWithin(t, "(1)", v.Flux(release), c.k2*c.e0*cs/(cs+c.k2/c.k1), 1e-8*c.in)
		wantWithin(t, "flow balance", v.Flux(release), c.in, 1e-8*c.in)
	}
}

// Section 4.1, (4) with e0 read as E0: the steady state at (500, 300), and the
// flow balances (2), with the factors c_S and c_T that the print lacks.
func TestSteadyState(t *testing.T) {
	a, v := adaptive(t, reaction.Table1())
	v.SetInput(a.Int, 500)
	v.SetInput(a.Ext, 300)
	if err := v.Settle(); err != nil {
		t.Fatal(err)
	}
	var want struct{ Out, S, E, T, ET, ES float64 }
	expect(t, "P1", &want)
	for what, x := range map[string][2]float64{
		"out": {v.Flux(a.Out), want.Out}, "S": {v.Amount(a.S), want.S}, "E": {v.Amount(a.E), want.E},
		"T": {v.Amount(a.T), want.T}, "ET": {v.Amount(a.ET), want.ET}, "ES": {v.Amount(a.ES), want.ES},
	} {
		wantWithin(t, what, x[0], x[1], 1e-3*x[1])
	}
	exact := 500. * 100 / (1 * (1000*100 - 500*101 - 300*100))
	wantWithin(t, "(4a)", v.Amount(a.S), exact, 1e-9*exact)
	wantWithin(t, "(2a)", v.Flux(a.Recharge), v.Flux(a.Bind)+v.Flux(a.Yield), 1e-7)
	wantWithin(t, "v3/v1", v.Flux(a.Yield)/v.Flux(a.Bind), v.Amount(a.T), 1e-10)
}

// Overload has no steady state: the backlog grows. Settle returns an error and does not change the vessel.
func TestOverloadDoesNotSettle(t *testing.T) {
	a, v := adaptive(t, reaction.Table1())
	v.SetInput(a.Int, 1400)
	v.SetInput(a.Ext, 600)
	if err := v.Settle(); err == nil {
		t.Error("an overloaded controller has no steady state")
	}
	if v.Amount(a.E) != 1000 || v.Amount(a.S) != 0 {
		t.Error("a failed Settle changed the vessel")
	}
}

// Figure 6(a), inputs within the limit. The deviation on the v_ext step is 0.648/s,
// at h = 1 ms and at 0.1 ms alike.
func TestFig6a(t *testing.T) {
	a, v := adaptive(t, reaction.Table1())
	v.SetInput(a.Int, 500)
	v.SetInput(a.Ext, 300)
	settled := 0.0
	for i := range 60000 {
		if err := v.Step(1e-3); err != nil {
			t.Fatal(err)
		}
		if math.Abs(v.Flux(a.Out)-500) > 25 {
			settled = float64(i+1) * 1e-3
		}
	}
	var want struct {
		Settling float64 `json:"settling_5pct_s"`
	}
	expect(t, "P2", &want)
	wantWithin(t, "settling", settled, want.Settling, 0.05)
	wantWithin(t, "out", v.Flux(a.Out), 500, 0.05)
	out, _, _ := run(t, a, v, 550, 300, 20)
	wantWithin(t, "v_int 550", out, 550, 0.05)
	worst := 0.0
	for range 2000 {
		out, _, _ := run(t, a, v, 550, 350, 0.01)
		worst = max(worst, math.Abs(out-550))
	}
	t.Logf("deepest dip on the v_ext step: %.3f", worst)
	wantWithin(t, "v_ext 350", worst, 0, 0.66)
}

// Figure 6(b), above the limit: deaf to v_int, yielding to v_ext.
func TestFig6b(t *testing.T) {
	a, v := adaptive(t, reaction.Table1())
	out, peak, at := run(t, a, v, 1400, 600, 60)
	wantWithin(t, "out", out, 396.04, 0.1)
	wantWithin(t, "peak", peak, 671.7, 1)
	wantWithin(t, "time of the peak", at, 0.74, 0.01)
	next, _, _ := run(t, a, v, 1450, 600, 10)
	wantWithin(t, "v_int 1450", next, out, 0.02)
	out, _, _ = run(t, a, v, 1450, 650, 30)
	wantWithin(t, "v_ext 650", out, 346.53, 0.1)
}

// The same figure from a trajectory with controlled error, in few steps.
func TestFig6bAdvance(t *testing.T) {
	a, v := adaptive(t, reaction.Table1())
	v.SetInput(a.Int, 1400)
	v.SetInput(a.Ext, 600)
	steps, err := v.Advance(60, 1e-3)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d steps: out %.3f", steps, v.Flux(a.Out))
	wantWithin(t, "out", v.Flux(a.Out), 396.04, 0.5)
	if steps > 5000 {
		t.Errorf("%d steps", steps)
	}
}

// Table 1's capacity, which the paper gives as k2·E0 and as k4·E0.
func TestCapacity(t *testing.T) {
	a, v := adaptive(t, reaction.Table1())
	out, _, _ := run(t, a, v, 5000, 0, 60)
	wantWithin(t, "v_max", out, 1000.*100*1/(100+1), 0.05)
}

// at500300 is the linearisation at the operating point of figure 6(a).
func at500300(t *testing.T) (reaction.Adaptive, *reaction.Vessel, *reaction.Linear) {
	t.Helper()
	a, v := adaptive(t, reaction.Table1())
	v.SetInput(a.Int, 500)
	v.SetInput(a.Ext, 300)
	if err := v.Settle(); err != nil {
		t.Fatal(err)
	}
	return a, v, v.Linearize()
}

func TestPoles(t *testing.T) {
	_, _, l := at500300(t)
	var want struct{ Poles []float64 }
	expect(t, "P9", &want)
	poles := l.Poles()
	if len(poles) != 5 {
		t.Fatalf("%d poles, want 5: E+ES+ET is no state", len(poles))
	}
	for _, w := range want.Poles {
		best := math.Inf(1)
		for _, p := range poles {
			best = min(best, cmplx.Abs(p-complex(w, 0)))
		}
		if best > 1e-3*max(1, math.Abs(w)) {
			t.Errorf("no pole at %v among %.5f", w, poles)
		}
	}
	t.Logf("poles %.5f", poles)
}

// operating draws constants and an operating point within the limit.
func operating(t *testing.T, rng *rand.Rand) (reaction.Constants, reaction.Adaptive, *reaction.Vessel) {
	t.Helper()
	decade := func(lo, hi float64) float64 { return math.Pow(10, lo+(hi-lo)*rng.Float64()) }
	p := reaction.Constants{Enzyme: decade(1, 3), K1: decade(-1, 1), K2: decade(0, 2), K3: decade(-1, 1),
		K4: decade(-1, 1), KF: decade(-1, 1)}
	a, v := adaptive(t, p)
	ext := p.K4 * p.Enzyme * (0.05 + 0.85*rng.Float64())
	in := (p.K4*p.Enzyme - ext) / (1 + p.K4/p.K2) * (0.05 + 0.9*rng.Float64()) // (5)
	v.SetInput(a.Int, in)
	v.SetInput(a.Ext, ext)
	if err := v.Settle(); err != nil {
		t.Fatalf("%+v in=%g ext=%g: %v", p, in, ext, err)
	}
	return p, a, v
}

// sigma is the corrected σ(s) of (12), highest power first. In print the
// coefficients of s³, s² and s are wrong.
func sigma(p reaction.Constants, s, e, t float64) []float64 {
	return []float64{1,
		p.K2 + p.K4 + p.K1*(s+e) + p.K3*s*(e+t),
		p.K1*p.K3*s*e*(s+e) + p.K3*s*e*(p.K2+p.K4) + p.K2*p.K3*s*t + p.K1*(p.K2+p.K4)*(s+e) + p.K2*p.K4,
		e * (p.K1*p.K3*s*(p.K2+p.K4)*(e+s) + p.K2*p.K3*p.K4*s + p.K1*p.K2*p.K4),
		p.K1 * p.K2 * p.K3 * p.K4 * s * e * e}
}

// horner is the polynomial's value at x.
func horner(poly []float64, x complex128) (sum complex128) {
	for _, c := range poly {
		sum = sum*x + complex(c, 0)
	}
	return sum
}

// (12a) as printed, (12b) with its sign corrected, σ(s) with its coefficients
// corrected, at random operating points; and the claim "always real poles",
// which is false. None is unstable.
func TestTransferFunctions(t *testing.T) {
	rng, crooked := rand.New(rand.NewPCG(1, 2)), 0
	const points = 300
	for range points {
		p, a, v := operating(t, rng)
		l := v.Linearize()
		s, e, load := v.Amount(a.S), v.Amount(a.E), v.Amount(a.T)
		poly := sigma(p, s, e, load)
		den := l.ToFlux(a.Int, a.Out).Denominator()
		for i, want := range times(poly, []float64{1, p.KF}) {
			if !near(den[i], want, 1e-7, want) {
				t.Fatalf("σ(s)(s+kF), coefficient %d: %g, want %g", i, den[i], want)
			}
		}
		in, ext := v.Flux(a.Bind), v.Flux(a.Yield)
		for _, x := range []complex128{0.1i, 1i, 10i, 3 + 2i} {
			below := (x + complex(p.KF, 0)) * horner(poly, x)
			k := complex(p.K2*p.KF, 0)
			want := complex(in/s, 0) * k * (x + complex(p.K3/p.K1*in, 0)) * (x + complex(p.K4, 0)) / below
			if got := l.ToFlux(a.Int, a.Out).At(x); cmplx.Abs(got-want) > 1e-8*cmplx.Abs(want) {
				t.Fatalf("(12a) at %v: %v, want %v", x, got, want)
			}
			want = complex(-ext*in/(e*load), 0) * k * x / below
			if got := l.ToFlux(a.Ext, a.Out).At(x); cmplx.Abs(got-want) > 1e-7*cmplx.Abs(want) {
				t.Fatalf("(12b) at %v: %v, want %v", x, got, want)
			}
		}
		bent := false
		for _, pole := range l.Poles() {
			if !(real(pole) < 0) {
				t.Fatalf("unstable pole %v", pole)
			}
			bent = bent || imag(pole) != 0
		}
		if bent {
			crooked++
		}
	}
	t.Logf("complex poles at %d of %d operating points", crooked, points)
	if crooked == 0 {
		t.Error("the paper's claim of real poles should be false")
	}
}

// times multiplies two polynomials.
func times(a, b []float64) []float64 {
	out := make([]float64, len(a)+len(b)-1)
	for i, x := range a {
		for j, y := range b {
			out[i+j] += x * y
		}
	}
	return out
}

// (13): at the limit the controller no longer depends on v_int, and its static gain from v_ext is −k2/(k2+k4).
// (13b) itself, −k2·kF/((s+kF)(s+k2+k4)), holds for slow changes only: see atLimit.
func TestTransferAtTheLimit(t *testing.T) {
	a, v := adaptive(t, reaction.Table1())
	exact, share := atLimit(t, 11)
	v.SetInput(a.Int, share*(1-1e-6))
	v.SetInput(a.Ext, 10*share)
	if err := v.Settle(); err != nil {
		t.Fatal(err)
	}
	l := v.Linearize()
	for _, w := range []float64{0.01, 0.1, 1, 10, 100} {
		s := complex(0, w)
		got := l.ToFlux(a.Ext, a.Out).At(s)
		if want := exact.At(s); cmplx.Abs(got-want) > 1e-3*cmplx.Abs(want) {
			t.Errorf("ω=%v: %v, want %v", w, got, want)
		}
		if want := -100 / ((s + 1) * (s + 101)); w <= 0.1 && cmplx.Abs(got-want) > 0.02*cmplx.Abs(want) {
			t.Errorf("(13b) at ω=%v: %v, want %v", w, got, want)
		}
		if got := l.ToFlux(a.Int, a.Out).At(s); cmplx.Abs(got) > 1e-3 {
			t.Errorf("(13a) at ω=%v: %v, want 0", w, got)
		}
	}
}
