package traffic

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/titrate/titrate/lab/simulate/scenario"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

func up(c *Cast) []bool {
	out := make([]bool, len(c.Gateways))
	for i := range out {
		out[i] = true
	}
	return out
}

// all are a scenario's requests, asked for in steps.
func all(s *scenario.Scenario, step time.Duration) ([]Request, *Cast) {
	s = s.Clone()
	c := NewCast(s)
	src := NewSource(s, c, up(c))
	var out []Request
	for now := step; now < s.Duration+step; now += step {
		out = src.Next(min(now, s.Duration), out)
	}
	return out, c
}

func one(demand scenario.Demand, route scenario.Route) *scenario.Scenario {
	s := scenario.New(20*time.Second, 3)
	s.Resources = []resource.Message{&quotav1.Tenant{Name: "tenants/t"},
		&quotav1.Limit{Name: "tenants/t/limits/l", Rate: "10/s", Burst: 5}}
	s.Clients = []scenario.Client{{Name: "c", Tenant: "t", Cost: 1, Demand: demand, Route: route}}
	return s
}

func TestArrivals(t *testing.T) {
	for name, c := range map[string]struct {
		demand      scenario.Demand
		least, most int
	}{
		"even":    {scenario.Constant(7), 140, 140},
		"poisson": {scenario.Poisson(50), 900, 1100},
		"on, off": {scenario.OnOff(10, time.Second, 3*time.Second), 50, 50},
		"ramp": {scenario.Demand{Points: []scenario.Point{{At: 0, Rate: 0}, {At: 10 * time.Second, Rate: 20}},
			Ramp: true}, 299, 301},
		"step": {scenario.Demand{Points: []scenario.Point{{At: 5 * time.Second, Rate: 4},
			{At: 10 * time.Second, Rate: 0}}}, 20, 20},
		"trace": {scenario.Demand{Trace: []scenario.Arrival{{At: 0, Client: "a", Cost: 2},
			{At: time.Second, Client: "b", Cost: 1}, {At: time.Second, Client: "a", Cost: 3}}}, 3, 3},
		"nothing": {scenario.Constant(0), 0, 0},
	} {
		got, _ := all(one(c.demand, scenario.Route{}), 100*time.Millisecond)
		if len(got) < c.least || len(got) > c.most {
			t.Errorf("%s: %d requests, want %d to %d", name, len(got), c.least, c.most)
		}
		if !slices.IsSortedFunc(got, func(a, b Request) int { return int(a.At - b.At) }) {
			t.Errorf("%s: times run back", name)
		}
	}
}

// How often Next is asked changes nothing.
func TestStepsDoNotMatter(t *testing.T) {
	s := one(scenario.Poisson(40), scenario.Route{})
	s.Clients[0].Count = 4
	a, _ := all(s, 7*time.Millisecond)
	b, _ := all(s, time.Minute)
	if !slices.Equal(a, b) {
		t.Errorf("%d and %d requests, or others", len(a), len(b))
	}
}

// One client's demand does not move another's requests.
func TestClientsAreIndependent(t *testing.T) {
	s := one(scenario.Poisson(10), scenario.Route{})
	of := func() (times []time.Duration) {
		got, c := all(s, time.Second)
		for _, r := range got {
			if c.Clients[r.Client].Name == "c" {
				times = append(times, r.At)
			}
		}
		return times
	}
	alone := of()
	s.Clients = append(s.Clients, scenario.Client{Name: "d", Tenant: "t", Cost: 1, Demand: scenario.Poisson(100)})
	if !slices.Equal(alone, of()) {
		t.Error("another client changed the times")
	}
}

func TestRoutes(t *testing.T) {
	count := func(r scenario.Route) (n [3]int, moves int) {
		got, _ := all(one(scenario.Constant(100), r), time.Second)
		for i, q := range got {
			n[q.Gateway]++
			if i > 0 && got[i-1].Gateway != q.Gateway {
				moves++
			}
		}
		return n, moves
	}
	if n, _ := count(scenario.Route{Kind: scenario.Pinned, Replica: "gw-2"}); n != [3]int{0, 2000, 0} {
		t.Errorf("pinned: %v", n)
	}
	if n, moves := count(scenario.Route{Kind: scenario.Moving, Every: 2 * time.Second}); moves != 9 ||
		slices.Min(n[:]) < 500 {
		t.Errorf("moving each 2 s: %v, %d moves in 20 s", n, moves)
	}
	if n, moves := count(scenario.Route{Kind: scenario.RoundRobin}); moves != 1999 || slices.Min(n[:]) < 666 {
		t.Errorf("round robin: %v, %d moves", n, moves)
	}
	n, _ := count(scenario.Route{Weights: map[string]float64{"gw-1": 6, "gw-2": 3, "gw-3": 1}})
	for i, want := range []float64{1200, 600, 200} {
		if math.Abs(float64(n[i])-want) > 5*math.Sqrt(want) {
			t.Errorf("6:3:1: %v", n)
		}
	}
}

// A gateway that is down gets nothing.
func TestDown(t *testing.T) {
	for _, r := range []scenario.Route{{}, {Kind: scenario.Pinned, Replica: "gw-2"},
		{Kind: scenario.Moving, Every: time.Second},
		{Kind: scenario.RoundRobin}, {Weights: map[string]float64{"gw-2": 1}}} {
		s := one(scenario.Constant(100), r).Clone()
		c := NewCast(s)
		src := NewSource(s, c, up(c))
		src.SetUp(1, false)
		for _, q := range src.Next(s.Duration, nil) {
			if q.Gateway == 1 {
				t.Fatalf("route %+v: a request to a gateway that is down", r)
			}
		}
	}
}

// Central admits exactly the conforming requests; requests below the limit are Within.
func TestCentral(t *testing.T) {
	got, _ := all(one(scenario.Constant(30), scenario.Route{}), time.Second)
	central, within := 0, 0
	for _, r := range got {
		if r.Central {
			central++
		}
		if r.Within {
			within++
			if !r.Central {
				t.Fatal("within, but the central bucket is empty")
			}
		}
	}
	if central < 203 || central > 205 || within > 10 {
		t.Errorf("30/s for 20 s at 10/s, burst 5: %d admitted, %d within", central, within)
	}
	got, _ = all(one(scenario.Constant(9), scenario.Route{}), time.Second)
	for _, r := range got {
		if !r.Within {
			t.Fatal("9/s at 10/s is not within")
		}
	}
}

// A limit counts by its identity, and only requests of its classes.
func TestIdentitiesAndClasses(t *testing.T) {
	s := one(scenario.Constant(1), scenario.Route{})
	s.Resources = []resource.Message{&quotav1.Tenant{Name: "tenants/t"},
		&quotav1.Limit{Name: "tenants/t/limits/ip", Rate: "1/s", Identity: "ip",
			Overrides: []*quotav1.InlineOverride{{Client: "office", Rate: "9/s"}}},
		&quotav1.Limit{Name: "tenants/t/limits/writes", Rate: "2/s", Classes: []string{"writes", "deletes"}}}
	s.Clients[0].Count, s.Clients[0].Identities = 2, map[string]string{"ip": "office"}
	s.Clients = append(s.Clients, scenario.Client{Name: "w", Tenant: "t", Cost: 1, Demand: scenario.Constant(1),
		Classes: []string{"writes"}})
	c := NewCast(s.Clone())
	want := []Key{{Tenant: "t", Limit: "ip", Client: "office", Rate: 9, Burst: 9},
		{Tenant: "t", Limit: "ip", Rate: 1, Burst: 1}, {Tenant: "t", Limit: "writes", Client: "w", Rate: 2, Burst: 2}}
	if !slices.Equal(c.Keys, want) {
		t.Errorf("%+v\nwant %+v", c.Keys, want)
	}
	if a, w := c.Clients[0], c.Clients[2]; a.Identities[0] != "office" || a.Classes != 0 || w.Identities != nil ||
		w.Classes != 1 {
		t.Errorf("%+v, %+v", a, w)
	}
}

func TestCast(t *testing.T) {
	s := one(scenario.Constant(1), scenario.Route{})
	all := &quotav1.Limit{Name: "tenants/-/limits/all", Key: quotav1.Key_TENANT, Rate: "5/s"}
	s.Resources = []resource.Message{
		&quotav1.Pool{Name: "pools/p", Capacity: 1}, &quotav1.Pool{Name: "pools/q", Capacity: 1},
		&quotav1.Tenant{Name: "tenants/t"}, all,
		&quotav1.Limit{Name: "tenants/t/limits/each", Rate: "1/s",
			Overrides: []*quotav1.InlineOverride{{Client: "c-2", Rate: "7/s"}}},
		&quotav1.Limit{Name: "tenants/t/limits/q-only", Rate: "3/s", Pools: []string{"q"}},
		&quotav1.Limit{Name: "tenants/t/limits/shadow", Rate: "3/s", Mode: quotav1.Mode_SHADOW},
	}
	s.Clients[0].Pool, s.Clients[0].Count = "p", 3
	s.Events = []scenario.Event{{At: time.Second, Kind: scenario.Join, Replica: "gw-9"}}
	s = s.Clone()
	c := NewCast(s)
	if len(c.Gateways) != 4 || c.Weights[3] != 1 || len(c.Clients) != 3 || len(c.Keys) != 4 || len(c.Flows) != 1 {
		t.Fatalf("%+v", c)
	}
	if k := c.Keys[c.Clients[1].Keys[1]]; k.Rate != 7 || k.Burst != 7 || k.Client != "c-2" {
		t.Errorf("override: %+v", k)
	}
	if c.Clients[0].Keys[0] != c.Clients[2].Keys[0] {
		t.Error("a tenant's key is one")
	}
	s.Change(&scenario.Event{Kind: scenario.Apply,
		Resource: &quotav1.Limit{Name: all.Name, Key: quotav1.Key_TENANT, Rate: "50/s"}})
	c.Refresh(s)
	if k := c.Keys[c.Clients[0].Keys[0]]; k.Rate != 50 {
		t.Errorf("after a change: %+v", k)
	}
}
