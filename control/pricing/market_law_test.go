package pricing_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/fairshare"
	"github.com/titrate/titrate/control/pricing"
)

// trade is a market's problem and the result.
type trade struct {
	uses      []fairshare.Use
	mu        []float64
	ds        []fairshare.Demand
	guarantee fairshare.Guarantee
	alpha     float64

	prices, shares []float64
	outcome        pricing.Outcome
}

func (x *trade) solve(t interface {
	Helper()
	Fatal(...any)
}) {
	t.Helper()
	m, err := pricing.NewMarket(len(x.mu), len(x.ds), x.uses)
	if err != nil {
		t.Fatal(err)
	}
	x.prices, x.shares = make([]float64, len(x.mu)), make([]float64, len(x.ds))
	x.outcome = m.Solve(x.mu, x.ds, x.guarantee, x.alpha, x.prices, x.shares)
}

// wild draws a problem whose weights, costs and capacities span seven decades, each
// tenant on one pool at least.
func wild(t *rapid.T) *trade {
	log := func(lo, hi float64, label string) float64 {
		return math.Pow(10, rapid.Float64Range(lo, hi).Draw(t, label))
	}
	pools, tenants := rapid.IntRange(1, 5).Draw(t, "pools"), rapid.IntRange(1, 8).Draw(t, "tenants")
	x := &trade{alpha: log(-1, 1, "alpha"), guarantee: rapid.SampledFrom([]fairshare.Guarantee{fairshare.Minimum,
		fairshare.Additive}).Draw(t, "guarantee")}
	for range pools {
		x.mu = append(x.mu, log(-3.5, 3.5, "mu"))
	}
	for i := range tenants {
		d := fairshare.Demand{Weight: log(-3.5, 3.5, "weight"), Cap: math.Inf(1)}
		if rapid.Bool().Draw(t, "guaranteed") {
			d.Guaranteed = log(-4, 1, "m")
		}
		if rapid.Bool().Draw(t, "capped") {
			d.Cap = log(-4, 4, "cap")
		}
		x.ds = append(x.ds, d)
		home := rapid.IntRange(0, pools-1).Draw(t, "home")
		for r := range pools {
			if r == home || rapid.IntRange(0, 2).Draw(t, "uses") == 0 {
				x.uses = append(x.uses, fairshare.Use{Tenant: i, Pool: r, Cost: log(-3.5, 3.5, "cost")})
			}
		}
	}
	return x
}

// conditions checks feasibility, D_i(q_i) = x_i, complementary slackness and Pareto
// efficiency. Those suffice for the optimum: they are the oracle.
func (x *trade) conditions(t interface{ Fatalf(string, ...any) }, slack float64) {
	path, load := make([]float64, len(x.ds)), make([]float64, len(x.mu))
	floor, stuck := make([]float64, len(x.mu)), make([]bool, len(x.ds))
	factor := make([]float64, len(x.ds))
	for _, u := range x.uses {
		path[u.Tenant] += u.Cost * x.prices[u.Pool]
		load[u.Pool] += u.Cost * x.shares[u.Tenant]
		floor[u.Pool] += u.Cost * math.Min(x.ds[u.Tenant].Guaranteed, x.ds[u.Tenant].Cap)
		factor[u.Tenant] = 1
	}
	for _, u := range x.uses {
		factor[u.Tenant] = math.Min(factor[u.Tenant], x.mu[u.Pool]/math.Max(floor[u.Pool], x.mu[u.Pool]))
		stuck[u.Tenant] = stuck[u.Tenant] || load[u.Pool] >= x.mu[u.Pool]*(1-slack)
	}
	for r, p := range x.prices {
		if !(p >= 0) || load[r] > x.mu[r]*(1+slack) || p > 0 && load[r] < x.mu[r]*(1-slack) && !math.IsInf(p, 1) {
			t.Fatalf("pool %d: price %v, load %v of %v\n%+v", r, p, load[r], x.mu[r], x)
		}
	}
	for i, d := range x.ds {
		m := math.Min(d.Guaranteed, d.Cap) * factor[i]
		want := math.Pow(d.Weight/path[i], 1/x.alpha)
		if x.guarantee == fairshare.Additive {
			want += m
		}
		want = math.Min(math.Max(want, m), d.Cap)
		if math.Abs(x.shares[i]-want) > slack*math.Max(want, x.shares[i]) {
			t.Fatalf("x[%d] = %v, at its price %v it wants %v\n%+v", i, x.shares[i], path[i], want, x)
		}
		if x.shares[i] < d.Cap*(1-slack) && !stuck[i] {
			t.Fatalf("x[%d] = %v could rise: none of its pools is full\n%+v", i, x.shares[i], x)
		}
	}
}

func TestMarketOnWildNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := wild(t)
		x.solve(t)
		if !x.outcome.Converged {
			t.Fatalf("%+v: %+v", x.outcome, x)
		}
		x.conditions(t, 1e-7)
	})
}

// Units and the order of tenants, pools and uses do not matter.
func TestMarketScalesAndPermutes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := wild(t)
		x.solve(t)
		k := math.Pow(10, rapid.Float64Range(-3, 3).Draw(t, "k"))
		y := &trade{guarantee: x.guarantee, alpha: x.alpha}
		for r := range x.mu {
			y.mu = append(y.mu, k*x.mu[len(x.mu)-1-r])
		}
		for i := range x.ds {
			d := x.ds[len(x.ds)-1-i]
			y.ds = append(y.ds, fairshare.Demand{Weight: d.Weight, Guaranteed: k * d.Guaranteed, Cap: k * d.Cap})
		}
		for _, u := range x.uses {
			y.uses = append(y.uses, fairshare.Use{Tenant: len(x.ds) - 1 - u.Tenant, Pool: len(x.mu) - 1 - u.Pool,
				Cost: u.Cost})
		}
		slices.Reverse(y.uses)
		y.solve(t)
		all := make([]float64, len(x.ds)) // what the tenant would have of its pools alone
		for _, u := range x.uses {
			all[u.Tenant] = math.Max(all[u.Tenant], x.mu[u.Pool]/u.Cost)
		}
		for i, a := range x.shares {
			// What guarantees leave of a pool is known to the rounding of the pool only: 3e-12 of it was seen.
			if b := y.shares[len(x.ds)-1-i] / k; math.Abs(a-b) > 1e-6*math.Max(a, b)+1e-11*all[i] {
				t.Fatalf("x[%d] = %v, scaled and reversed %v\n%+v", i, a, b, x)
			}
		}
	})
}

// The slow oracle: sweep over the pools again and again, find each one's price by
// plain bisection. All costs have one size here, or it would not arrive.
func TestMarketAgreesWithSweeps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t, 3)
		g := rapid.SampledFrom([]fairshare.Guarantee{fairshare.Minimum, fairshare.Additive}).Draw(t, "guarantee")
		x := &trade{uses: dense(p.a), mu: p.mu, ds: p.ds, guarantee: g, alpha: p.alpha}
		x.solve(t)
		want, settled := sweep(p, g)
		if !settled {
			return
		}
		for i := range want {
			if math.Abs(x.shares[i]-want[i]) > 1e-4*math.Max(1, want[i]) {
				t.Fatalf("x[%d] = %v, oracle %v\n%+v", i, x.shares[i], want[i], x)
			}
		}
	})
}

// sweep returns the shares, and whether a hundred sweeps were enough.
func sweep(p problem, g fairshare.Guarantee) (shares []float64, settled bool) {
	prices, x := make([]float64, len(p.mu)), make([]float64, len(p.ds))
	load := func(r int) (sum float64) {
		for i, d := range p.ds {
			q := 0.0
			for s := range p.mu {
				q += p.a[s][i] * prices[s]
			}
			x[i] = math.Pow(d.Weight/q, 1/p.alpha) // +Inf when free
			if g == fairshare.Additive {
				x[i] += d.Guaranteed
			}
			x[i] = math.Min(math.Max(x[i], d.Guaranteed), d.Cap)
			sum += p.a[r][i] * x[i]
		}
		return sum
	}
	before := make([]float64, len(prices))
	for range 100 {
		for r, mu := range p.mu {
			prices[r] = 0
			if load(r) <= mu {
				continue
			}
			lo, hi := 1e-9, 1e9
			for range 60 {
				prices[r] = math.Sqrt(lo * hi)
				if load(r) > mu {
					lo = prices[r]
				} else {
					hi = prices[r]
				}
			}
		}
		load(0)
		settled = true
		for r, price := range prices { // shares stand still long before prices do
			settled = settled && math.Abs(price-before[r]) <= 1e-9*price
		}
		if settled {
			break
		}
		copy(before, prices)
	}
	return x, settled
}

// Pools that are nearly alike can stand for each other, which is where prices found
// one at a time take longest.
func TestMarketOfNearlyParallelPools(t *testing.T) {
	for _, alpha := range []float64{.1, .3, 1, 3, 10} {
		for _, apart := range []float64{0, 1e-2, 1e-4, 1e-6, 1e-8, 1e-12} {
			x := &trade{mu: []float64{100, 100, 100}, alpha: alpha}
			for i := range 5 {
				x.ds = append(x.ds, fairshare.Demand{Weight: 1 + float64(i), Cap: math.Inf(1)})
				for r := range x.mu {
					x.uses = append(x.uses, fairshare.Use{Tenant: i, Pool: r, Cost: 1 + apart*float64((i*(r+1))%5)})
				}
			}
			x.solve(t)
			if o := x.outcome; !o.Converged || o.Cycles > 50 {
				t.Errorf("α=%v apart %v: %+v", alpha, apart, o)
			}
			x.conditions(t, 1e-7)
		}
	}
}

// Pools where nothing is for sale, or where nobody needs to buy, whatever the guess.
func TestMarketEdges(t *testing.T) {
	inf := math.Inf(1)
	one := []fairshare.Use{{Tenant: 0, Pool: 0, Cost: 1}, {Tenant: 1, Pool: 0, Cost: 1}}
	for name, c := range map[string]struct {
		mu            []float64
		ds            []fairshare.Demand
		guess         float64
		g             fairshare.Guarantee
		prices, share []float64
		status        fairshare.Status
	}{
		"guarantees fill it": {[]float64{10}, []fairshare.Demand{{Weight: 1, Guaranteed: 4, Cap: inf},
			{Weight: 9, Guaranteed: 6, Cap: inf}}, 0,
			fairshare.Minimum, []float64{inf}, []float64{4, 6}, fairshare.OK},
		"and suffice": {[]float64{10}, []fairshare.Demand{{Weight: 1, Guaranteed: 4, Cap: 4},
			{Weight: 9, Guaranteed: 6, Cap: 6}}, 3,
			fairshare.Additive, []float64{0}, []float64{4, 6}, fairshare.OK},
		"they do not fit": {[]float64{10}, []fairshare.Demand{{Weight: 1, Guaranteed: 5, Cap: inf},
			{Weight: 9, Guaranteed: 15, Cap: inf}}, 0,
			fairshare.Additive, []float64{inf}, []float64{2.5, 7.5}, fairshare.Infeasible},
		"without bound": {[]float64{inf}, []fairshare.Demand{{Weight: 1, Cap: 5}, {Weight: 1, Cap: 7}}, 3,
			fairshare.Minimum, []float64{0}, []float64{5, 7}, fairshare.OK},
		"room for all": {[]float64{10}, []fairshare.Demand{{Weight: 1, Cap: 3}, {Weight: 1, Cap: 3}}, 3,
			fairshare.Minimum, []float64{0}, []float64{3, 3}, fairshare.OK},
		"weight 0 has its guarantee": {[]float64{10}, []fairshare.Demand{{Guaranteed: 2, Cap: inf},
			{Weight: 1, Cap: inf}}, 0,
			fairshare.Additive, []float64{1. / 8}, []float64{2, 8}, fairshare.OK},
		"a base and a floor": {[]float64{10, 1}, []fairshare.Demand{{Weight: 1, Guaranteed: 4, Cap: inf},
			{Weight: 1, Cap: inf}}, inf,
			fairshare.Additive, []float64{1. / 3, 0}, []float64{7, 3}, fairshare.OK}, // and a pool that nobody uses
	} {
		m, err := pricing.NewMarket(len(c.mu), 2, one)
		if err != nil {
			t.Fatal(err)
		}
		prices, shares := make([]float64, len(c.mu)), make([]float64, 2)
		for r := range prices {
			prices[r] = c.guess
		}
		o := m.Solve(c.mu, c.ds, c.g, 1, prices, shares)
		for i, want := range append(c.prices, c.share...) {
			if got := append(prices, shares...)[i]; got != want && math.Abs(got-want) > 1e-9 {
				t.Errorf("%s: prices %v, shares %v, want %v, %v", name, prices, shares, c.prices, c.share)
			}
		}
		if o.Status != c.status || !o.Converged {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

// bazaar is a market of n flows over some pools, three each, of which about half are
// short.
func bazaar(n, pools int) *trade {
	rng := rand.New(rand.NewPCG(4, uint64(n)))
	x := &trade{mu: make([]float64, pools), alpha: 1}
	for i := range n {
		d := fairshare.Demand{Weight: math.Exp(rng.NormFloat64()), Guaranteed: rng.Float64(), Cap: 1 + 50*rng.Float64()}
		x.ds = append(x.ds, d)
		for _, r := range rng.Perm(pools)[:min(3, pools)] {
			c := 0.5 + rng.Float64()
			x.uses = append(x.uses, fairshare.Use{Tenant: i, Pool: r, Cost: c})
			x.mu[r] += c * d.Cap
		}
	}
	for r := range x.mu {
		x.mu[r] *= 0.2 + rng.Float64()
	}
	return x
}

func TestMarketOfTenThousandFlows(t *testing.T) {
	x := bazaar(1e4, 100)
	for _, alpha := range []float64{.5, 1, 4} {
		x.alpha = alpha
		x.solve(t)
		t.Logf("α=%v: %+v", alpha, x.outcome)
		if !x.outcome.Converged || x.outcome.Cycles > 20 {
			t.Errorf("α=%v: %+v", alpha, x.outcome)
		}
		x.conditions(t, 1e-9)
	}
}

func BenchmarkMarket(b *testing.B) {
	for _, size := range [][2]int{{1e3, 10}, {1e4, 100}} {
		for _, alpha := range []float64{.2, 1, 2} {
			for _, start := range []string{"cold", "warm"} {
				b.Run(fmt.Sprintf("%dx%dx3/alpha=%v/%s", size[0], size[1], alpha, start), func(b *testing.B) {
					x := bazaar(size[0], size[1])
					m, err := pricing.NewMarket(len(x.mu), len(x.ds), x.uses)
					if err != nil {
						b.Fatal(err)
					}
					prices, shares := make([]float64, len(x.mu)), make([]float64, len(x.ds))
					m.Solve(x.mu, x.ds, fairshare.Minimum, alpha, prices, shares)
					x.mu[0] *= 0.9 // what has changed since
					last, o := slices.Clone(prices), pricing.Outcome{}
					if start == "cold" {
						clear(last)
					}
					b.ReportAllocs()
					for b.Loop() {
						copy(prices, last)
						o = m.Solve(x.mu, x.ds, fairshare.Minimum, alpha, prices, shares)
					}
					b.ReportMetric(float64(o.Cycles), "cycles")
				})
			}
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
		clear(prices)
		if o := m.Solve(mu, ds, fairshare.Minimum, 2, prices, shares); o.Leaps == 0 {
			t.Error("no leap was tested")
		}
		m.Solve(mu, ds, fairshare.Additive, .5, prices, shares)
		pricing.Pool(1, ds, fairshare.Minimum, 2, 0, scratch, shares)
	}); n != 0 {
		t.Errorf("%v allocations per solve", n)
	}
}

func BenchmarkPool(b *testing.B) {
	x := bazaar(1e4, 1)
	shares, scratch := make([]float64, len(x.ds)), make([]fairshare.Demand, len(x.ds))
	b.ReportAllocs()
	for b.Loop() {
		pricing.Pool(x.mu[0], x.ds, fairshare.Minimum, 2, 0, scratch, shares)
	}
}
