package fairshare_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/fairshare"
)

// A split is the oracle's fill and the spare by weight; it sums to the total, gives
// nobody less than the fill, and does not depend on the order.
func TestSplitAgreesWithOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, total := rapid.IntRange(1, 12).Draw(t, "replicas"), rapid.Float64Range(0, 1e4).Draw(t, "total")
		ds, weights := make([]fairshare.Demand, n), 0.0
		for i := range ds {
			ds[i] = fairshare.Demand{Weight: math.Pow(10, rapid.Float64Range(-3.5, 3.5).Draw(t, "w")), Cap: rate(t, "demand")}
			weights += ds[i].Weight
		}
		want, limits, reversed := oracle(total, ds, fairshare.Minimum), make([]float64, n), make([]float64, n)
		spare := total - sum(want)
		fairshare.Split(total, ds, limits)
		back := make([]fairshare.Demand, n)
		for i := range ds {
			back[n-1-i] = ds[i]
		}
		fairshare.Split(total, back, reversed)
		for i := range limits {
			if math.Abs(limits[i]-want[i]-spare*ds[i].Weight/weights) > 1e-8*math.Max(1, total) {
				t.Fatalf("limit[%d] = %v, fill %v and a part of %v", i, limits[i], want[i], spare)
			}
			if math.Abs(limits[i]-reversed[n-1-i]) > 1e-9*math.Max(1, total) {
				t.Fatalf("limit[%d] = %v, reversed %v", i, limits[i], reversed[n-1-i])
			}
		}
		if math.Abs(sum(limits)-total) > 1e-9*math.Max(1, total) {
			t.Fatalf("limits sum to %v of %v", sum(limits), total)
		}
	})
}

func TestSplitBadNumbers(t *testing.T) {
	bad := []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0, 1, 1e-7, 1e7, math.MaxFloat64}
	rng := rand.New(rand.NewPCG(2, 3))
	pick := func() float64 { return bad[rng.IntN(len(bad))] }
	for range 20000 {
		ds := []fairshare.Demand{{Weight: pick(), Guaranteed: pick(), Cap: pick()}, {Weight: pick(), Guaranteed: pick(), Cap: pick()}}
		total, limits := pick(), make([]float64, 2)
		fairshare.Split(total, ds, limits)
		for i, l := range limits {
			if !(l >= 0) || !(l <= math.Max(total, 0)*(1+1e-9)) && !(math.IsNaN(total) && l == 0) {
				t.Fatalf("Split(%v, %+v): limit[%d] = %v", total, ds, i, l)
			}
		}
	}
}

// (1) by differences is (1) as printed, at a constant |Q|w and away from the bounds.
func TestLinkIsThePapersSum(t *testing.T) {
	l, sum := newLink(1e6, 0.07), 0.0
	l.Target = 1000
	a, b := l.A, l.B
	start := l.Step(1000) // e = 0
	for k := range 500 {
		q := 1000 + 300*math.Sin(float64(k)/30) - 400
		sum += q - 1000
		want := start - a*(q-1000) - tick*b*sum
		if got := l.Step(q); math.Abs(got-want) > 1e-9*math.Max(1, math.Abs(want)) {
			t.Fatalf("step %d: f %v, want %v", k, got, want)
		}
	}
}

// Whatever the error and the gains, the command is a number within the clamp, and a
// good error afterwards gives a good command.
func TestPIBadNumbers(t *testing.T) {
	bad := rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0, 1, 1e-7, 1e7, math.MaxFloat64})
	rapid.Check(t, func(t *rapid.T) {
		law := fairshare.PI{Tuning: fairshare.Tuning{A: bad.Draw(t, "A"), B: bad.Draw(t, "B")}, Min: bad.Draw(t, "min"), Max: bad.Draw(t, "max")}
		for range 20 {
			u := law.Step(bad.Draw(t, "e"))
			if math.IsNaN(u) || law.Max != 0 && u > law.Max || u < law.Min && !(law.Min > law.Max) && law.Min != 0 {
				t.Fatalf("%+v commands %v", law, u)
			}
		}
		for _, d := range []int{-1, 0, 3, 1e6} {
			if g := fairshare.Tune(d); !(g.A > 0 && g.B > 0 && g.A <= 1) {
				t.Fatalf("Tune(%d) = %+v", d, g)
			}
		}
		for _, v := range []float64{fairshare.StableV(bad.Draw(t, "U")), fairshare.StableDelay(bad.Draw(t, "a"), bad.Draw(t, "b"))} {
			if math.IsNaN(v) || v < 0 {
				t.Fatalf("a bound of %v", v)
			}
		}
	})
}

func TestSmallLawsAllocateNothing(t *testing.T) {
	ds, limits := crowd(100, 1), make([]float64, 100)
	law := fairshare.PI{Tuning: fairshare.Tune(2), Min: -1, Max: 1}
	if n := testing.AllocsPerRun(100, func() {
		law.Step(.1)
		fairshare.Split(300, ds, limits)
	}); n != 0 {
		t.Errorf("%v allocations per step", n)
	}
}

func BenchmarkPI(b *testing.B) {
	law := fairshare.PI{Tuning: fairshare.Tune(2), Min: -1, Max: 1}
	b.ReportAllocs()
	for b.Loop() {
		law.Step(.1)
	}
}

func BenchmarkSource(b *testing.B) {
	s, now := fairshare.Source{Weight: 1, Peak: 10, Interval: .1}, 0.0
	b.ReportAllocs()
	for b.Loop() {
		now += .1
		s.Send(1)
		if p, due := s.Tick(now); due {
			s.Hear(p)
		}
	}
}

func BenchmarkSplit(b *testing.B) {
	ds, limits := crowd(100, 1), make([]float64, 100)
	b.ReportAllocs()
	for b.Loop() {
		fairshare.Split(300, ds, limits)
	}
}
