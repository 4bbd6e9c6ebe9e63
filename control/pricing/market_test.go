package pricing_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/fairshare"
	"github.com/titrate/titrate/control/pricing"
	"github.com/titrate/titrate/control/vectortest"
)

// dense turns a cost matrix A[pool][tenant] into uses.
func dense(a [][]float64) (uses []fairshare.Use) {
	for r, row := range a {
		for i, c := range row {
			if c > 0 {
				uses = append(uses, fairshare.Use{Tenant: i, Pool: r, Cost: c})
			}
		}
	}
	return uses
}

func TestAlphaFairVectors(t *testing.T) {
	seen := 0
	for _, v := range vectortest.Read(t, "../testdata/allocation.json", "alpha-fair") {
		seen++
		var in struct {
			Mu, W, M, Cap []float64
			A             [][]float64
			Alpha         float64
		}
		var want struct{ Price, X, Load []float64 }
		vectortest.Decode(t, v.Input, &in)
		vectortest.Decode(t, v.Expect, &want)
		ds := make([]fairshare.Demand, len(in.W))
		for i := range ds {
			ds[i] = fairshare.Demand{Weight: in.W[i], Guaranteed: in.M[i], Cap: in.Cap[i]}
		}
		m, err := pricing.NewMarket(len(in.Mu), len(ds), dense(in.A))
		if err != nil {
			t.Fatal(err)
		}
		prices, shares := make([]float64, len(in.Mu)), make([]float64, len(ds))
		o := m.Solve(in.Mu, ds, fairshare.Minimum, in.Alpha, prices, shares)
		t.Logf("%s: %d cycles", v.ID, o.Cycles)
		for i := range shares {
			if math.Abs(shares[i]-want.X[i]) > v.Tol*math.Max(1, want.X[i]) {
				t.Errorf("%s: x[%d] = %v, want %v", v.ID, i, shares[i], want.X[i])
			}
		}
		for r := range prices {
			if math.Abs(prices[r]-want.Price[r]) > v.Tol {
				t.Errorf("%s: p[%d] = %v, want %v", v.ID, r, prices[r], want.Price[r])
			}
		}
	}
	if seen != 4 {
		t.Errorf("%d vectors, want 4", seen)
	}
}

// problem is a random market.
type problem struct {
	a     [][]float64
	mu    []float64
	ds    []fairshare.Demand
	alpha float64
}

func draw(t *rapid.T, maxPools int) (p problem) {
	pools, n := rapid.IntRange(1, maxPools).Draw(t, "pools"), rapid.IntRange(1, 6).Draw(t, "tenants")
	p.alpha = rapid.SampledFrom([]float64{0.5, 1, 1.7, 2, 4}).Draw(t, "alpha")
	for range pools {
		row := make([]float64, n)
		for i := range row {
			row[i] = float64(rapid.IntRange(0, 3).Draw(t, "cost"))
		}
		p.a, p.mu = append(p.a, row), append(p.mu, rapid.Float64Range(20, 100).Draw(t, "mu"))
	}
	for range n {
		p.ds = append(p.ds, fairshare.Demand{
			Weight: rapid.Float64Range(0.1, 10).Draw(t, "w"), Guaranteed: rapid.Float64Range(0, 0.9).Draw(t, "m"),
			Cap: rapid.Float64Range(1, 80).Draw(t, "cap")})
	}
	return p
}

func (p problem) solve(t *rapid.T) (prices, shares []float64) {
	m, err := pricing.NewMarket(len(p.mu), len(p.ds), dense(p.a))
	if err != nil {
		t.Fatal(err)
	}
	prices, shares = make([]float64, len(p.mu)), make([]float64, len(p.ds))
	if o := m.Solve(p.mu, p.ds, fairshare.Minimum, p.alpha, prices, shares); !o.Converged {
		t.Fatalf("no convergence in %d cycles: %+v", o.Cycles, p)
	}
	return prices, shares
}

// The optimality conditions are sufficient: feasible, price ≥ 0, slackness,
// and every share is the demand at its path price. They are the oracle.
func TestMarketMeetsOptimalityConditions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t, 4)
		prices, shares := p.solve(t)
		for i, d := range p.ds {
			q := 0.0
			for r := range p.a {
				q += p.a[r][i] * prices[r]
			}
			want := d.Cap
			if q > 0 {
				want = math.Min(math.Max(math.Pow(d.Weight/q, 1/p.alpha), d.Guaranteed), d.Cap)
			}
			if math.Abs(shares[i]-want) > 1e-8*math.Max(1, want) {
				t.Fatalf("x[%d] = %v, demand at its price %v", i, shares[i], want)
			}
		}
		for r, row := range p.a {
			load := 0.0
			for i, c := range row {
				load += c * shares[i]
			}
			if prices[r] < 0 || load > p.mu[r]*(1+1e-9) ||
				prices[r]*(p.mu[r]-load) > 1e-6*math.Max(1, prices[r]*p.mu[r]) {
				t.Fatalf("pool %d: price %v, load %v of %v", r, prices[r], load, p.mu[r])
			}
		}
	})
}

// No feasible direction improves the total utility (Pareto follows).
func TestMarketMaximisesUtility(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t, 3)
		_, x := p.solve(t)
		utility := func(x []float64) (u float64) {
			for i, d := range p.ds {
				if p.alpha == 1 {
					u += d.Weight * math.Log(x[i])
				} else {
					u += d.Weight * math.Pow(x[i], 1-p.alpha) / (1 - p.alpha)
				}
			}
			return u
		}
		best, y := utility(x), make([]float64, len(x))
		for range 50 {
			for i, d := range p.ds {
				y[i] = math.Min(math.Max(x[i]*(1+rapid.Float64Range(-0.1, 0.1).Draw(t, "step")), d.Guaranteed), d.Cap)
			}
			shrink := 1.0
			for r, row := range p.a {
				load := 0.0
				for i, c := range row {
					load += c * y[i]
				}
				shrink = math.Min(shrink, p.mu[r]/math.Max(load, 1e-9))
			}
			ok := true
			for i, d := range p.ds {
				y[i] *= shrink
				ok = ok && y[i] >= d.Guaranteed
			}
			if ok && utility(y) > best+1e-7*math.Max(1, math.Abs(best)) {
				t.Fatalf("utility %v beats %v at %v", utility(y), best, y)
			}
		}
	})
}

func TestOnePoolIsAFill(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t, 1)
		for i := range p.a[0] {
			p.a[0][i] = 1
		}
		prices, shares := p.solve(t)
		direct := make([]float64, len(p.ds))
		r := pricing.Pool(p.mu[0], p.ds, fairshare.Minimum, p.alpha, 0, make([]fairshare.Demand, len(p.ds)), direct)
		for i := range direct {
			if math.Abs(direct[i]-shares[i]) > 1e-8*math.Max(1, shares[i]) {
				t.Fatalf("x[%d] = %v by fill, %v by prices", i, direct[i], shares[i])
			}
		}
		interior := false
		for i, x := range shares {
			interior = interior || x > p.ds[i].Guaranteed*(1+1e-9) && x < p.ds[i].Cap*(1-1e-9)
		}
		if interior && math.Abs(r.Price-prices[0]) > 1e-7*prices[0] {
			t.Fatalf("price %v by fill, %v by the market", r.Price, prices[0])
		}
	})
}

// As α grows, α-fair tends to max-min.
func TestLargeAlphaIsMaxMin(t *testing.T) {
	a := [][]float64{{1, 1, 0}, {1, 0, 1}}
	ds := []fairshare.Demand{{Weight: 1, Cap: 10}, {Weight: 1, Cap: 10}, {Weight: 1, Cap: 10}}
	m, err := pricing.NewMarket(2, 3, dense(a))
	if err != nil {
		t.Fatal(err)
	}
	prices, shares := make([]float64, 2), make([]float64, 3)
	m.Solve([]float64{1, 1}, ds, fairshare.Minimum, 60, prices, shares)
	for i := range shares {
		if math.Abs(shares[i]-0.5) > 0.01 {
			t.Errorf("x[%d] = %v at α = 60, want about 0.5", i, shares[i])
		}
	}
}

func TestMarketBadNumbers(t *testing.T) {
	bad := []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0, 1, 1e-7, 1e7}
	rapid.Check(t, func(t *rapid.T) {
		pick := func() float64 { return rapid.SampledFrom(bad).Draw(t, "n") }
		m, err := pricing.NewMarket(2, 2, dense([][]float64{{1, 2}, {0, 1}}))
		if err != nil {
			t.Fatal(err)
		}
		prices, shares := []float64{pick(), pick()}, make([]float64, 2)
		mu := []float64{pick(), pick()}
		ds := make([]fairshare.Demand, 2)
		for i := range ds {
			ds[i] = fairshare.Demand{Weight: pick(), Guaranteed: pick(), Cap: pick()}
		}
		m.Solve(mu, ds, fairshare.Minimum, pick(), prices, shares)
		for _, v := range append(prices, shares...) {
			if math.IsNaN(v) || v < 0 {
				t.Fatalf("%v %+v: prices %v, shares %v", mu, ds, prices, shares)
			}
		}
		if mu[0] == 0 && (shares[0] != 0 || !math.IsInf(prices[0], 1)) {
			t.Fatalf("no capacity: shares %v, prices %v", shares, prices)
		}
	})
}

func TestMaxMinPrice(t *testing.T) {
	for f, want := range map[float64]float64{4: 0.25, math.Inf(1): 0, 0: math.Inf(1)} {
		if got := pricing.MaxMin(f); got != want {
			t.Errorf("MaxMin(%v) = %v, want %v", f, got, want)
		}
	}
}
