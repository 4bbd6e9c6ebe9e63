package fairshare_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/fairshare"
	"github.com/titrate/titrate/control/vectortest"
)

// oracle is the slow, obvious fill: the definition of a share, and bisection
// on the fair rate until no float lies between the bounds.
func oracle(mu float64, ds []fairshare.Demand, g fairshare.Guarantee) []float64 {
	at := func(f float64) (xs []float64, sum float64) {
		for _, d := range ds {
			base := math.Min(d.Guaranteed, d.Cap)
			x := math.Min(math.Max(base, d.Weight*f), d.Cap)
			if g == fairshare.Additive {
				x = math.Min(base+d.Weight*f, d.Cap)
			}
			if d.Weight == 0 {
				x = base
			}
			xs, sum = append(xs, x), sum+x
		}
		return xs, sum
	}
	xs, sum := at(0)
	if sum > mu {
		for i := range xs {
			xs[i] *= mu / sum
		}
		return xs
	}
	lo, hi := 0.0, 1e30
	if xs, sum = at(hi); sum <= mu {
		return xs
	}
	for range 400 {
		mid := lo + (hi-lo)/2
		if _, sum := at(mid); sum <= mu {
			lo = mid
		} else {
			hi = mid
		}
	}
	xs, _ = at(lo)
	return xs
}

// rate draws 0, small integers (ties!), or a number over seven decades.
func rate(t *rapid.T, label string) float64 {
	switch rapid.IntRange(0, 4).Draw(t, label+" kind") {
	case 0:
		return 0
	case 1, 2:
		return float64(rapid.IntRange(0, 8).Draw(t, label))
	default:
		return math.Pow(10, rapid.Float64Range(-3, 4).Draw(t, label))
	}
}

// tenants draws up to n demands, some of them unbounded.
func tenants(t *rapid.T, n int) []fairshare.Demand {
	ds := make([]fairshare.Demand, rapid.IntRange(1, n).Draw(t, "n"))
	for i := range ds {
		ds[i] = fairshare.Demand{Weight: rate(t, "w"), Guaranteed: rate(t, "m"), Cap: rate(t, "cap")}
		if rapid.IntRange(0, 3).Draw(t, "open") == 0 {
			ds[i].Cap = math.Inf(1)
		}
	}
	return ds
}

func sum(xs []float64) (s float64) {
	for _, x := range xs {
		s += x
	}
	return s
}

var guarantees = []fairshare.Guarantee{fairshare.Minimum, fairshare.Additive}

func TestFillAgreesWithOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ds, mu := tenants(t, 12), rate(t, "mu")
		g := rapid.SampledFrom(guarantees).Draw(t, "guarantee")
		warm := rapid.SampledFrom([]float64{0, 1e-6, 1, 1e6, math.Inf(1), math.NaN(), -1}).Draw(t, "warm")
		xs := make([]float64, len(ds))
		r := fairshare.Fill(mu, ds, g, warm, xs)
		want := oracle(mu, ds, g)
		for i := range xs {
			if math.Abs(xs[i]-want[i]) > 1e-9*math.Max(1, math.Max(mu, want[i])) {
				t.Fatalf("x[%d] = %v, oracle %v (%+v)", i, xs[i], want[i], r)
			}
		}
	})
}

func TestFillInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ds, mu := tenants(t, 12), rate(t, "mu")
		g := rapid.SampledFrom(guarantees).Draw(t, "guarantee")
		xs := make([]float64, len(ds))
		r := fairshare.Fill(mu, ds, g, 0, xs)
		if s := sum(xs); s > mu*(1+1e-12) {
			t.Fatalf("Σx = %v exceeds μ = %v", s, mu)
		}
		held := false
		for i, d := range ds {
			if xs[i] < 0 || xs[i] > d.Cap {
				t.Fatalf("x[%d] = %v outside [0, %v]", i, xs[i], d.Cap)
			}
			if base := math.Min(d.Guaranteed, d.Cap); r.Status == fairshare.OK && xs[i] < base*(1-1e-12) {
				t.Fatalf("x[%d] = %v below its guarantee %v", i, xs[i], base)
			}
			held = held || r.Bound(d) == fairshare.BoundPool
		}
		saturated := math.Abs(sum(xs)-mu) <= 1e-9*math.Max(1, mu)
		if held && !saturated {
			t.Fatalf("a tenant is held by a pool with %v of %v used", sum(xs), mu)
		}
		if r.Price*(mu-sum(xs)) > 1e-6 && !saturated {
			t.Fatalf("price %v on slack %v", r.Price, mu-sum(xs))
		}
	})
}

func TestFillScalesPermutesAndGrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ds, mu := tenants(t, 10), rate(t, "mu")
		g := rapid.SampledFrom(guarantees).Draw(t, "guarantee")
		k := math.Pow(10, rapid.Float64Range(-7, 7).Draw(t, "log k"))
		more := mu + rate(t, "more")
		n := len(ds)
		xs, ys := make([]float64, n), make([]float64, n)
		fairshare.Fill(mu, ds, g, 0, xs)
		same := func(what string, want func(i int) float64, scale float64) {
			for i := range ys {
				if math.Abs(ys[i]-want(i)) > 1e-9*scale*math.Max(1, math.Max(mu, want(i)/scale)) {
					t.Fatalf("%s: tenant %d got %v, want %v", what, i, ys[i], want(i))
				}
			}
		}
		scaled, reversed := make([]fairshare.Demand, n), make([]fairshare.Demand, n)
		for i, d := range ds {
			scaled[i] = fairshare.Demand{Weight: d.Weight, Guaranteed: k * d.Guaranteed, Cap: k * d.Cap}
			reversed[n-1-i] = d
		}
		fairshare.Fill(k*mu, scaled, g, 0, ys)
		same("scaling", func(i int) float64 { return k * xs[i] }, k)
		fairshare.Fill(mu, reversed, g, 0, ys)
		same("permutation", func(i int) float64 { return xs[n-1-i] }, 1)
		fairshare.Fill(more, ds, g, 0, ys)
		for i := range ys {
			if ys[i] < xs[i]-1e-9*math.Max(1, xs[i]) {
				t.Fatalf("capacity %v → %v took %v → %v from tenant %d", mu, more, xs[i], ys[i], i)
			}
		}
	})
}

func TestFillBadNumbers(t *testing.T) {
	bad := []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0, math.MaxFloat64, math.SmallestNonzeroFloat64, 1e-7,
		1e7}
	rng := rand.New(rand.NewPCG(1, 2))
	pick := func() float64 { return bad[rng.IntN(len(bad))] }
	for range 20000 {
		ds := make([]fairshare.Demand, rng.IntN(5))
		for i := range ds {
			ds[i] = fairshare.Demand{Weight: pick(), Guaranteed: pick(), Cap: pick()}
		}
		mu, g, xs := pick(), guarantees[rng.IntN(2)], make([]float64, len(ds))
		r := fairshare.Fill(mu, ds, g, pick(), xs)
		limit := math.Max(mu, 0)
		for i, x := range xs {
			if math.IsNaN(x) || x < 0 || !(x <= limit*(1+1e-12)) && !(math.IsNaN(mu) && x == 0) {
				t.Fatalf("Fill(%v, %+v, %v): x[%d] = %v, %+v", mu, ds, g, i, x, r)
			}
		}
		if math.IsNaN(r.FairRate) || math.IsNaN(r.Price) {
			t.Fatalf("Fill(%v, %+v, %v) = %+v", mu, ds, g, r)
		}
	}
}

// Table 2 of the paper at 50–75 s: the two meanings of "minimum" differ.
func TestMinimumAndAdditiveDiffer(t *testing.T) {
	w, m := []float64{1, 1.5, 2, 2.5, 3, 1}, []float64{0, 5, 0, 10, 0, 15}
	ds := make([]fairshare.Demand, len(w))
	for i := range ds {
		ds[i] = fairshare.Demand{Weight: w[i], Guaranteed: m[i], Cap: math.Inf(1)}
	}
	xs := make([]float64, len(ds))
	fairshare.Fill(100, ds, fairshare.Additive, 0, xs)
	if !vectortest.Near(xs[3], 25.909090909, 1e-9) {
		t.Errorf("additive AF4 = %v, want 25.91", xs[3])
	}
	r := fairshare.Fill(100, ds, fairshare.Minimum, 0, xs)
	if !vectortest.Near(xs[3], 21.25, 1e-9) {
		t.Errorf("floor AF4 = %v, want 21.25", xs[3])
	}
	if b := r.Bound(ds[5]); b != fairshare.BoundGuarantee {
		t.Errorf("AF6 is bound by %v, want its guarantee", b)
	}
}

// crowd is n tenants with mixed weights, guarantees and demands.
func crowd(n int, seed uint64) []fairshare.Demand {
	rng := rand.New(rand.NewPCG(seed, 7))
	ds := make([]fairshare.Demand, n)
	for i := range ds {
		ds[i] = fairshare.Demand{Weight: 1 + 9*rng.Float64(), Cap: rng.ExpFloat64() * 10}
		if rng.IntN(4) == 0 {
			ds[i].Guaranteed = rng.Float64() * 4
		}
	}
	return ds
}

func TestFillPassesAndAllocations(t *testing.T) {
	for _, g := range guarantees {
		worst := 0
		xs := make([]float64, 2000)
		for seed := range uint64(50) {
			ds := crowd(len(xs), seed)
			r := fairshare.Fill(9000, ds, g, 0, xs)
			worst = max(worst, r.Passes)
			if again := fairshare.Fill(9000, ds, g, r.FairRate, xs); again.Passes > 4 {
				t.Errorf("warm start took %d passes", again.Passes)
			}
		}
		if worst > 12 {
			t.Errorf("%v: %d passes from cold, expected about 6", g, worst)
		}
		t.Logf("guarantee %v: at most %d passes from cold", g, worst)
	}
	ds, xs := crowd(1000, 1), make([]float64, 1000)
	if n := testing.AllocsPerRun(10, func() { fairshare.Fill(4000, ds, fairshare.Minimum, 0, xs) }); n != 0 {
		t.Errorf("%v allocations per fill", n)
	}
}

func BenchmarkFill(b *testing.B) {
	for _, g := range guarantees {
		name := map[fairshare.Guarantee]string{fairshare.Minimum: "minimum", fairshare.Additive: "additive"}[g]
		for _, n := range []int{1e3, 1e4, 1e5, 1e6} {
			for _, start := range []string{"cold", "warm"} {
				b.Run(fmt.Sprintf("%s/%d/%s", name, n, start), func(b *testing.B) {
					ds, xs := crowd(n, 1), make([]float64, n)
					mu, warm := 4.5*float64(n), 0.0
					r := fairshare.Fill(mu, ds, g, 0, xs)
					if start == "warm" { // the capacity has changed since
						warm, mu = r.FairRate, 0.98*mu
					}
					b.ReportAllocs()
					for b.Loop() {
						r = fairshare.Fill(mu, ds, g, warm, xs)
					}
					b.ReportMetric(float64(r.Passes), "passes")
				})
			}
		}
	}
}
