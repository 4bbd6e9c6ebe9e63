package scenario

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// sound is a scenario without a mistake.
func sound() *Scenario {
	s := New(10*time.Second, 2)
	s.Resources = []resource.Message{
		&quotav1.Pool{Name: "pools/api", Capacity: 100},
		&quotav1.Tenant{Name: "tenants/acme"},
		&quotav1.Quota{Name: "tenants/acme/quotas/api", Guaranteed: 5},
		&quotav1.Limit{Name: "tenants/acme/limits/each", Rate: "10/s"},
		&quotav1.Pool{Name: "pools/found", Capacity: 10, Adaptive: &quotav1.Adaptive{Min: 1, Max: 100}},
	}
	s.Clients = []Client{{Name: "app", Tenant: "acme", Pool: "api", Cost: 1, Demand: Constant(5)}}
	return s
}

// numbered are so many identities.
func numbered(n int) map[string]string {
	out := map[string]string{}
	for i := range n {
		out[fmt.Sprint("id-", i)] = "x"
	}
	return out
}

func TestCheck(t *testing.T) {
	if errs := sound().Check(); len(errs) > 0 {
		t.Fatalf("a sound scenario: %v", errs[0])
	}
	event := func(e Event) func(*Scenario) {
		return func(s *Scenario) { e.At = time.Second; s.Events = append(s.Events, e) }
	}
	apply := func(m resource.Message) func(*Scenario) { return event(Event{Kind: Apply, Resource: m}) }
	upstream := func(u Upstream) func(*Scenario) { return func(s *Scenario) { s.Upstreams = []Upstream{u} } }
	each := func(l *quotav1.Limit) *quotav1.Limit { l.Name = "tenants/acme/limits/each"; return l }
	for field, spoil := range map[string]func(*Scenario){
		"duration":                    func(s *Scenario) { s.Duration = 0 },
		"warmup":                      func(s *Scenario) { s.Warmup = s.Duration },
		"lead":                        func(s *Scenario) { s.Lead = -1 },
		"replicas":                    func(s *Scenario) { s.Replicas = nil },
		"replicas[1].name":            func(s *Scenario) { s.Replicas[1].Name = "gw-1" },
		"replicas[0].weight":          func(s *Scenario) { s.Replicas[0].Weight = math.NaN() },
		"gossip.period":               func(s *Scenario) { s.Gossip.Period = 0 },
		"gossip.loss":                 func(s *Scenario) { s.Gossip.Loss = 1.5 },
		"gossip.forgetAfter":          func(s *Scenario) { s.Gossip.ForgetAfter = s.Gossip.SplitAfter },
		"coordinator.round":           func(s *Scenario) { s.Control.Round = time.Hour },
		"resources[0].capacity":       func(s *Scenario) { s.Resources[0].(*quotav1.Pool).Capacity = 0 },
		"resources":                   func(s *Scenario) { s.Resources, s.Clients = nil, nil },
		"resources[1].weight":         func(s *Scenario) { s.Resources[1].(*quotav1.Tenant).Weight = -1 },
		"resources[1].name":           func(s *Scenario) { s.Resources[1] = s.Resources[0] },
		"resources[2].name":           func(s *Scenario) { s.Resources[2].(*quotav1.Quota).Name = "tenants/acme/quotas/x" },
		"resources[2].max":            func(s *Scenario) { s.Resources[2].(*quotav1.Quota).Max = proto.Float64(math.NaN()) },
		"resources[2].mode":           func(s *Scenario) { s.Resources[2].(*quotav1.Quota).Mode = quotav1.Mode_OFF },
		"resources[3].rate":           func(s *Scenario) { s.Resources[3].(*quotav1.Limit).Rate = "1e99/s" },
		"clients:":                    func(s *Scenario) { s.Clients[0].Identities = numbered(9) },
		"upstreams[0].pool":           upstream(Upstream{Pool: "api", Capacity: 1}),
		"upstreams[0].capacity":       upstream(Upstream{Pool: "found"}),
		"upstreams[0].takes":          upstream(Upstream{Pool: "found", Capacity: 1, Takes: -1}),
		"clients":                     func(s *Scenario) { s.Clients = nil },
		"clients[0].tenant":           func(s *Scenario) { s.Clients[0].Tenant = "x" },
		"clients[0].pool":             func(s *Scenario) { s.Clients[0].Pool = "" },
		"clients[0].count":            func(s *Scenario) { s.Clients[0].Count = MaxClients + 1 },
		"clients[0].cost":             func(s *Scenario) { s.Clients[0].Cost = 0 },
		"clients[0].demand":           func(s *Scenario) { s.Clients[0].Demand = Demand{} },
		"clients[0].route.pinned":     func(s *Scenario) { s.Clients[0].Route = Route{Kind: Pinned, Replica: "x"} },
		"clients[0].route.spread":     func(s *Scenario) { s.Clients[0].Route = Route{Weights: map[string]float64{"gw-1": 0}} },
		"events[0].partition":         event(Event{Kind: Partition}),
		"events[0].join":              event(Event{Kind: Join, Replica: "gw-1"}),
		"events[0].crash":             event(Event{Kind: Crash, Replica: "gw-7"}),
		"events[0].apply.name":        apply(&quotav1.Limit{Name: "tenants/acme/limits/x", Rate: "1/s"}),
		"events[0].apply.rate":        apply(each(&quotav1.Limit{Rate: "1"})),
		"events[0].apply":             apply(each(&quotav1.Limit{Rate: "1/s", Key: quotav1.Key_TENANT})),
		"events[0].apply.capacity":    apply(&quotav1.Pool{Name: "pools/api"}),
		"events[0].upstream.pool":     event(Event{Kind: Serve, Pool: "api", Capacity: 1}),
		"events[0].upstream.capacity": event(Event{Kind: Serve, Pool: "found"}),
		"events[0].at":                func(s *Scenario) { s.Events = []Event{{At: s.Duration, Kind: Heal}} },
	} {
		s := sound()
		spoil(s)
		errs := s.Check()
		found := false
		for _, e := range errs {
			found = found || strings.HasPrefix(e.Error(), field)
		}
		if !found {
			t.Errorf("%s: found only %v", field, errs)
		}
	}
}

// The last gateway cannot leave, and a gateway that has left can come back.
func TestCheckOrderOfEvents(t *testing.T) {
	s := sound()
	s.Events = []Event{
		{At: 3 * time.Second, Kind: Join, Replica: "gw-1"},
		{At: time.Second, Kind: Crash, Replica: "gw-1"},
		{At: 4 * time.Second, Kind: Leave, Replica: "gw-2"},
	}
	if errs := s.Check(); len(errs) > 0 {
		t.Errorf("%v", errs[0])
	}
	s.Events = s.Events[1:]
	if errs := s.Check(); len(errs) != 1 || !strings.Contains(errs[0].Message, "no replica is left") {
		t.Errorf("%v", errs)
	}
}

// Next against a sum in small steps.
func TestNextOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Demand{Ramp: rapid.Bool().Draw(t, "ramp")}
		at := time.Duration(0)
		for range rapid.IntRange(1, 4).Draw(t, "points") {
			d.Points = append(d.Points, Point{at, rapid.Float64Range(0, 50).Draw(t, "rate")})
			at += time.Duration(rapid.IntRange(100, 2000).Draw(t, "ms")) * time.Millisecond
		}
		if rapid.Bool().Draw(t, "repeats") {
			d.Repeat = at
		}
		start := rapid.Float64Range(0, 5).Draw(t, "start")
		n := rapid.Float64Range(.01, 20).Draw(t, "n")
		const end, h = 20, 1e-3
		got := d.Next(start, n, end)
		sum := sumUntil(&d, start, min(got, end), h)
		if !math.IsInf(got, 1) && (got >= end || got < start || math.Abs(sum-n) > .2) {
			t.Fatalf("at %v the sum is %v, want %v", got, sum, n)
		}
		if math.IsInf(got, 1) && sum > n+.2 {
			t.Fatalf("never, but the sum is %v, want %v", sum, n)
		}
	})
}

func sumUntil(d *Demand, from, to, h float64) (sum float64) {
	for now := from; now < to; now += h {
		step := min(h, to-now)
		sum += d.at(now+step/2).rate * step
	}
	return sum
}

func TestChanges(t *testing.T) {
	d := OnOff(5, time.Second, 3*time.Second)
	if got := d.Changes(9 * time.Second); len(got) != 4 || got[0] != time.Second || got[3] != 8*time.Second {
		t.Errorf("%v", got)
	}
	if c := Constant(1); len(c.Changes(time.Hour)) != 0 {
		t.Error("a constant changes")
	}
}

func TestCloneAndChange(t *testing.T) {
	s := sound()
	c := s.Clone()
	if !c.Change(&Event{Kind: Apply, Resource: &quotav1.Limit{Name: "tenants/acme/limits/each", Rate: "3/s"}}) ||
		!c.Change(&Event{Kind: Apply, Resource: &quotav1.Pool{Name: "pools/api", Capacity: 7}}) ||
		!c.Change(&Event{Kind: Serve, Pool: "found", Capacity: 9}) {
		t.Fatal("no change")
	}
	now := c.InForce
	if l := now.Limits["acme"][0]; l.Rate != 3 || l.Burst != 3 || now.Gateways.Revision != 3 ||
		c.Serves(now.Allocation.Pools[0]) != 7 || c.Serves(now.Allocation.Pools[1]) != 9 {
		t.Errorf("%+v", now)
	}
	if now = s.Clone().InForce; now.Limits["acme"][0].Rate != 10 || now.Allocation.Pools[0].Capacity != 100 {
		t.Error("the original changed")
	}
	if c.Change(&Event{Kind: Heal}) {
		t.Error("healing changes no number")
	}
}
