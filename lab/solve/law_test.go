package solve_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/fairshare"
	"github.com/titrate/titrate/lab/solve"
	"github.com/titrate/titrate/services/store/resource"
)

// slack is the relative error that the figures of a result may carry: the 1e-7 of
// prices that settle slowly, and rounding.
const slack = 2e-7

// draw is a random problem.
func draw(t *rapid.T, sharing solve.Sharing) *solve.Problem {
	number := func(name string, least, most float64) float64 {
		return math.Exp(rapid.Float64Range(math.Log(least), math.Log(most)).Draw(t, name))
	}
	p := &solve.Problem{Sharing: sharing, Alpha: rapid.SampledFrom([]float64{.1, .5, 1, 2, 10}).Draw(t, "alpha"),
		Guarantee: rapid.SampledFrom([]solve.Guarantee{solve.Minimum, solve.Additive}).Draw(t, "guarantee")}
	n := rapid.IntRange(1, 4).Draw(t, "pools")
	for r := range n {
		p.Pools = append(p.Pools, solve.Pool{Name: fmt.Sprint("p", r),
			Capacity: rapid.SampledFrom([]float64{10, 100, number("capacity", 5, 500)}).Draw(t, "c")})
	}
	for i := range rapid.IntRange(1, 7).Draw(t, "tenants") {
		tenant := solve.Tenant{Name: fmt.Sprint("t", i), Weight: 1, Max: math.Inf(1), Demand: math.Inf(1)}
		one := rapid.IntRange(0, n-1).Draw(t, "pool")
		for r := range n {
			cost := 1.0
			if rapid.Bool().Draw(t, "use") {
				cost = rapid.SampledFrom([]float64{1, number("cost", .2, 5)}).Draw(t, "a")
			} else if r != one {
				continue
			}
			tenant.Uses = append(tenant.Uses, solve.Use{Pool: r, Cost: cost})
		}
		for _, field := range []*float64{&tenant.Weight, &tenant.Guaranteed, &tenant.Max, &tenant.Demand} {
			if rapid.Bool().Draw(t, "given") {
				*field = rapid.SampledFrom([]float64{0, 1, 5, number("value", .5, 50)}).Draw(t, "value")
			}
		}
		p.Tenants = append(p.Tenants, tenant)
	}
	return p
}

type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// feasible checks properties of every result: shares within bounds, pools not overdrawn, figures that agree
// with each other.
func feasible(t failer, p *solve.Problem, r *solve.Result) {
	t.Helper()
	used := make([]float64, len(p.Pools))
	for i, got := range r.Tenants {
		tenant := p.Tenants[i]
		most := math.Min(tenant.Max, tenant.Demand)
		if !(got.Share >= 0 && got.Share <= most*(1+slack)) {
			t.Fatalf("%s: share %v of at most %v", got.Name, got.Share, most)
		}
		if floor := math.Min(tenant.Guaranteed, most); r.Status == solve.OK && got.Share < floor*(1-slack) {
			t.Fatalf("%s: share %v below its guarantee %v", got.Name, got.Share, floor)
		}
		for _, u := range tenant.Uses {
			used[u.Pool] += u.Cost * got.Share
		}
	}
	for k, got := range r.Pools {
		if math.Abs(used[k]-got.Used) > slack*used[k] || got.Used > p.Pools[k].Capacity*(1+slack) {
			t.Fatalf("%s: used %v, shares take %v, capacity %v", got.Name, got.Used, used[k], p.Pools[k].Capacity)
		}
		if got.FairRate == nil && (got.Price == nil || *got.Price != 0) {
			t.Fatalf("%s: does not bind, yet has a price", got.Name)
		}
		if got.Price == nil && *got.FairRate != 0 {
			t.Fatalf("%s: has no price, yet a fair rate %v", got.Name, *got.FairRate)
		}
	}
}

// truthful checks that the named holder of each tenant does hold it. This is Pareto efficiency: a full pool or
// a bound keeps every share from growing.
func truthful(t failer, p *solve.Problem, r *solve.Result) {
	t.Helper()
	for i, got := range r.Tenants {
		tenant := p.Tenants[i]
		held := false
		switch got.BoundBy {
		case solve.ByDemand:
			held = close(got.Share, tenant.Demand)
		case solve.ByMax:
			held = close(got.Share, tenant.Max) && tenant.Max < tenant.Demand
		case solve.ByGuarantee:
			held = got.Share <= tenant.Guaranteed*(1+slack) &&
				(tenant.Weight == 0 || slices.ContainsFunc(tenant.Uses, full(p, r)))
		default:
			held = slices.ContainsFunc(tenant.Uses, func(u solve.Use) bool {
				return p.Pools[u.Pool].Name == got.BoundBy && full(p, r)(u)
			})
		}
		if !held {
			t.Fatalf("%s is not bound by %s: %+v\n%+v\n%+v", got.Name, got.BoundBy, tenant, p, r)
		}
	}
}

// full reports whether a use is of a pool that binds.
func full(p *solve.Problem, r *solve.Result) func(solve.Use) bool {
	return func(u solve.Use) bool {
		return r.Pools[u.Pool].FairRate != nil && r.Pools[u.Pool].Used >= p.Pools[u.Pool].Capacity*(1-slack)
	}
}

func close(a, b float64) bool { return math.Abs(a-b) <= slack*math.Max(math.Abs(a), math.Abs(b)) }

// floors are the guarantees as they count, by the rule in the package comment.
func floors(p *solve.Problem) []float64 {
	floor, load := make([]float64, len(p.Tenants)), make([]float64, len(p.Pools))
	for i, tenant := range p.Tenants {
		floor[i] = min(tenant.Guaranteed, tenant.Max, tenant.Demand)
		for _, u := range tenant.Uses {
			load[u.Pool] += u.Cost * floor[i]
		}
	}
	for i, tenant := range p.Tenants {
		factor := 1.0
		for _, u := range tenant.Uses {
			factor = math.Min(factor, p.Pools[u.Pool].Capacity/math.Max(load[u.Pool], 1e-300))
		}
		floor[i] *= factor
	}
	return floor
}

// place puts a fair share into the bounds of a tenant.
func place(p *solve.Problem, i int, floor, fair float64) float64 {
	tenant := p.Tenants[i]
	most := math.Min(tenant.Max, tenant.Demand)
	switch {
	case tenant.Weight == 0:
		return floor
	case p.Guarantee == solve.Additive:
		return math.Min(floor+fair, most)
	}
	return math.Min(math.Max(fair, floor), most)
}

func mustSolve(t *rapid.T, p *solve.Problem) *solve.Result {
	r, err := p.Solve()
	if err != nil {
		t.Fatalf("%+v: %v", p, err)
	}
	feasible(t, p, r)
	truthful(t, p, r)
	return r
}

// A share is the tenant's at the smallest fair rate of its pools: with full pools
// and truthful bounds that is weighted max-min fairness.
func TestMaxMin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t, solve.MaxMin)
		r := mustSolve(t, p)
		for i, floor := range floors(p) {
			fair := math.Inf(1)
			for _, u := range p.Tenants[i].Uses {
				if f := r.Pools[u.Pool].FairRate; f != nil {
					fair = math.Min(fair, p.Tenants[i].Weight**f)
				}
			}
			if want := place(p, i, floor, fair); !close(r.Tenants[i].Share, want) {
				t.Fatalf("%s has %v, want %v of fair %v\n%+v\n%+v", p.Tenants[i].Name, r.Tenants[i].Share, want, fair,
					p, r)
			}
		}
	})
}

// A share is the tenant's demand at the price of its path, and every pool with a price is full: the conditions
// of the α-fair optimum, which are sufficient.
func TestProportional(t *testing.T) {
	const tolerance = 1e-6 // (w/q)^(1/α) raises the last digits of q to the tenth power
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t, solve.Proportional)
		r := mustSolve(t, p)
		for k, pool := range r.Pools {
			if (pool.Price == nil || *pool.Price > 0) && !full(p, r)(solve.Use{Pool: k}) {
				t.Fatalf("%s has a price and is not full: %+v", pool.Name, r)
			}
		}
		for i, floor := range floors(p) {
			path := 0.0
			for _, u := range p.Tenants[i].Uses {
				if price := r.Pools[u.Pool].Price; price == nil {
					path = math.Inf(1)
				} else {
					path += u.Cost * *price
				}
			}
			want := place(p, i, floor, math.Pow(p.Tenants[i].Weight/path, 1/p.Alpha))
			if got := r.Tenants[i].Share; math.Abs(got-want) > tolerance*math.Max(got, want) {
				t.Fatalf("%s has %v, want %v at price %v\n%+v\n%+v", p.Tenants[i].Name, got, want, path, p, r)
			}
		}
	})
}

// Pools that are nearly alike can stand for each other, which is where prices found
// one at a time take longest.
func TestPoolsThatAreNearlyAlike(t *testing.T) {
	for _, alpha := range []float64{resource.MinAlpha, 1, resource.MaxAlpha} {
		for _, apart := range []float64{0, 1e-3, 1e-6, 1e-8, 1e-12} {
			p := &solve.Problem{Sharing: solve.Proportional, Alpha: alpha, Guarantee: solve.Minimum,
				Pools: []solve.Pool{{Name: "p", Capacity: 100}, {Name: "q", Capacity: 100}}}
			for i := range 3 {
				p.Tenants = append(p.Tenants, solve.Tenant{Name: fmt.Sprint(i), Weight: 1,
					Max: math.Inf(1), Demand: math.Inf(1),
					Uses: []solve.Use{{Pool: 0, Cost: 1}, {Pool: 1, Cost: 1 + apart*float64(i)}}})
			}
			r, err := p.Solve()
			if err != nil {
				t.Fatalf("alpha %v, apart %v: %v", alpha, apart, err)
			}
			feasible(t, p, r)
			truthful(t, p, r)
			if got := r.Tenants[0].Share; apart < 1e-6 && math.Abs(got-100./3) > 1e-4 {
				t.Errorf("alpha %v, apart %v: share %v", alpha, apart, got)
			}
		}
	}
}

// The status is the laws' own.
func TestStatusIsThatOfTheLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t, solve.MaxMin)
		var uses []fairshare.Use
		var capacity []float64
		var demands []fairshare.Demand
		for _, pool := range p.Pools {
			capacity = append(capacity, pool.Capacity)
		}
		for i, tenant := range p.Tenants {
			demands = append(demands, fairshare.Demand{Weight: tenant.Weight, Guaranteed: tenant.Guaranteed,
				Cap: math.Min(tenant.Max, tenant.Demand)})
			for _, u := range tenant.Uses {
				uses = append(uses, fairshare.Use{Tenant: i, Pool: u.Pool, Cost: u.Cost})
			}
		}
		network, err := fairshare.NewNetwork(len(capacity), len(demands), uses)
		if err != nil {
			t.Fatal(err)
		}
		var a fairshare.Allocation
		network.Solve(capacity, demands, fairshare.Minimum, nil, &a)
		if r := mustSolve(t, p); (r.Status == solve.Infeasible) != (a.Status == fairshare.Infeasible) {
			t.Fatalf("%s, the law says %v: %+v", r.Status, a.Status, p)
		}
	})
}

// Units and the order of tenants do not matter.
func TestScalingAndOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t, rapid.SampledFrom([]solve.Sharing{solve.MaxMin, solve.Proportional}).Draw(t, "sharing"))
		r := mustSolve(t, p)
		const k = 1024
		other := *p
		other.Pools, other.Tenants = slices.Clone(p.Pools), slices.Clone(p.Tenants)
		for i := range other.Pools {
			other.Pools[i].Capacity *= k
		}
		for i := range other.Tenants {
			tenant := &other.Tenants[i]
			tenant.Guaranteed, tenant.Max, tenant.Demand = tenant.Guaranteed*k, tenant.Max*k, tenant.Demand*k
		}
		slices.Reverse(other.Tenants)
		got := mustSolve(t, &other)
		slices.Reverse(got.Tenants)
		for i := range r.Tenants {
			if a, b := r.Tenants[i].Share*k, got.Tenants[i].Share; math.Abs(a-b) > 1e-6*math.Max(a, b) {
				t.Fatalf("%s: %v, scaled and reversed %v\n%+v", r.Tenants[i].Name, a, b, p)
			}
		}
	})
}
