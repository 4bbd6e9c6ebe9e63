package allocation_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/titrate/titrate/services/coordinator/allocation"
)

// fleet is a loop over one pool of 300 with the limited tenants a and b, and the
// tenant free that is OFF.
func fleet() *allocation.Allocator {
	r := allocation.New(allocation.Defaults())
	r.Configure(&allocation.Config{
		Revision: 1, Pools: []allocation.Pool{{Name: "api", Capacity: 300}},
		Tenants: map[string]float64{"a": 1, "b": 1, "free": 1},
		Quotas: map[allocation.Flow]allocation.Quota{flowOf("free"): {Max: math.Inf(1), Weight: math.NaN(),
			Off: true}},
	})
	return r
}

// honest is the report of one of three agents whose gateways see 200 per second of a
// and of b each.
func honest(i int) *allocation.Report {
	name := fmt.Sprintf("gw-%d", i)
	return &allocation.Report{Interval: 250 * time.Millisecond, GossipDelay: 20 * time.Millisecond,
		Replicas: []allocation.Replica{{Name: name, Weight: 1}},
		Flows: []allocation.FlowReport{
			{Flow: flowOf("a"), Gateway: name, Demand: 200, Served: 50, Limited: true},
			{Flow: flowOf("b"), Gateway: name, Demand: 200, Served: 50, Limited: true},
		}}
}

// play lets two honest agents and a third, spoiled agent report for ten seconds.
func play(r *allocation.Allocator, spoil func(*allocation.Report)) *allocation.Outcome {
	now := time.Unix(1_700_000_000, 0)
	var out *allocation.Outcome
	for range 40 {
		for i := range 3 {
			report := honest(i)
			if i == 2 {
				spoil(report)
			}
			r.Observe(now, fmt.Sprintf("agent-%d", i), report)
		}
		out = r.Step(now)
		now = now.Add(250 * time.Millisecond)
	}
	return out
}

// An agent that makes up what an OFF tenant was served cannot leave the others
// nothing: it takes twice its part by weight, here two thirds.
func TestOneAgentCannotStarveAPool(t *testing.T) {
	for _, served := range []float64{1e12, 1e308, math.Inf(1), math.NaN(), -1e12} {
		out := play(fleet(), func(r *allocation.Report) {
			r.Flows = append(r.Flows, allocation.FlowReport{Flow: flowOf("free"), Gateway: "gw-2", Demand: served,
				Served: served})
		})
		if a := out.Flow(flowOf("a")).Share; a < 49 {
			t.Errorf("served %g of an OFF tenant: a has %v of 300, want 50 at least", served, a)
		}
		if len(out.Suspects) != 1 || out.Suspects[0].Agent != "agent-2" || out.Suspects[0].Bounded == 0 {
			t.Errorf("served %g: suspects %+v", served, out.Suspects)
		}
	}
	out := play(fleet(), func(r *allocation.Report) {
		r.Flows = append(r.Flows, allocation.FlowReport{Flow: flowOf("free"), Gateway: "gw-2", Demand: 100,
			Served: 100})
	})
	if a := out.Flow(flowOf("a")).Share; math.Abs(a-100) > 5 || len(out.Suspects) != 0 {
		t.Errorf("100 of an OFF tenant leave a %v of 300, suspects %+v", a, out.Suspects)
	}
}

func TestWeightsAreBounded(t *testing.T) {
	for weight, most := range map[float64]float64{1e308: 10, math.Inf(1): 10, math.NaN(): 1, -1: 1, 3: 3} {
		out := play(fleet(), func(r *allocation.Report) { r.Replicas[0].Weight = weight })
		if got := out.Members[2].Weight; got != most {
			t.Errorf("weight %g counts as %v, want %v", weight, got, most)
		}
		if bad := weight != 3; (len(out.Suspects) == 1) != bad {
			t.Errorf("weight %g: suspects %+v", weight, out.Suspects)
		}
	}
}

func TestFlowsOfUnknownPoolsDoNotCount(t *testing.T) {
	out := play(fleet(), func(r *allocation.Report) {
		for i := range 100 {
			r.Flows = append(r.Flows, allocation.FlowReport{Flow: allocation.Flow{Tenant: "a",
				Pool: fmt.Sprint("made-up-", i)}, Demand: 1})
		}
	})
	if len(out.Suspects) != 1 || out.Suspects[0].Unknown != 4000 || len(out.Flows) != 2 {
		t.Errorf("%d flows, suspects %+v", len(out.Flows), out.Suspects)
	}
}

// One agent that was stopped for some seconds measures that as gossip delay.
func TestOnePausedAgentDoesNotSlowTheRounds(t *testing.T) {
	for _, paused := range []time.Duration{5 * time.Second, time.Hour, -time.Second} {
		out := play(fleet(), func(r *allocation.Report) { r.GossipDelay = paused })
		if out.Delay != 20*time.Millisecond {
			t.Errorf("with one agent at %s the delay is %s", paused, out.Delay)
		}
	}
}
