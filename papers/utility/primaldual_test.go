package utility_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/papers/utility"
)

const cluster = 764500 // packets per second, the paper's C

// rounds returns how many rounds the published law needs, from zero rates, until Σx stays within tol of C; -1
// if more than 5000.
func rounds(k, r, tol float64) int {
	law := utility.PrimalDual{K: k, R: r, Weight: 1, Capacity: cluster, Rates: make([]float64, 3)}
	last := -1
	for n := 1; n <= 5000; n++ {
		law.Step()
		sum := 0.0
		for _, x := range law.Rates {
			sum += x
		}
		if math.Abs(sum-cluster) > tol*cluster {
			last = n
		}
	}
	if last == 5000 {
		return -1
	}
	return last + 1
}

// The paper's figures: which (k, R) converge, and in how many rounds, within two.
func TestPrimalDualStabilityRegion(t *testing.T) {
	for _, c := range []struct {
		name   string
		k, r   float64
		stable bool
		to2    int // rounds to 2 %, 0 = not stated
		to1    int // rounds to .1 %
	}{
		{"Fig 6", 1e5, 5e11, true, 32, 55}, {"Fig 7", 1e5, 1.5e11, false, 0, 0}, {"Fig 8", 1e5, 1e12, true, 26, 40},
		{"Fig 9", 2e4, 5e11, true, 131, 256}, {"Fig 10", 1.5e5, 5e11, true, 20, 33},
		{"R above the bound", 1e5, 2.0e11, true, 0, 0}, {"R below it", 1e5, 1.9e11, false, 0, 0},
		{"k above its bound", 5.2e5, 5e11, false, 0, 0},
	} {
		n2, n1 := rounds(c.k, c.r, 0.02), rounds(c.k, c.r, 0.001)
		t.Logf("%s: 2 %% after %d rounds, .1 %% after %d", c.name, n2, n1)
		if c.to2 > 0 && (max(n2-c.to2, c.to2-n2) > 2 || max(n1-c.to1, c.to1-n1) > 2) {
			t.Errorf("%s: %d and %d rounds, want %d and %d", c.name, n2, n1, c.to2, c.to1)
		}
		if (n1 > 0) != c.stable {
			t.Errorf("%s: settles after %d rounds, stable should be %v", c.name, n1, c.stable)
		}
	}
}

// The (k, R) plane, seen in rounds from where one source is a thousandth off: with
// two sources or more, stable where κ < 2 and γ < 1. The differences between sources
// have the mode 1 − κ; their sum alone would allow κ < 4/(2 − γ), as with one.
func TestPrimalDualStabilityPlane(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 50).Draw(t, "sources")
		capacity := math.Pow(10, rapid.Float64Range(0, 7).Draw(t, "log C"))
		weight := math.Pow(10, rapid.Float64Range(-3, 3).Draw(t, "log W"))
		kappa, gamma := rapid.Float64Range(.05, 2.5).Draw(t, "kappa"), rapid.Float64Range(.02, 1.5).Draw(t, "gamma")
		most := 2.0
		if n == 1 {
			most = 4 / (2 - gamma)
		}
		if math.Abs(kappa-most) < .1 || math.Abs(gamma-1) < .1 {
			return // too near the edge to decide in time
		}
		total := weight * float64(n)
		law := utility.PrimalDual{K: kappa * capacity / total, R: capacity * capacity / (gamma * total), Weight: weight,
			Capacity: capacity, Rates: make([]float64, n)}
		if k, g := law.Normalised(); math.Abs(k-kappa) > 1e-9*kappa || math.Abs(g-gamma) > 1e-9*gamma {
			t.Fatalf("normalised gains %v and %v, want %v and %v", k, g, kappa, gamma)
		}
		rest := capacity / float64(n)
		for i := range law.Rates { // the price starts where it belongs
			law.Rates[i] = rest + total/capacity*law.R/float64(n)
		}
		step := law.K
		law.K = 0
		law.Step()
		law.K = step
		for i := range law.Rates {
			law.Rates[i] = rest
		}
		law.Rates[0] *= 1.001
		worst := 0.0
		for k := range 2000 {
			law.Step()
			if k >= 1500 {
				worst = math.Max(worst, math.Abs(law.Rates[0]/rest-1))
			}
		}
		if stable := kappa < most && gamma < 1; stable != (worst < 1e-4) {
			t.Fatalf("κ=%v γ=%v: off by %v, stable should be %v", kappa, gamma, worst, stable)
		}
	})
}

// The oracle: the paper's two equations as they are printed, R dividing.
func TestPrimalDualIsThePapersRound(t *testing.T) {
	law := utility.PrimalDual{K: 1e5, R: 5e11, Weight: 1, Capacity: cluster, Rates: make([]float64, 3)}
	x, p := [3]float64{}, 0.0
	for k := range 300 {
		law.Step()
		was, sum := x, x[0]+x[1]+x[2]
		for s := range x {
			x[s] = math.Max(0, was[s]+1e5*(1-was[s]*p))
		}
		p = math.Max(0, p+(sum-cluster)/5e11)
		if math.Abs(law.Rates[1]-x[1]) > 1e-9*cluster || math.Abs(law.Price()-p) > 1e-12 {
			t.Fatalf("round %d: %v at %v, oracle %v at %v", k, law.Rates, law.Price(), x, p)
		}
	}
}

func TestPrimalDualBadNumbers(t *testing.T) {
	bad := []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0, 1, 1e-300, math.MaxFloat64}
	for _, a := range bad {
		for _, b := range bad {
			law := utility.PrimalDual{K: a, R: b, Weight: b, Capacity: a, Rates: []float64{a, b, 1}}
			for range 50 {
				law.Step()
			}
			kappa, gamma := law.Normalised()
			for _, v := range append(law.Rates, law.Price()) {
				if !(v >= 0 && v <= 1e100) || math.IsNaN(kappa+gamma) {
					t.Fatalf("%v, %v: %+v, κ %v, γ %v", a, b, law, kappa, gamma)
				}
			}
		}
	}
	law := utility.PrimalDual{K: 1, R: 1, Weight: 1, Capacity: 1} // no source
	if law.Step(); law.Price() != 0 {
		t.Errorf("price %v without sources", law.Price())
	}
}

func TestPrimalDualAllocatesNothing(t *testing.T) {
	law := utility.PrimalDual{K: 1, R: 10, Weight: 1, Capacity: 10, Rates: make([]float64, 3)}
	if n := testing.AllocsPerRun(10, law.Step); n != 0 {
		t.Errorf("%v allocations per round", n)
	}
}

func BenchmarkPrimalDual(b *testing.B) {
	law := utility.PrimalDual{K: 1e5, R: 5e11, Weight: 1, Capacity: cluster, Rates: make([]float64, 3)}
	b.ReportAllocs()
	for b.Loop() {
		law.Step()
	}
}
