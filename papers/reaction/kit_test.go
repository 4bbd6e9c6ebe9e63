package reaction_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/papers/reaction"
)

// soup is a random network of conserving reactions (as many molecules out as
// in) with inputs and leaks, in a random state.
func soup(t *rapid.T) (*reaction.Vessel, int) {
	var k reaction.Kit
	n := rapid.IntRange(2, 6).Draw(t, "species")
	for i := range n {
		k.Species(fmt.Sprint("X", i))
	}
	pick := rapid.Custom(func(t *rapid.T) reaction.Species {
		return reaction.Species(rapid.IntRange(0, n-1).Draw(t,
			"s"))
	})
	for r := range rapid.IntRange(1, 6).Draw(t, "reactions") {
		order := rapid.IntRange(1, 3).Draw(t, "order")
		in, out := rapid.SliceOfN(pick, order, order).Draw(t, "in"), rapid.SliceOfN(pick, order, order).Draw(t, "out")
		if rapid.IntRange(0, 4).Draw(t, "leak") == 0 {
			out = nil
		}
		k.React(fmt.Sprint("r", r), math.Pow(10, rapid.Float64Range(-3.5, 3.5).Draw(t, "k")), in, out)
	}
	in := k.Input("in", 0)
	net, err := k.Build()
	if err != nil {
		t.Fatal(err)
	}
	v := reaction.NewVessel(net)
	for i := range n {
		v.SetAmount(reaction.Species(i), rapid.Float64Range(0, 100).Draw(t, "amount"))
	}
	v.SetInput(in, rapid.Float64Range(0, 50).Draw(t, "input"))
	return v, n
}

// stepIn steps by h. If that is refused, which is rare, it takes smaller steps, as the error advises.
func stepIn(v *reaction.Vessel, h float64, halvings int) error {
	err := v.Step(h)
	if err == nil || halvings == 0 {
		return err
	}
	if err := stepIn(v, h/2, halvings-1); err != nil {
		return err
	}
	return stepIn(v, h/2, halvings-1)
}

// Whatever the network and the step: amounts stay positive and conserved sums
// stay put.
func TestStepIsPositiveAndConserves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v, n := soup(t)
		laws := v.Network().Conserved()
		sum := func(law []float64) (s, size float64) {
			for i, w := range law {
				s += w * v.Amount(reaction.Species(i))
				size += math.Abs(w) * v.Amount(reaction.Species(i))
			}
			return s, size
		}
		var before, sizes []float64
		for _, law := range laws {
			s, size := sum(law)
			before, sizes = append(before, s), append(sizes, size)
		}
		for range rapid.IntRange(1, 10).Draw(t, "steps") {
			if err := stepIn(v, math.Pow(10, rapid.Float64Range(-6, 3).Draw(t, "log h")), 12); err != nil {
				t.Fatal(err)
			}
			for i := range n {
				if x := v.Amount(reaction.Species(i)); !(x >= 0) || math.IsInf(x, 1) {
					t.Fatalf("species %d: %v", i, x)
				}
			}
			for l, law := range laws {
				now, size := sum(law)
				if !near(now, before[l], 1e-12, max(sizes[l], size, 1)) {
					t.Fatalf("law %v: %v, was %v", law, now, before[l])
				}
			}
		}
	})
}

// Every conserved sum is orthogonal to every column of Ψ, and with the rank they
// make up all species.
func TestConservedSums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v, n := soup(t)
		psi, laws := v.Network().Stoichiometry(), v.Network().Conserved()
		for _, law := range laws {
			for c := range psi[0] {
				dot := 0.0
				for i := range n {
					dot += law[i] * psi[i][c]
				}
				if math.Abs(dot) > 1e-9 {
					t.Fatalf("law %v changes with column %d of %v", law, c, psi)
				}
			}
		}
	})
	a, _ := adaptive(t, reaction.Table1())
	if got := fmt.Sprint(a.Conserved()); got != "[[0 1 1 1 0 0]]" {
		t.Errorf("the adaptive controller conserves %v, want E+ES+ET", got)
	}
}

// The integrator is of order 1: halving h halves the error. The oracle is the
// classical Runge-Kutta method with tiny steps.
func TestOrderOfConvergence(t *testing.T) {
	exact := oracle(0.3)
	var errs []float64
	for _, n := range []int{300, 600, 1200} {
		a, v := adaptive(t, reaction.Table1())
		v.SetInput(a.Int, 500)
		v.SetInput(a.Ext, 300)
		for range n {
			if err := v.Step(0.3 / float64(n)); err != nil {
				t.Fatal(err)
			}
		}
		errs = append(errs, math.Abs(v.Amount(a.F)-exact[5]))
	}
	for i := range 2 {
		if ratio := errs[i] / errs[i+1]; ratio < 1.8 || ratio > 2.2 {
			t.Errorf("errors %v: ratio %v, want 2", errs, ratio)
		}
	}
	a, v := adaptive(t, reaction.Table1())
	v.SetInput(a.Int, 500)
	v.SetInput(a.Ext, 300)
	steps, err := v.Advance(0.3, 1e-4)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("errors %.3g; Advance: %.3g in %d steps", errs, math.Abs(v.Amount(a.F)-exact[5]), steps)
	wantWithin(t, "Advance", v.Amount(a.F), exact[5], 0.01*exact[5])
}

// oracle integrates the paper's (3) at (500, 300) by hand-written equations.
func oracle(span float64) [6]float64 {
	rate := func(c [6]float64) (d [6]float64) {
		s, e, es, et, load, f := c[0], c[1], c[2], c[3], c[4], c[5]
		v1, v2, v3, v4 := s*e, 100*es, s*load*e, et
		return [6]float64{500 - v1, v4 - v1 - v3, v1 - v2, v2 + v3 - v4, 300 - v3, v2 - f}
	}
	c, h := [6]float64{1: 1000}, 1e-5
	for range int(math.Round(span / h)) {
		at := func(k [6]float64, part float64) (x [6]float64) {
			for i := range x {
				x[i] = c[i] + part*h*k[i]
			}
			return rate(x)
		}
		k1 := rate(c)
		k2 := at(k1, 0.5)
		k3 := at(k2, 0.5)
		k4 := at(k3, 1)
		for i := range c {
			c[i] += h / 6 * (k1[i] + 2*k2[i] + 2*k3[i] + k4[i])
		}
	}
	return c
}

// The stochastic process agrees with the deterministic one within 3 % (paper's
// sections 5.1; figures 6(a) and 6(b)).
func TestGillespieAgrees(t *testing.T) {
	for _, c := range []struct{ in, ext, want float64 }{{500, 300, 500}, {1400, 600, 396.04}} {
		a, v := adaptive(t, reaction.Table1())
		v.SetInput(a.Int, c.in)
		v.SetInput(a.Ext, c.ext)
		s := reaction.NewSampler(v, 1, rand.New(rand.NewPCG(7, 9)))
		events := s.Run(20)
		start := s.Fired(a.Out)
		events += s.Run(60)
		got := (s.Fired(a.Out) - start) / 60
		t.Logf("(%v, %v): %.1f/s, want %.1f; %d events", c.in, c.ext, got, c.want, events)
		wantWithin(t, "output", got, c.want, 0.03*c.want)
		if sum := s.Amount(a.E) + s.Amount(a.ES) + s.Amount(a.ET); sum != 1000 {
			t.Errorf("the moiety is %v", sum)
		}
	}
}

// A birth-death process has a Poisson law: mean and variance p/k.
func TestGillespieIsExact(t *testing.T) {
	var k reaction.Kit
	x := k.Species("X")
	k.React("death", 2, []reaction.Species{x}, nil)
	birth := k.Input("birth", x)
	net, err := k.Build()
	if err != nil {
		t.Fatal(err)
	}
	v := reaction.NewVessel(net)
	v.SetInput(birth, 20)
	s := reaction.NewSampler(v, 1, rand.New(rand.NewPCG(3, 4)))
	s.Run(10)
	sum, squares := 0.0, 0.0
	const n = 20000
	for range n {
		s.Run(1)
		sum, squares = sum+s.Amount(x), squares+s.Amount(x)*s.Amount(x)
	}
	mean := sum / n
	wantWithin(t, "mean", mean, 10, 0.1)
	wantWithin(t, "variance", squares/n-mean*mean, 10, 0.4)
}

func TestKitRefusesNonsense(t *testing.T) {
	for name, c := range map[string]struct {
		make func(*reaction.Kit)
		want string
	}{
		"empty": {func(*reaction.Kit) {}, "at least one species"},
		"NaN": {func(k *reaction.Kit) { x := []reaction.Species{k.Species("X")}; k.React("r", math.NaN(), x, x) },
			"rate constant NaN"},
		"negative": {func(k *reaction.Kit) { x := []reaction.Species{k.Species("X")}; k.React("r", -1, x, x) },
			"rate constant -1"},
		"unknown": {func(k *reaction.Kit) { k.Species("X"); k.Input("in", 3) }, "species 3"},
		"no reactant": {func(k *reaction.Kit) { x := []reaction.Species{k.Species("X")}; k.React("r", 1, nil, x) },
			"no reactants"},
	} {
		var k reaction.Kit
		c.make(&k)
		if _, err := k.Build(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", name, err, c.want)
		}
	}
}

// A network that explodes is refused and left alone; bad numbers count as 0.
func TestBadNumbers(t *testing.T) {
	var k reaction.Kit
	x := k.Species("X")
	r := k.React("2X→3X", 1, []reaction.Species{x, x}, []reaction.Species{x, x, x})
	net, err := k.Build()
	if err != nil {
		t.Fatal(err)
	}
	v := reaction.NewVessel(net)
	v.SetAmount(x, 1)
	if err := v.Step(5); err == nil || v.Amount(x) != 1 { // it blows up at t = 1
		t.Errorf("an explosion: %v, amount %v", err, v.Amount(x))
	}
	for _, bad := range []float64{math.NaN(), -1, math.Inf(-1)} {
		v.SetRate(r, bad)
		v.SetAmount(x, bad)
		if v.Rate(r) != 0 || v.Amount(x) != 0 || v.Step(bad) != nil {
			t.Errorf("%v was taken", bad)
		}
	}
	v.SetAmount(x, math.Inf(1))
	if v.Amount(x) != 1e15 {
		t.Errorf("infinity became %v", v.Amount(x))
	}
}

func TestStepsAllocateNothing(t *testing.T) {
	a, v := adaptive(t, reaction.Table1())
	v.SetInput(a.Int, 1400)
	v.SetInput(a.Ext, 600)
	s := reaction.NewSampler(v, 1, rand.New(rand.NewPCG(1, 1)))
	if n := testing.AllocsPerRun(100, func() {
		if err := v.Step(1e-3); err != nil {
			t.Fatal(err)
		}
		s.Run(1e-3)
	}); n != 0 {
		t.Errorf("%v allocations per step", n)
	}
}

// Poles by QR against matrices whose eigenvalues are known.
func TestPolesOfRationals(t *testing.T) {
	for _, c := range []struct{ den, want []float64 }{
		{[]float64{1, 6, 11, 6}, []float64{-3, -2, -1}},
		{[]float64{2, 0, -2}, []float64{-1, 1}},
		{[]float64{1, 1e6 + 1, 1e6}, []float64{-1e6, -1}},
		{[]float64{1, 4, 6, 4, 1}, []float64{-1, -1, -1, -1}},
	} {
		h, err := reaction.Rational([]float64{1}, c.den)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range h.Poles() {
			if math.Hypot(real(p)-c.want[i], imag(p)) > 1e-3*math.Abs(c.want[i]) { // a fourfold root: 1e-16^(1/4)
				t.Errorf("%v: poles %v, want %v", c.den, h.Poles(), c.want)
			}
		}
	}
	for _, bad := range [][2][]float64{{{1}, {1}}, {{1, 2}, {1, 2}}, {{1}, {0, 1}}, {{math.NaN()}, {1, 1}}} {
		if _, err := reaction.Rational(bad[0], bad[1]); err == nil {
			t.Errorf("%v/%v is no strictly proper function", bad[0], bad[1])
		}
	}
}

func BenchmarkStep(b *testing.B) {
	a, v := adaptive(b, reaction.Table1())
	v.SetInput(a.Int, 1400)
	v.SetInput(a.Ext, 600)
	b.ReportAllocs()
	for b.Loop() {
		if err := v.Step(1e-3); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGillespie(b *testing.B) {
	a, v := adaptive(b, reaction.Table1())
	v.SetInput(a.Int, 500)
	v.SetInput(a.Ext, 300)
	s, events := reaction.NewSampler(v, 1, rand.New(rand.NewPCG(1, 1))), 0
	b.ReportAllocs()
	for b.Loop() {
		events += s.Run(0.01)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(events), "ns/event")
}
