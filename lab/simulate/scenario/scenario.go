package scenario

import (
	"fmt"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/wording"
)

// Coordinator is the name of the coordinator in a partition.
const Coordinator = "coordinator"

// Scenario is the input of a simulation. In code, start from [New]: zero values are not the defaults.
type Scenario struct {
	Name     string        // for titles
	Duration time.Duration // > 0
	Warmup   time.Duration // left out of means and deviations, < Duration
	Lead     time.Duration // quiet time before 0 in which gateways find each other; 0: a cold start
	Seed     uint64

	Replicas []Replica // there from the start
	Gossip   Gossip
	Sites    []Site // none: all replicas are of one site
	Link     Delay  // of a message between a gateway and its agent, one way
	Late     Late
	Control  Control
	// Resources are pools, tenants, quotas and limits as titrate apply takes them. Without
	// pools only limits are played.
	Resources []resource.Message
	Upstreams []Upstream // of adaptive pools; a pool that is not named has the defaults
	Clients   []Client
	Events    []Event // in any order

	// InForce are the compiled Resources. It is nil except in a clone, whose events change it.
	InForce *Configuration
}

// New is an empty scenario with the defaults of the format and gateways gw-1 to
// gw-n.
func New(duration time.Duration, n int) *Scenario {
	s := &Scenario{
		Duration: duration, Warmup: duration / 10, Lead: 2 * time.Second, Seed: 1,
		Gossip: Gossip{Period: exchange.DefaultPeriod, Delay: 10 * time.Millisecond,
			SplitAfter: exchange.DefaultSplitAfter, ForgetAfter: exchange.DefaultForgetAfter,
			ExactWithin: exchange.DefaultExactWithin},
		Link: Delay{100 * time.Microsecond, 50 * time.Microsecond},
		Late: Late{Gateways: aLittle, Agents: aLittle},
		Control: Control{
			Round: 250 * time.Millisecond, Delay: 5 * time.Millisecond,
			SoftExpiry: 10 * time.Second, Settle: 2 * time.Second,
		},
	}
	for i := range n {
		s.Replicas = append(s.Replicas, Replica{Name: fmt.Sprintf("gw-%d", i+1), Weight: 1})
	}
	return s
}

// aLittle is the delay of a process on a machine that is not busy: 0.2 ± 0.2 ms.
var aLittle = Delay{200 * time.Microsecond, 200 * time.Microsecond}

// Replica is a gateway and its agent.
type Replica struct {
	Name   string
	Weight float64 // in the split of shares, > 0
}

// Gossip is the network between agents. A packet takes Delay ± Jitter, evenly
// spread, at least 0.1 ms, and is lost with probability Loss.
type Gossip struct {
	Period        time.Duration // P, 10 ms to 1 s
	Delay, Jitter time.Duration
	Loss          float64       // 0 to 1
	SplitAfter    time.Duration // T1: a cut-off agent falls to its static part
	ForgetAfter   time.Duration // T2 > T1: an unreachable replica's claims count for so long
	ExactWithin   time.Duration // limits that state no precision are EXACT while the way takes this at most; 0: LOCAL
	// Everybody is the number of agents up to which each knows all claims, 0: as in an installation. Beyond Shared keys
	// of an agent that is so of no EXACT key; 0: as in an installation, -1: of none. No file sets them.
	Everybody, Shared int
}

// Site is a group of replicas. Between two sites the longer delay of both counts, and the larger loss.
type Site struct {
	Name          string
	Replicas      []string      // a replica is of one site; those of none are of the site ""
	Delay, Jitter time.Duration // to other sites, one way
	Loss          float64       // likewise, 0 to 1
}

// Delay is Delay ± Jitter, evenly spread, at least 0.
type Delay struct{ Delay, Jitter time.Duration }

// Late has the delays with which processes do due work and handle received messages. Requests are decided when
// they come.
type Late struct{ Gateways, Agents Delay }

// Control is the coordinator and the way to it.
type Control struct {
	Round      time.Duration // least time between rounds
	Delay      time.Duration // one way, at least 1 ms
	SoftExpiry time.Duration // of leases
	Settle     time.Duration // a new leader's wait before its first leases
}

// Upstream serves a pool whose capacity is unknown to Titrate: one server that takes requests in the order of
// arrival and never gives up. The upstream of any other pool serves the configured capacity, and answers at
// once.
type Upstream struct {
	Pool     string
	Capacity float64       // cost units/s that it serves
	Takes    time.Duration // of an answer, without the wait for the server
}

// DefaultTakes is the time of an upstream's answer if the scenario has none.
const DefaultTakes = 10 * time.Millisecond

// Client sends requests. Count > 1 makes as many, named Name-1, Name-2, …; 0 is 1.
type Client struct {
	Name         string
	Count        int
	Tenant, Pool string // no Pool only in a scenario without pools
	Cost         float64
	Demand       Demand
	Route        Route
	Patience     time.Duration // gives up waiting after this; 0: never
	Takes        time.Duration // for which an admitted request is in flight; it ends with its gateway
	// Identities and Classes are the identities and classes of all its requests, for limits that refer to them.
	Identities map[string]string
	Classes    []string
}

// Names returns the names of the clients that it stands for; for a trace, the clients in the trace.
func (c *Client) Names() []string {
	if len(c.Demand.Trace) > 0 {
		var names []string
		seen := map[string]bool{}
		for _, a := range c.Demand.Trace {
			if !seen[a.Client] {
				seen[a.Client] = true
				names = append(names, a.Client)
			}
		}
		return names
	}
	if c.Count <= 1 {
		return []string{c.Name}
	}
	names := make([]string, c.Count)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", c.Name, i+1)
	}
	return names
}

// RouteKind is the rule by which requests find a gateway.
type RouteKind uint8

// The routes.
const (
	Spread     RouteKind = iota // at random, by Weights; none: evenly
	Pinned                      // to Replica
	Moving                      // to one, then after Every to the next
	RoundRobin                  // each to the next
)

// Route is the rule by which requests find a gateway that is up.
type Route struct {
	Kind    RouteKind
	Weights map[string]float64 // by gateway; a gateway without a weight gets nothing
	Replica string
	Every   time.Duration
}

// EventKind is the kind of an event.
type EventKind uint8

// The events.
const (
	Partition        EventKind = iota // messages pass only within Groups
	Heal                              // messages pass everywhere
	Join                              // Replica starts, with nothing known
	Leave                             // Replica drains in order
	Crash                             // Replica and its agent die
	Restart                           // Replica's process is replaced, its agent lives on
	AgentLost                         // Replica's agent dies, its process lives on
	AgentBack                         // a new agent for Replica
	AgentPaused                       // Replica's agent is stopped, as by SIGSTOP
	AgentResumed                      // and runs again
	CoordinatorLost                   // no rounds, no leases
	CoordinatorBack                   // a new leader, with nothing known
	Apply                             // Resource replaces the one of its name
	Serve                             // the Upstream of an adaptive pool serves Capacity
	numberEventKinds                  // keep last
)

var eventNames = [numberEventKinds]string{"partition", "heal", "join", "leave", "crash", "restart", "agentLost",
	"agentBack", "agentPaused", "agentResumed", "coordinator lost", "coordinator back", "apply", "upstream"}

// Event is something that happens at a time.
type Event struct {
	At       time.Duration
	Kind     EventKind
	Groups   [][]string // of Partition; gateways not named are a group together
	Replica  string
	Resource resource.Message // of Apply
	Pool     string           // of Serve
	Capacity float64          // of Serve, cost units/s
}

// String describes the event.
func (e *Event) String() string {
	name := "?"
	if e.Kind < numberEventKinds {
		name = eventNames[e.Kind]
	}
	switch e.Kind {
	case Join, Leave, Crash, Restart, AgentLost, AgentBack, AgentPaused, AgentResumed:
		return name + " " + e.Replica
	case Apply:
		return name + " " + e.Resource.GetName()
	case Serve:
		return fmt.Sprintf("%s %s = %s/s", name, e.Pool, wording.Number(e.Capacity))
	case Partition:
		return fmt.Sprintf("partition %v", e.Groups)
	}
	return name
}
