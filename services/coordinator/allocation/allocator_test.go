package allocation_test

import (
	"math"
	"testing"
	"time"

	"github.com/titrate/titrate/services/coordinator/allocation"
)

func flowOf(tenant string) allocation.Flow { return allocation.Flow{Tenant: tenant, Pool: "api"} }

// report is one flow of one gateway with demand met.
func report(tenant string, demand float64) *allocation.Report {
	return &allocation.Report{Interval: every, Replicas: []allocation.Replica{{Name: "gw"}},
		Flows: []allocation.FlowReport{{Flow: flowOf(tenant), Gateway: "gw", Demand: demand, Served: demand}}}
}

func shareOf(out *allocation.Outcome, tenant string) (allocation.FlowShare, bool) {
	for _, f := range out.Flows {
		if f.Tenant == tenant {
			return f, true
		}
	}
	return allocation.FlowShare{}, false
}

func TestIdleTenantsHaveTheirGuaranteeAtOnce(t *testing.T) {
	loop := allocation.New(allocation.Defaults())
	loop.Configure(&allocation.Config{
		Pools:   []allocation.Pool{{Name: "api", Capacity: 100}},
		Tenants: map[string]float64{"busy": 1, "promised": 1, "capped": 1, "plain": 1},
		Quotas: map[allocation.Flow]allocation.Quota{
			flowOf("promised"): {Guaranteed: 30, Max: math.Inf(1), Weight: math.NaN()},
			flowOf("capped"):   {Max: .1, Weight: math.NaN()},
			flowOf("plain"):    {Max: math.Inf(1), Weight: math.NaN()},
		},
	})
	loop.Observe(epoch, "agent", report("busy", 500))
	out := loop.Step(epoch)
	if f, _ := shareOf(out, "promised"); f.Share != 30 || f.Bound != allocation.ByGuarantee {
		t.Errorf("promised: %+v", f)
	}
	if f, _ := shareOf(out, "capped"); f.Share != .1 || f.Bound != allocation.ByMax {
		t.Errorf("capped: %+v", f)
	}
	if f, ok := shareOf(out, "plain"); ok {
		t.Errorf("plain has a lease of its own: %+v", f)
	}
	if f, _ := shareOf(out, "busy"); f.Share < 100 || f.Bound != allocation.ByPool {
		t.Errorf("busy: %+v", f)
	}
	if p := out.Pools[0]; !(p.IdleShare > 0) || p.IdleShare > 2 || p.Price == 0 ||
		math.Abs(p.Overcommit-(30-p.IdleShare)) > 1e-9 {
		t.Errorf("pool: %+v", p)
	}
}

func TestUnlimitedFlowsAreLoadThatComesFirst(t *testing.T) {
	loop := allocation.New(allocation.Defaults())
	loop.Configure(&allocation.Config{
		Pools:   []allocation.Pool{{Name: "api", Capacity: 100}},
		Tenants: map[string]float64{"off": 1, "a": 1},
		Quotas:  map[allocation.Flow]allocation.Quota{flowOf("off"): {Max: math.Inf(1), Weight: math.NaN(), Off: true}},
	})
	loop.Observe(epoch, "x", report("off", 60))
	loop.Observe(epoch, "y", report("a", 500))
	if f, _ := shareOf(loop.Step(epoch), "a"); math.Abs(f.Share-40) > 1 {
		t.Errorf("a has %v of the 40 that are left", f.Share)
	}
}

func TestStrangersShareOneFlow(t *testing.T) {
	loop := allocation.New(allocation.Defaults())
	c := &allocation.Config{Pools: []allocation.Pool{{Name: "api", Capacity: 100}}, Tenants: map[string]float64{"a": 1}}
	loop.Configure(c)
	r := report("who", 500)
	r.Flows = append(r.Flows, report("else", 500).Flows[0], report("a", 500).Flows[0])
	loop.Observe(epoch, "x", r)
	out := loop.Step(epoch)
	a, _ := shareOf(out, "a")
	if f, ok := shareOf(out, allocation.Unknown); !ok || math.Abs(f.Share-a.Share) > 1e-9 || f.Demand != 1000 {
		t.Errorf("strangers: %+v, a: %+v", f, a)
	}
	if parts := loop.Parts(flowOf(allocation.Unknown)); len(parts) != 2 {
		t.Errorf("parts: %+v", parts)
	}
	c = &allocation.Config{Revision: 2, Pools: c.Pools, Tenants: map[string]float64{"who": 1}}
	loop.Configure(c)
	out = loop.Step(epoch.Add(every))
	if _, ok := shareOf(out, "a"); ok || out.Revision != 2 {
		t.Errorf("a is deleted and still has a lease: %+v", out)
	}
}

func TestReportsBetweenRoundsAreAveraged(t *testing.T) {
	loop := allocation.New(allocation.Defaults())
	loop.Configure(&allocation.Config{Pools: []allocation.Pool{{Name: "api", Capacity: 1000}},
		Tenants: map[string]float64{"a": 1}})
	loop.Observe(epoch, "x", report("a", 100))
	loop.Observe(epoch.Add(every), "x", report("a", 300))
	if f, _ := shareOf(loop.Step(epoch.Add(every)), "a"); math.Abs(f.Demand-200) > 1e-9 {
		t.Errorf("demand %v, want 200", f.Demand)
	}
	if f, _ := shareOf(loop.Step(epoch.Add(2*every)), "a"); math.Abs(f.Demand-200) > 1e-9 {
		t.Errorf("demand without a report %v, want 200 held", f.Demand)
	}
}

// What is admitted of a tenant is at least what its guarantee entitles it to, if its gateways
// admit that; where they do not, the two differ by as much.
func TestCostOfAGuarantee(t *testing.T) {
	loop := allocation.New(allocation.Defaults())
	loop.Configure(&allocation.Config{
		Pools:   []allocation.Pool{{Name: "api", Capacity: 100}},
		Tenants: map[string]float64{"kept": 1, "broken": 1, "modest": 1, "plain": 1},
		Quotas: map[allocation.Flow]allocation.Quota{
			flowOf("kept"):   {Guaranteed: 20, Max: math.Inf(1), Weight: math.NaN()},
			flowOf("broken"): {Guaranteed: 20, Max: math.Inf(1), Weight: math.NaN()},
			flowOf("modest"): {Guaranteed: 20, Max: math.Inf(1), Weight: math.NaN()},
		},
	})
	flows := []allocation.FlowReport{
		{Flow: flowOf("kept"), Gateway: "gw", Demand: 50, Served: 30},
		{Flow: flowOf("broken"), Gateway: "gw", Demand: 50, Served: 10},
		{Flow: flowOf("modest"), Gateway: "gw", Demand: 8, Served: 8},
		{Flow: flowOf("plain"), Gateway: "gw", Demand: 50, Served: 5},
	}
	var out *allocation.Outcome
	for i := range 41 {
		now := epoch.Add(time.Duration(i) * every)
		loop.Observe(now, "x", &allocation.Report{Interval: every, Replicas: []allocation.Replica{{Name: "gw"}},
			Flows: flows})
		out = loop.Step(now)
	}
	for tenant, want := range map[string][2]float64{"kept": {30, 20}, "broken": {10, 20}, "modest": {8, 8},
		"plain": {5, 0}} {
		f, _ := shareOf(out, tenant)
		got := [2]float64{f.AdmittedCost, f.GuaranteedCost}
		for i, perSecond := range want {
			least, most := 40*every.Seconds()*perSecond, 42*every.Seconds()*perSecond
			if got[i] < least-1e-9 || got[i] > most+1e-9 {
				t.Errorf("%s: admitted and guaranteed %v in 40 or 41 rounds, want %v a second", tenant, got, want)
			}
		}
	}
}

func BenchmarkStep(b *testing.B) {
	const tenants = 10000
	loop := allocation.New(allocation.Defaults())
	c := &allocation.Config{Pools: []allocation.Pool{{Name: "api", Capacity: 50000}}, Tenants: map[string]float64{}}
	r := &allocation.Report{Interval: every, Replicas: []allocation.Replica{{Name: "gw"}}}
	for i := range tenants {
		name := "t" + time.Duration(i).String()
		c.Tenants[name] = 1
		r.Flows = append(r.Flows, allocation.FlowReport{Flow: flowOf(name), Gateway: "gw", Demand: float64(i % 20),
			Served: float64(i % 20)})
	}
	loop.Configure(c)
	now := epoch
	for b.Loop() {
		now = now.Add(every)
		loop.Observe(now, "x", r)
		loop.Step(now)
	}
}
