package world

import (
	"slices"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/lab/simulate/scenario"
	"github.com/titrate/titrate/lab/simulate/system"
	"github.com/titrate/titrate/lab/simulate/traffic"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// three is a world of three gateways with a pool and a limit.
func three(t *testing.T) *World {
	t.Helper()
	s := scenario.New(time.Minute, 3)
	s.Resources = []resource.Message{&quotav1.Pool{Name: "pools/api", Capacity: 100},
		&quotav1.Tenant{Name: "tenants/acme"}, &quotav1.Limit{Name: "tenants/acme/limits/each", Rate: "50/s"}}
	s.Clients = []scenario.Client{{Name: "app", Tenant: "acme", Pool: "api", Cost: 1, Demand: scenario.Poisson(20)}}
	s = s.Clone()
	cast := traffic.NewCast(s)
	w, err := New(system.Stage{Scenario: s, Cast: cast, Up: []bool{true, true, true}, Answer: func(system.Answer) {}})
	if err != nil {
		t.Fatal(err)
	}
	return w.(*World)
}

// limitOf is the first limit of a tenant.
func limitOf(c *config.Config, tenant string) config.Limit {
	return c.Tenants[slices.IndexFunc(c.Tenants, func(t config.Tenant) bool { return t.Name == tenant })].Limits[0]
}

// happen lets an event happen and some time pass.
func (w *World) happen(at time.Duration, e scenario.Event, then time.Duration) {
	e.At = at
	w.Advance(at)
	w.Happen(&e)
	w.Advance(at + then)
}

func TestTheyMeet(t *testing.T) {
	w := three(t)
	w.Advance(0)
	for i := range w.agents {
		a := &w.agents[i]
		in := a.core.Status(a.time(w)).Applied
		if sums := w.gateways[i].sums; sums.Replicas != 3 || !a.connected || in.Stale {
			t.Errorf("%s after the quiet time: %d replicas, connected %v, in force %+v", a.name, sums.Replicas,
				a.connected, in)
		}
	}
}

// A minority is isolated: frozen first, split after T1; the majority goes on.
func TestIsolation(t *testing.T) {
	w := three(t)
	isolation := func(i int) exchange.Isolation { return w.gateways[i].sums.Isolation }
	groups := [][]string{{"gw-1"}, {"gw-2", "gw-3", scenario.Coordinator}}
	w.happen(time.Second, scenario.Event{Kind: scenario.Partition, Groups: groups}, 3*time.Second)
	if isolation(0) != exchange.Frozen || isolation(1) != exchange.Connected || w.agents[0].connected ||
		!w.agents[1].connected {
		t.Errorf("cut off: %v, the others %v", isolation(0), isolation(1))
	}
	w.Advance(exchange.DefaultSplitAfter + 2*time.Second)
	if isolation(0) != exchange.Split {
		t.Errorf("after T1: %v", isolation(0))
	}
	w.happen(exchange.DefaultSplitAfter+3*time.Second, scenario.Event{Kind: scenario.Heal}, 2*time.Second)
	if isolation(0) != exchange.Connected || !w.agents[0].connected {
		t.Errorf("healed: %v, connected %v", isolation(0), w.agents[0].connected)
	}
}

// A new leader has the next epoch, and agents obey it.
func TestNewLeader(t *testing.T) {
	w := three(t)
	w.happen(time.Second, scenario.Event{Kind: scenario.CoordinatorLost}, 11*time.Second)
	if s := w.agents[0].core.Status(w.agents[0].time(w)).Applied; !s.Stale || s.Epoch != 1 {
		t.Errorf("without a coordinator: %+v", s)
	}
	w.happen(13*time.Second, scenario.Event{Kind: scenario.CoordinatorBack}, 5*time.Second)
	for i := range w.agents {
		if s := w.agents[i].core.Status(w.agents[i].time(w)).Applied; s.Stale || s.Epoch != 2 {
			t.Errorf("with a new one: %+v", s)
		}
	}
}

// A gateway that leaves stops being a member at once; a gateway that crashes stays a member until memberlist
// declares it dead.
func TestLeaveAndCrash(t *testing.T) {
	w := three(t)
	members := func() int { return w.gateways[0].sums.Replicas }
	w.happen(time.Second, scenario.Event{Kind: scenario.Crash, Replica: "gw-2"}, time.Second)
	if members() != 3 {
		t.Errorf("after a crash: %d members", members())
	}
	w.happen(3*time.Second, scenario.Event{Kind: scenario.Leave, Replica: "gw-3"}, time.Second)
	if members() != 2 {
		t.Errorf("after a leave: %d members", members())
	}
	w.happen(5*time.Second, scenario.Event{Kind: scenario.Join, Replica: "gw-3"}, time.Second)
	if members() != 3 {
		t.Errorf("after a join: %d members", members())
	}
	w.Advance(50 * time.Second)
	if members() != 2 {
		t.Errorf("long after the crash: %d members", members())
	}
}

// A restarted process is the same replica, of a later generation.
func TestRestart(t *testing.T) {
	w := three(t)
	w.Advance(time.Second)
	before := w.gateways[1].generation
	w.happen(time.Second, scenario.Event{Kind: scenario.Restart, Replica: "gw-2"}, time.Second)
	if g := &w.gateways[1]; g.generation <= before || g.engine == nil {
		t.Errorf("generation %d after %d", g.generation, before)
	}
	if n := w.gateways[0].sums.Replicas; n != 3 {
		t.Errorf("%d members", n)
	}
}

// A change reaches agents that are cut off when they are connected again.
func TestChangeWhileCutOff(t *testing.T) {
	w := three(t)
	w.happen(time.Second, scenario.Event{Kind: scenario.Partition, Groups: [][]string{{"gw-1"}}}, time.Second)
	e := scenario.Event{Kind: scenario.Apply, Resource: &quotav1.Limit{Name: "tenants/acme/limits/each", Rate: "7/s"}}
	w.stage.Scenario.Change(&e)
	w.happen(3*time.Second, e, time.Second)
	rate := func(gateway int) float64 { return limitOf(w.gateways[gateway].config, "acme").Rate }
	if rate(0) != 50 {
		t.Error("an older configuration changed")
	}
	if w.gateways[0].config.Revision != 1 || w.gateways[1].config.Revision != 2 ||
		rate(1) != 7 {
		t.Errorf("revisions %d, %d", w.gateways[0].config.Revision, w.gateways[1].config.Revision)
	}
	w.happen(5*time.Second, scenario.Event{Kind: scenario.Heal}, 2*time.Second)
	if w.gateways[0].config.Revision != 2 {
		t.Errorf("after healing: revision %d", w.gateways[0].config.Revision)
	}
}

// Without its agent a gateway behaves like an agent that has lost the others. With a new agent it receives the
// others' claims again.
func TestAgentLost(t *testing.T) {
	w := three(t)
	w.happen(time.Second, scenario.Event{Kind: scenario.AgentLost, Replica: "gw-1"}, time.Second)
	for _, c := range []struct {
		at   time.Duration
		want exchange.Isolation
	}{{2 * time.Second, exchange.Frozen}, {exchange.DefaultSplitAfter + time.Second, exchange.Split}, {17 * time.Second, exchange.Alone}} {
		w.Advance(c.at)
		if s := w.gateways[0].sums; s.Isolation != c.want || s.Replicas != 3 {
			t.Errorf("at %v: %v among %d replicas, want %v", c.at, s.Isolation, s.Replicas, c.want)
		}
	}
	if s := w.gateways[1].sums; s.Isolation != exchange.Connected {
		t.Errorf("the others: %v among %d replicas", s.Isolation, s.Replicas)
	}
	w.happen(18*time.Second, scenario.Event{Kind: scenario.AgentBack, Replica: "gw-1"}, 3*time.Second)
	for i := range w.gateways {
		if s := w.gateways[i].sums; s.Replicas != 3 || s.Isolation != exchange.Connected {
			t.Errorf("gateway %d with a new agent: %v among %d replicas", i, s.Isolation, s.Replicas)
		}
	}
}
