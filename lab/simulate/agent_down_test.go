package simulate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/lab/simulate/scenario"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// downAt is the time at which the agent of gw-1 fails.
const downAt = 10 * time.Second

// down is a failure of one agent of three.
type down struct {
	name   string
	events []scenario.Event
	// until is the time up to which a client of this gateway only is refused nothing; other clients never are.
	until time.Duration
}

func downs() []down {
	pause := func(d time.Duration) down {
		return down{fmt.Sprint("paused for ", d), []scenario.Event{
			{At: downAt, Kind: scenario.AgentPaused, Replica: "gw-1"},
			{At: downAt + d, Kind: scenario.AgentResumed, Replica: "gw-1"}}, 45 * time.Second}
	}
	cut := scenario.Event{At: downAt, Kind: scenario.Partition, Groups: [][]string{{"gw-1"}}}
	long := downAt + exchange.DefaultSplitAfter - time.Second
	return []down{
		pause(2 * time.Second), pause(6 * time.Second), pause(12 * time.Second),
		{"killed", []scenario.Event{{At: downAt, Kind: scenario.AgentLost, Replica: "gw-1"}}, long},
		{"killed, and back", []scenario.Event{{At: downAt, Kind: scenario.AgentLost, Replica: "gw-1"},
			{At: downAt + 8*time.Second, Kind: scenario.AgentBack, Replica: "gw-1"}}, 45 * time.Second},
		{"cut off", []scenario.Event{cut}, long},
		{"cut off for 12s", []scenario.Event{cut, {At: downAt + 12*time.Second, Kind: scenario.Heal}}, 45 * time.Second},
		{"cut off for 20s", []scenario.Event{cut, {At: downAt + 20*time.Second, Kind: scenario.Heal}}, long},
	}
}

// play plays a client at 80 % of a limit of a rate and as much burst; everybody is as in scenario.Gossip.
func (d *down) play(t *testing.T, everybody int, precision quotav1.Precision, rate float64, demand scenario.Demand,
	route scenario.Route, weights ...float64) (refused int) {
	s := scenario.New(45*time.Second, 3)
	s.Gossip.Delay, s.Gossip.Everybody, s.Lead = 250*time.Microsecond, everybody, 5*time.Second
	for i, w := range weights {
		s.Replicas[i].Weight = w
	}
	if route.Kind == scenario.Pinned {
		s.Duration = d.until
	}
	s.Resources = []resource.Message{&quotav1.Tenant{Name: "tenants/acme"},
		&quotav1.Limit{Name: "tenants/acme/limits/each", Rate: fmt.Sprint(rate, "/s"), Burst: rate, Precision: precision}}
	s.Clients = []scenario.Client{{Name: "app", Tenant: "acme", Cost: 1, Demand: demand, Route: route}}
	for _, e := range d.events {
		if e.At < s.Duration {
			s.Events = append(s.Events, e)
		}
	}
	return run(t, s, Options{}).Systems[0].Keys[0].Rejected
}

// One of three agents is paused, killed or cut off. No request of a client at 80 % of its limit is refused.
// This holds at each gateway while it has its part by weight, and at the gateway of that agent until the
// others use its claimed rate.
func TestAgentDownRefusesNothing(t *testing.T) {
	t.Parallel()
	each, one := scenario.Route{Kind: scenario.RoundRobin}, scenario.Route{Kind: scenario.Pinned, Replica: "gw-1"}
	for _, precision := range []quotav1.Precision{quotav1.Precision_LOCAL, quotav1.Precision_EXACT} {
		for _, d := range downs() {
			for _, rate := range []float64{5, 10, 100} {
				for name, route := range map[string]scenario.Route{"spread": each, "pinned": one} {
					if n := d.play(t, 0, precision, rate, scenario.Constant(.8*rate), route); n > 0 {
						t.Errorf("%v, %s, %s: %d refused of a client at 80 %% of %g/s", precision, d.name, name, n, rate)
					}
				}
			}
		}
	}
}

// The same where each key has one owner, for a client that comes to each gateway now and then.
func TestOwnerDownRefusesNothing(t *testing.T) {
	t.Parallel()
	for _, d := range downs() {
		for _, rate := range []float64{5, 100} {
			n := d.play(t, 1, quotav1.Precision_LOCAL, rate, scenario.Constant(.8*rate),
				scenario.Route{Kind: scenario.RoundRobin})
			if n > 0 {
				t.Errorf("%s: %d refused of a client at 80 %% of %g/s", d.name, n, rate)
			}
		}
	}
}

// The same by chance, with agents that all know all keys, and with gateways whose weights and traffic differ. Until a
// side that is cut off counts the others as gone, it has .2 of an EXACT limit and the standing parts of its gateways.
// Here that is .47 of the limit, for half of the traffic.
func TestAgentDownRefusesNothingByChance(t *testing.T) {
	t.Parallel()
	byWeight := scenario.Route{Weights: map[string]float64{"gw-1": 3, "gw-2": 2, "gw-3": 1}}
	for _, precision := range []quotav1.Precision{quotav1.Precision_LOCAL, quotav1.Precision_EXACT} {
		for _, d := range downs() {
			if n := d.play(t, 0, precision, 100, scenario.Poisson(80), scenario.Route{}); n > 0 {
				t.Errorf("%v, %s: %d refused of a client at 80 %% of 100/s", precision, d.name, n)
			}
			most := 0
			if precision == quotav1.Precision_EXACT && strings.HasPrefix(d.name, "cut off") {
				most = 2
			}
			if n := d.play(t, 0, precision, 100, scenario.Poisson(80), byWeight, 3, 2, 1); n > most {
				t.Errorf("%v, %s, by weight: %d refused of a client at 80 %% of 100/s", precision, d.name, n)
			}
		}
	}
}

// All gateways together admit no more of a limit than r·t + b, and while the agent is down r·w/W. That holds
// when clients ask each of them for the whole limit. For a STRICT limit the others reserve the gateway's part
// until the coordinator declares the gateway dead.
func TestAgentDownAdmitsNoMoreThanItsPart(t *testing.T) {
	t.Parallel()
	const rate, burst = 100., 50.
	for _, strict := range []bool{false, true} {
		for _, d := range downs() {
			s := scenario.New(45*time.Second, 3)
			s.Gossip.Delay, s.Lead = 250*time.Microsecond, 5*time.Second
			l := limit("acme", "each", rate, burst)
			l.Precision, l.Strict = quotav1.Precision_LOCAL, strict
			s.Resources = []resource.Message{&quotav1.Tenant{Name: "tenants/acme"}, l}
			s.Clients = []scenario.Client{{Name: "app", Tenant: "acme", Cost: 1, Demand: scenario.Poisson(3 * rate)}}
			s.Events = d.events
			down := s.Duration - downAt
			if len(d.events) > 1 {
				down = d.events[1].At - downAt + time.Second
			}
			if strict {
				const kept = 20 * time.Second // --membership
				down = max(0, down-kept)
			}
			const slack = 30 // the slack of the limit at this rate and delay, and the room of the pacer
			most := burst + rate/3*down.Seconds() + slack
			if k := run(t, s, Options{}).Systems[0].Keys[0]; k.WorstExcess > most {
				t.Errorf("STRICT %v, %s: %.0f over r·t + b, want %.0f at most", strict, d.name, k.WorstExcess, most)
			}
		}
	}
}
