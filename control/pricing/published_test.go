package pricing_test

import (
	"math"
	"testing"

	"github.com/titrate/titrate/control/fairshare"
	"github.com/titrate/titrate/control/pricing"
)

const cluster = 764500 // packets per second, the paper's C

// rounds is how many rounds the published law needs until Σx stays within tol
// of C, starting from nothing; -1 if it does not within 5000.
func rounds(k, r, tol float64) int {
	law := pricing.Published{K: k, R: r, Weight: 1, Capacity: cluster, Rates: make([]float64, 3)}
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

// The paper's figures: which (k, R) converge, and in how many rounds (within
// two of the design notes' figures, which count from another start).
func TestPublishedStabilityRegion(t *testing.T) {
	for _, c := range []struct {
		name   string
		k, r   float64
		stable bool
		to2    int // rounds to 2 %, 0 = not stated
		to1    int // rounds to .1 %
	}{
		{"Fig 6", 1e5, 5e11, true, 32, 55}, {"Fig 7", 1e5, 1.5e11, false, 0, 0}, {"Fig 8", 1e5, 1e12, true, 26, 40},
		{"Fig 9", 2e4, 5e11, true, 131, 256}, {"Fig 10", 1.5e5, 5e11, true, 20, 33},
		{"R above the bound", 1e5, 2.0e11, true, 0, 0}, {"R below it", 1e5, 1.9e11, false, 0, 0}, {"k above its bound", 5.2e5, 5e11, false, 0, 0},
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

func TestSolversAllocateNothing(t *testing.T) {
	a := [][]float64{{1, 1, 0}, {1, 0, 1}}
	ds := []fairshare.Demand{{Weight: 1, Cap: 10}, {Weight: 2, Cap: 10}, {Weight: 3, Cap: 10}}
	m, err := pricing.NewMarket(2, 3, dense(a))
	if err != nil {
		t.Fatal(err)
	}
	mu, prices, shares, scratch := []float64{1, 1}, make([]float64, 2), make([]float64, 3), make([]fairshare.Demand, 3)
	if n := testing.AllocsPerRun(10, func() {
		m.Solve(mu, ds, 2, prices, shares)
		pricing.Pool(1, ds, 2, 0, scratch, shares)
	}); n != 0 {
		t.Errorf("%v allocations per solve", n)
	}
}
