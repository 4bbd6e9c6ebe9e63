package allocation_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/fairshare"
	"github.com/titrate/titrate/services/coordinator/allocation"
)

func flowOf(tenant string) allocation.Flow { return allocation.Flow{Tenant: tenant, Pool: "api"} }

// number draws a rate, now and then one that no gateway should send.
func number(t *rapid.T, label string) float64 {
	if rapid.IntRange(0, 9).Draw(t, label+" bad") == 0 {
		return rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), -1, 1e300, 0}).Draw(t, label)
	}
	return rapid.Float64Range(0, 2000).Draw(t, label)
}

func config(t *rapid.T, tenants []string) *allocation.Config {
	c := &allocation.Config{
		Revision: 7,
		Pools: []allocation.Pool{{
			Name: "api", Capacity: rapid.Float64Range(1, 1000).Draw(t, "capacity"),
			Sharing:   rapid.SampledFrom([]allocation.Sharing{allocation.MaxMin, allocation.Proportional}).Draw(t, "sharing"),
			Alpha:     rapid.SampledFrom([]float64{.5, 1, 2}).Draw(t, "alpha"),
			Guarantee: rapid.SampledFrom([]fairshare.Guarantee{fairshare.Minimum, fairshare.Additive}).Draw(t, "guarantee"),
		}},
		Tenants: map[string]float64{}, Quotas: map[allocation.Flow]allocation.Quota{},
	}
	if rapid.Bool().Draw(t, "adaptive") {
		p := &c.Pools[0]
		p.Adaptive = allocation.Range{Min: p.Capacity * rapid.Float64Range(.01, 1).Draw(t, "min"), Max: p.Capacity * rapid.Float64Range(1, 100).Draw(t, "most")}
	}
	for _, name := range tenants {
		c.Tenants[name] = rapid.Float64Range(.1, 10).Draw(t, "weight")
		q := allocation.Quota{Max: math.Inf(1), Weight: math.NaN()}
		if rapid.Bool().Draw(t, "guaranteed") {
			q.Guaranteed = rapid.Float64Range(0, 400).Draw(t, "m")
		}
		if rapid.Bool().Draw(t, "capped") {
			q.Max = q.Guaranteed + rapid.Float64Range(0, 400).Draw(t, "max")
		}
		if rapid.IntRange(0, 5).Draw(t, "weightless") == 0 {
			q.Weight = 0
		}
		c.Quotas[flowOf(name)] = q
	}
	return c
}

// Whatever gateways report, the shares add up, keep guarantees and stay in bounds.
func TestSharesKeepTheirBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tenants := []string{"a", "b", "c", "d"}
		c := config(t, tenants)
		loop := allocation.New(allocation.Defaults())
		loop.Configure(c)
		now := epoch
		for range rapid.IntRange(1, 12).Draw(t, "rounds") {
			now = now.Add(time.Duration(rapid.IntRange(1, 4000).Draw(t, "ms")) * time.Millisecond)
			for _, agent := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"x", "y"}), rapid.ID).Draw(t, "agents") {
				r := &allocation.Report{Interval: time.Duration(rapid.IntRange(-1, 2000).Draw(t, "interval")) * time.Millisecond,
					Replicas: []allocation.Replica{{Name: "gw-" + agent, Weight: number(t, "w")}}}
				for _, tenant := range append(tenants, "stranger") {
					r.Flows = append(r.Flows, allocation.FlowReport{
						Flow: flowOf(tenant), Gateway: "gw-" + agent, Demand: number(t, "demand"), Served: number(t, "served"),
						Waiting: number(t, "waiting"), Limited: rapid.Bool().Draw(t, "limited"),
						Completed: number(t, "completed"), Residence: number(t, "residence"), Shed: number(t, "shed"), InFlight: number(t, "in flight")})
				}
				loop.Observe(now, agent, r)
			}
			check(t, c, loop.Step(now))
		}
	})
}

func check(t *rapid.T, c *allocation.Config, out *allocation.Outcome) {
	pool, sum, promised := out.Pools[0], 0.0, 0.0
	for _, q := range c.Quotas {
		promised += q.Guaranteed
	}
	scale := math.Min(1, pool.Capacity/promised)
	if a := c.Pools[0].Adaptive; a.Max > 0 && !(pool.Capacity >= a.Min && pool.Capacity <= a.Max && pool.Estimate >= a.Min && pool.Estimate <= a.Max) {
		t.Fatalf("capacity %v, estimate %v outside %v", pool.Capacity, pool.Estimate, a)
	}
	for _, f := range out.Flows {
		if math.IsNaN(f.Share) || f.Share < 0 || f.Share > math.Max(f.Max, 0)*(1+1e-9) {
			t.Fatalf("%+v: share outside [0, max]", f)
		}
		if f.Share < f.Guaranteed*scale*(1-1e-9) {
			t.Fatalf("%+v: share below its guarantee × %v", f, scale)
		}
		if f.Bound == 0 {
			t.Fatalf("%+v: bound by nothing", f)
		}
		sum += f.Share
	}
	idle := 0.0
	for _, q := range c.Quotas { // flows at their own idle lease count below the idle share
		_ = q
		idle += pool.IdleShare
	}
	if sum-pool.Standing > pool.Capacity*1.02*(1+1e-9)+idle {
		t.Fatalf("shares %v less standing %v exceed 1.02 × %v: %+v", sum, pool.Standing, pool.Capacity, out)
	}
	if math.IsNaN(pool.Price) || pool.Price < 0 || math.IsNaN(pool.IdleShare) || pool.IdleShare < 0 || math.IsInf(pool.IdleShare, 0) {
		t.Fatalf("%+v", pool)
	}
}

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
	if p := out.Pools[0]; !(p.IdleShare > 0) || p.IdleShare > 2 || p.Price == 0 || math.Abs(p.Standing-(30-p.IdleShare)) > 1e-9 {
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
	loop.Configure(&allocation.Config{Pools: []allocation.Pool{{Name: "api", Capacity: 1000}}, Tenants: map[string]float64{"a": 1}})
	loop.Observe(epoch, "x", report("a", 100))
	loop.Observe(epoch.Add(every), "x", report("a", 300))
	if f, _ := shareOf(loop.Step(epoch.Add(every)), "a"); math.Abs(f.Demand-200) > 1e-9 {
		t.Errorf("demand %v, want 200", f.Demand)
	}
	if f, _ := shareOf(loop.Step(epoch.Add(2*every)), "a"); math.Abs(f.Demand-200) > 1e-9 {
		t.Errorf("demand without a report %v, want 200 held", f.Demand)
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
		r.Flows = append(r.Flows, allocation.FlowReport{Flow: flowOf(name), Gateway: "gw", Demand: float64(i % 20), Served: float64(i % 20)})
	}
	loop.Configure(c)
	now := epoch
	for b.Loop() {
		now = now.Add(every)
		loop.Observe(now, "x", r)
		loop.Step(now)
	}
}
