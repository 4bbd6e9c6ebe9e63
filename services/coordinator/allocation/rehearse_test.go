package allocation_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/services/coordinator/allocation"
)

// rehearsed is a random configuration of one pool.
func rehearsed(t *rapid.T, label string) *allocation.Config {
	c := &allocation.Config{Pools: []allocation.Pool{{Name: "api",
		Capacity: rapid.Float64Range(10, 500).Draw(t, label+" capacity")}},
		Tenants: map[string]float64{}, Quotas: map[allocation.Flow]allocation.Quota{}}
	for _, name := range []string{"a", "b", "c"} {
		if rapid.IntRange(0, 4).Draw(t, label+" has "+name) == 0 {
			continue
		}
		c.Tenants[name] = rapid.Float64Range(.1, 10).Draw(t, label+" weight of "+name)
		if rapid.Bool().Draw(t, label+" quota of "+name) {
			c.Quotas[flowOf(name)] = allocation.Quota{Weight: math.NaN(), Max: math.Inf(1),
				Guaranteed: rapid.Float64Range(0, 100).Draw(t, label+" guarantee of "+name)}
		}
	}
	return c
}

// What is rehearsed is what the next round decides once the configuration is in force, and a
// rehearsal changes nothing.
func TestRehearsalIsTheNextRound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now, next := rehearsed(t, "now"), rehearsed(t, "next")
		loop := allocation.New(allocation.Defaults())
		loop.Configure(now)
		at := epoch
		for range 5 {
			for _, name := range []string{"a", "b", "c"} {
				loop.Observe(at, "agent-"+name, report(name, rapid.Float64Range(0, 300).Draw(t, name)))
			}
			at = at.Add(every)
			loop.Step(at)
		}
		same := loop.Rehearse(now, nil)
		want := loop.Rehearse(next, nil)
		compare(t, "the configuration in force", same, loop.Step(at))
		for name := range now.Tenants { // another set of names is another demand of the unknown
			if _, stays := next.Tenants[name]; !stays {
				return
			}
		}
		loop.Configure(next)
		compare(t, "another configuration", want, loop.Step(at))
	})
}

// A tenant that is new gets its part of a full pool for the demand that is supposed, and what flows have for their
// noise. The others get what is left.
func TestSupposedDemand(t *testing.T) {
	now := &allocation.Config{Pools: []allocation.Pool{{Name: "api", Capacity: 90}}, Tenants: map[string]float64{"a": 1}}
	next := &allocation.Config{Pools: now.Pools, Tenants: map[string]float64{"a": 1, "new": 2}}
	loop := allocation.New(allocation.Defaults())
	loop.Configure(now)
	for i := range 5 {
		at := epoch.Add(time.Duration(i) * every)
		loop.Observe(at, "agent", report("a", 300))
		loop.Step(at)
	}
	for demand, want := range map[float64]struct{ least, most, rest float64 }{10: {10, 15, 80}, 300: {59, 61, 30}} {
		supposed := map[allocation.Flow]float64{flowOf("new"): demand, {Tenant: "new", Pool: "other"}: 9}
		o := loop.Rehearse(next, supposed)
		got, rest := o.Flow(flowOf("new")), o.Flow(flowOf("a"))
		if got.Demand != demand || got.Share < want.least || got.Share > want.most || math.Abs(rest.Share-want.rest) > 2 ||
			len(o.Flows) != 2 {
			t.Errorf("of %v it gets %+v, the other %+v, of %d flows", demand, got, rest, len(o.Flows))
		}
	}
}

func compare(t *rapid.T, what string, a, b *allocation.Outcome) {
	if len(a.Flows) != len(b.Flows) {
		t.Fatalf("%s: %d flows, then %d", what, len(a.Flows), len(b.Flows))
	}
	for i := range b.Flows {
		was := a.Flow(b.Flows[i].Flow)
		if was == nil || math.Abs(was.Share-b.Flows[i].Share) > 1e-6*b.Flows[i].Share || was.Bound != b.Flows[i].Bound {
			t.Errorf("%s: %+v, then %+v", what, was, b.Flows[i])
		}
	}
	if math.Abs(a.Pools[0].Price-b.Pools[0].Price) > 1e-6 || math.Abs(a.Pools[0].FairRate-b.Pools[0].FairRate) > 1e-6 {
		t.Errorf("%s: pool %+v, then %+v", what, a.Pools[0], b.Pools[0])
	}
}
