package marking_test

import (
	"math"
	"testing"

	"github.com/titrate/titrate/control/aqm"
	"github.com/titrate/titrate/papers/marking"
)

func wantWithin(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tol) {
		t.Errorf("%s: %v, want %v within %v", what, got, want, tol)
	}
}

// Floyd and Jacobson, section 4 and the gentle extension: pb by the average.
func TestREDProbability(t *testing.T) {
	for q, want := range map[float64]float64{0: 0, 4: 0, 5: 0, 10: 0.05, 14.999999: 0.1, 15: 0.1, 22.5: 0.55, 30: 1,
		90: 1} {
		red := marking.RED{Min: 5, Max: 15, MaxP: 0.1, Weight: 1, Buffer: 100}
		red.Arrive(aqm.Arrival{Cost: 1, Queued: q, Rand: 1})
		wantWithin(t, "pb", red.Probability(), want, 1e-6)
	}
}

// Section 4: the average reaches 1 − (1−w)^n of a step, and decays over an
// idle time as if C0·idle small ones had left.
func TestREDAverage(t *testing.T) {
	red := marking.RED{Min: 0, Max: 100, MaxP: 1, Weight: 0.002, Buffer: 100}
	for range 500 {
		red.Arrive(aqm.Arrival{Cost: 1, Queued: 50, Rand: 1})
	}
	average := 50 * (1 - math.Pow(1-0.002, 500))
	wantWithin(t, "after 500 arrivals", 100*red.Probability(), average, 1e-9)
	red.Step(10, 0, 1000, 1)
	red.Arrive(aqm.Arrival{Now: 10.5, Cost: 1, Queued: 0, Rand: 1})
	wantWithin(t, "after .5 s idle", 100*red.Probability(), average*math.Pow(1-0.002, 501), 1e-9)
}

// Section 7: gaps between marks are uniform on 1…1/pb, not geometric.
func TestREDSpacesMarks(t *testing.T) {
	red := marking.RED{Min: 5, Max: 15, MaxP: 0.04, Weight: 1, Buffer: 100}
	gap, sum, longest, marks, seed := 0, 0, 0, 0, 0.5
	for range 200000 {
		seed = math.Mod(seed*16807, 2147483647)
		gap++
		if red.Arrive(aqm.Arrival{Cost: 1, Queued: 10, Rand: math.Mod(seed*0.6180339887498949, 1)}) == aqm.Mark {
			sum, marks, longest = sum+gap, marks+1, max(longest, gap)
			gap = 0
		}
	}
	wantWithin(t, "mean gap at pb = .02", float64(sum)/float64(marks), 25.5, 1)
	if longest > 51 {
		t.Errorf("a gap of %d, want at most 1/pb", longest)
	}
}

// REM: the price rests where the rate is matched and the queue cleared, moves
// by γ(α·Δq + Δx) per period otherwise, and adds up along a path.
func TestREMPrice(t *testing.T) {
	rem := marking.DefaultREM(20, 1000)
	rem.Step(0, 20, 1000, 1)
	now := 0.0
	step := func(arrivals, queued float64) float64 {
		before := rem.Price()
		now += 0.01
		rem.Arrive(aqm.Arrival{Now: now, Cost: arrivals, Rand: 1})
		rem.Step(now, queued, 1000, 1)
		return rem.Price() - before
	}
	wantWithin(t, "overload", step(110, 70), 0.001*(0.1*50+100), 1e-9)
	wantWithin(t, "match at target", step(10, 20), 0, 1e-9)
	wantWithin(t, "match above target", step(10, 30), 0.001*0.1*10, 1e-9)
	first, mu := rem.Probability(), rem.Price()
	step(400, 20)
	second := rem.Probability()
	path := 1 - (1-first)*(1-second)
	wantWithin(t, "marking of a path", path, 1-math.Pow(1.001, -(mu+rem.Price())), 1e-12)
}

// Hollot et al.: the recursion at its own sampling rate, and the gains of its section on C
// = 3750/s, N ≥ 60, R ≤ 246 ms. Published are 1.822e-5 and 1.816e-5. The design rule gives
// 1.85e-5 and 1.84e-5: they rounded on the way.
func TestPIRecursion(t *testing.T) {
	pi := marking.HollotPI(200, 800)
	p, old := 0.0, 0.0
	for k := range 400 {
		q := 300 + 200*math.Sin(float64(k)/20)
		if k > 0 {
			p = math.Min(math.Max(p+1.822e-5*(q-200)-1.816e-5*(old-200), 0), 1)
		}
		pi.Step(float64(k)/160, q, 3750, 60)
		wantWithin(t, "p", pi.Probability(), p, 1e-12)
		old = q
	}
	a, b := marking.TunePI(3750, 60, 0.246, 160)
	wantWithin(t, "a", a, 1.822e-5, 0.02*1.822e-5)
	wantWithin(t, "b", b, 1.816e-5, 0.02*1.816e-5)
	wantWithin(t, "a − b", a-b, 6e-8, 2e-9)
}

// RFC 8033, section 4.2 and 4.4: one update by hand in each regime of p, the
// burst allowance, the decay.
func TestPIEUpdate(t *testing.T) {
	pie := marking.DefaultPIE(1000)
	pie.Step(0, 0, 1000, 1)
	pie.Step(0.015, 40, 1000, 1)
	wantWithin(t, "first update", pie.Probability(), (0.125*(0.04-0.015)+1.25*0.04)/2048, 1e-15)
	if pie.Arrive(aqm.Arrival{Cost: 1, Queued: 40, Rand: 0}) != aqm.Accept {
		t.Error("the burst allowance lets the first 150 ms pass")
	}
	now, last := 0.015, pie.Probability()
	for range 20000 {
		now += 0.015
		pie.Step(now, 40, 1000, 1)
		scale := 1.0
		for _, level := range [][2]float64{{0.1, 2}, {0.01, 8}, {0.001, 32}, {1e-4, 128}, {1e-5, 512}, {1e-6, 2048}} {
			if last < level[0] {
				scale = 1 / level[1]
			}
		}
		wantWithin(t, "update", pie.Probability(), math.Min(1, last+0.125*0.025*scale), 1e-12)
		last = pie.Probability()
	}
	if pie.Arrive(aqm.Arrival{Cost: 1, Queued: 40, Rand: 0.5}) != aqm.Drop {
		t.Error("above p = .1 marks become drops")
	}
	pie.Step(now+0.015, 0, 1000, 1)
	last = pie.Probability()
	pie.Step(now+0.03, 0, 1000, 1)
	wantWithin(t, "decay", pie.Probability(), (last-0.125*0.015)*0.98, 1e-12)
}

// A controller's steps may come at any spacing: PI, REM and PIE move p the same
// way in ten short steps as in one long one.
func TestSpacingDoesNotMatter(t *testing.T) {
	run := func(law prober, steps int) float64 {
		law.Step(0, 400, 1000, 1)
		for k := 1; k <= steps; k++ {
			now := 0.4 * float64(k) / float64(steps)
			law.Arrive(aqm.Arrival{Now: now, Cost: 480 / float64(steps), Queued: 0, Rand: 1})
			law.Step(now, 400, 1000, 1)
		}
		return law.Probability()
	}
	pi, pi10 := marking.HollotPI(150, 500), marking.HollotPI(150, 500)
	rem, rem10 := marking.DefaultREM(150, 500), marking.DefaultREM(150, 500)
	wantWithin(t, "PI", run(&pi, 1), run(&pi10, 10), 1e-12)
	wantWithin(t, "REM", run(&rem, 1), run(&rem10, 10), 1e-12)
}

// Open-loop overload of 1.5: dropping peers settle at 1 − 1/ρ as ours does. REM
// and PIE hold their target; RED's queue is where its curve passes 1/3.
func TestPeersInDropMode(t *testing.T) {
	const c0 = 500
	red, rem, pie := marking.DefaultRED(300), marking.DefaultREM(25, 300), marking.DefaultPIE(300)
	red.Mode, rem.Mode, pie.Mode, pie.Delay = aqm.DropMode, aqm.DropMode, aqm.DropMode, 0.05
	rem.Gamma = 0.01 // the source's .001 needs minutes to reach 1/3 at this rate
	pi := marking.HollotPI(25, 300)
	pi.A, pi.B = marking.TunePI(c0, 10, 0.2, 160)
	pi.Mode = aqm.DropMode
	for name, law := range map[string]prober{"red": &red, "rem": &rem, "pi": &pi, "pie": &pie} {
		o := overload(law, c0, 1.5*c0)
		t.Logf("%s: wait %.1f ms, p %.3f, dropped %.3f, use %.3f", name, 1e3*o.delay, o.p, o.drops/o.offered, o.served)
		wantWithin(t, name+" drops", o.drops/o.offered, 1./3, 0.03)
		if o.served < 0.97 {
			t.Errorf("%s: use %v", name, o.served)
		}
		if name != "red" && math.Abs(o.delay-0.05) > 0.03 {
			t.Errorf("%s: wait %v, want about 50 ms", name, o.delay)
		}
	}
}
