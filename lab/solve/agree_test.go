package solve_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/fairshare"
	"github.com/titrate/titrate/lab/solve"
	"github.com/titrate/titrate/services/coordinator/allocation"
)

func flowOf(tenant string) allocation.Flow { return allocation.Flow{Tenant: tenant, Pool: "api"} }

// report is one flow of one gateway with demand met.
func report(tenant string, demand float64) *allocation.Report {
	return &allocation.Report{Interval: 250 * time.Millisecond, Replicas: []allocation.Replica{{Name: "gw"}},
		Flows: []allocation.FlowReport{{Flow: flowOf(tenant), Gateway: "gw", Demand: demand, Served: demand}}}
}

func shareOf(out *allocation.Outcome, tenant string) (share allocation.FlowShare) {
	for _, f := range out.Flows {
		if f.Tenant == tenant {
			share = f
		}
	}
	return share
}

// What `titrate-lab solve` says is what the coordinator grants, for either law and either
// meaning of a guarantee: with demands above every share, so that no margin is given.
func TestRoundGrantsWhatSolveSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sharing := rapid.SampledFrom([]solve.Sharing{solve.MaxMin, solve.Proportional}).Draw(t, "sharing")
		meaning := rapid.SampledFrom([]solve.Guarantee{solve.Minimum, solve.Additive}).Draw(t, "guarantee")
		alpha := rapid.SampledFrom([]float64{.5, 1, 2}).Draw(t, "alpha")
		pool := allocation.Pool{Name: "api", Capacity: rapid.Float64Range(50, 500).Draw(t, "capacity"), Alpha: alpha}
		if sharing == solve.Proportional {
			pool.Sharing = allocation.Proportional
		}
		if meaning == solve.Additive {
			pool.Guarantee = fairshare.Additive
		}
		c := &allocation.Config{Pools: []allocation.Pool{pool}, Tenants: map[string]float64{},
			Quotas: map[allocation.Flow]allocation.Quota{}}
		p := &solve.Problem{Sharing: sharing, Alpha: alpha, Guarantee: meaning,
			Pools: []solve.Pool{{Name: "api", Capacity: pool.Capacity}}}
		loop := allocation.New(allocation.Defaults())
		names := []string{"a", "b", "c"}
		for _, name := range names {
			weight, m := rapid.Float64Range(.1, 10).Draw(t, "weight"), rapid.Float64Range(0, 16).Draw(t, "m")
			most := m + rapid.Float64Range(1, 400).Draw(t, "max")
			c.Tenants[name] = weight
			c.Quotas[flowOf(name)] = allocation.Quota{Guaranteed: m, Max: most, Weight: math.NaN()}
			p.Tenants = append(p.Tenants, solve.Tenant{Name: name, Weight: weight, Guaranteed: m, Max: most,
				Demand: math.Inf(1), Uses: []solve.Use{{Pool: 0, Cost: 1}}})
		}
		loop.Configure(c)
		want, err := p.Solve()
		if err != nil {
			t.Fatal(err)
		}
		now := time.Unix(1_700_000_000, 0)
		for _, name := range names {
			loop.Observe(now, "agent-"+name, report(name, 1000))
		}
		out := loop.Step(now)
		for i, name := range names {
			if got := shareOf(out, name); want.Pools[0].FairRate != nil &&
				math.Abs(got.Share-want.Tenants[i].Share) > 1e-6*got.Share {
				t.Fatalf("%s: the round grants %v, solve says %v\n%+v", name, got.Share, want.Tenants[i].Share, p)
			}
		}
	})
}
