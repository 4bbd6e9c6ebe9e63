package allocation_test

import (
	"slices"
	"testing"
	"time"

	"github.com/titrate/titrate/services/coordinator/allocation"
)

// An agent that restarts names no gateway until its gateways have found it. They live on meanwhile: if they were no
// members, the others would take their parts as well.
func TestAnAgentThatStartsAnewKeepsItsGateways(t *testing.T) {
	r := fleet()
	now := time.Unix(1_700_000_000, 0)
	members := func() (names []string) {
		for _, m := range r.Step(now).Members {
			names = append(names, m.Name)
		}
		return names
	}
	expect := func(what string, want ...string) {
		t.Helper()
		if got := members(); !slices.Equal(got, want) {
			t.Errorf("%s: members %v, want %v", what, got, want)
		}
	}
	empty := &allocation.Report{Interval: 250 * time.Millisecond}
	r.Observe(now, "agent-0", honest(0))
	r.Observe(now, "agent-1", honest(1))
	expect("before", "gw-0", "gw-1")
	r.Connect(now, "agent-1", nil)
	expect("started anew", "gw-0", "gw-1")
	now = now.Add(time.Second)
	r.Observe(now, "agent-1", empty)
	expect("its gateway has not come back yet", "gw-0", "gw-1")
	r.Observe(now, "agent-1", honest(1))
	expect("it has", "gw-0", "gw-1")
	r.Observe(now, "agent-1", empty)
	expect("and has gone", "gw-0")
	r.Observe(now, "agent-1", honest(1))
	r.Connect(now, "agent-1", nil)
	now = now.Add(6 * time.Second)
	r.Observe(now, "agent-1", empty)
	expect("it never came back", "gw-0")
}

// A flow that a report of changes does not name goes on as reported, unless it was reported once; a
// complete report takes back what it does not name.
func TestReportsOfChanges(t *testing.T) {
	al := allocation.New(allocation.Defaults())
	al.Configure(&allocation.Config{Tenants: map[string]float64{"a": 1, "b": 1, "c": 1},
		Pools: []allocation.Pool{{Name: "api", Capacity: 1000}}})
	now := time.Unix(1_700_000_000, 0)
	report := func(changes bool, flows ...allocation.FlowReport) {
		al.Observe(now, "agent", &allocation.Report{Interval: 250 * time.Millisecond, Changes: changes, Flows: flows})
	}
	row := func(tenant, gateway string, demand float64, once bool) allocation.FlowReport {
		return allocation.FlowReport{Flow: allocation.Flow{Tenant: tenant, Pool: "api"}, Gateway: gateway,
			Demand: demand, Served: demand, Once: once}
	}
	expect := func(what string, tenant string, want float64) {
		t.Helper()
		sum := 0.0
		for _, p := range al.Parts(allocation.Flow{Tenant: tenant, Pool: "api"}) {
			sum += p.Demand
		}
		if sum != want {
			t.Errorf("%s: %s has a demand of %v, want %v", what, tenant, sum, want)
		}
	}
	step := func() *allocation.Outcome {
		now = now.Add(250 * time.Millisecond)
		return al.Step(now)
	}
	report(false, row("a", "x", 5, false), row("b", "x", 6, false))
	step()
	report(true, row("a", "x", 10, false), row("a", "y", 20, false), row("c", "x", 4, true))
	step()
	expect("reported", "a", 30)
	expect("reported in a complete report only", "b", 0)
	expect("reported once", "c", 4)
	for range 100 {
		report(true)
		step()
	}
	expect("not named for 100 reports", "a", 30)
	expect("reported once, before", "c", 0)
	out := step() // nothing was reported since
	f := out.Flow(allocation.Flow{Tenant: "a", Pool: "api"})
	if f == nil || f.Demand < 29 || f.Demand > 31 || f.Agents != 1 {
		t.Errorf("%+v", f)
	}
	report(true, row("a", "y", 7, false))
	step()
	expect("named with one gateway", "a", 7)
	report(false, row("b", "x", 6, false))
	step()
	expect("left out of a complete report", "a", 0)
}

// An agent that begins to use a flow that has a share is news: it needs the lease.
func TestAFlowThatComesToAnAgentIsNews(t *testing.T) {
	r := fleet()
	now := time.Unix(1_700_000_000, 0)
	used := func(agent string) (n int) {
		r.Used(agent, func(*allocation.Lease) { n++ })
		return n
	}
	if r.Observe(now, "agent-0", honest(0)) {
		t.Error("news of flows that have no share yet")
	}
	r.Step(now)
	if !r.Observe(now, "agent-1", honest(1)) || used("agent-1") == 0 {
		t.Errorf("no news of flows that another agent uses; %d are used", used("agent-1"))
	}
	if r.Observe(now, "agent-1", honest(1)) {
		t.Error("the same report is news again")
	}
	for range 70 {
		now = now.Add(250 * time.Millisecond)
		r.Observe(now, "agent-0", honest(0))
		r.Observe(now, "agent-1", &allocation.Report{Interval: 250 * time.Millisecond})
		r.Step(now)
	}
	if n := used("agent-1"); n != 0 {
		t.Errorf("%d flows are still used by an agent that has not reported them for 17 s", n)
	}
}
