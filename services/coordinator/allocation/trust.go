package allocation

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// Bounds on what one agent may report. An agent measures its own gateways and nobody
// checks it. So each number is bounded, and with it what the agent can take from others:
//
//	demand, completed, shed and residence of a flow   ≤ maxDemand·μ (residence ·maxQueue)
//	served of a flow                                  ≤ maxServed·μ
//	served of all flows that are OFF in a pool        ≤ μ·min(1, 2·w/W)
//	waiting, in flight                                ≤ maxQueue·μ
//	weight of a replica                               ≤ maxWeight·(median weight)
//
// μ is the capacity of the pool, w the weight of the agent's replicas and W that of all replicas. An OFF flow is not
// limited: what it is served comes off the capacity before the others get anything. Without the third bound one agent
// could invent such a flow and leave nothing; with it at least half of the other gateways' part by weight is left.
const (
	maxDemand = 1000 // times the capacity
	maxServed = 10   // times the capacity: a burst, within one report
	maxQueue  = 600  // seconds of the capacity
	maxWeight = 10   // times the median
	maxRate   = 1e12 // the largest weight before the others' weights are known
	// maxReplicas bounds the filter processes of one agent, and the parts of a flow.
	maxReplicas = 1024
	// maxDelay bounds the gossip delay that an agent reports.
	maxDelay = 10 * time.Second
)

// Suspect is an agent that reported impossible numbers. Counts begin with the agent's first report.
type Suspect struct {
	Agent   string
	Bounded uint64 // numbers that were beyond their bound
	Unknown uint64 // flows of pools that are not configured, or without a name
}

// bound brings a reported number into [0, most] and counts a number outside.
func (a *agent) bound(v, most float64) float64 {
	if v >= 0 && v <= most {
		return v
	}
	a.bounded++
	if !(v > 0) {
		return 0
	}
	return most
}

// usable returns the replicas with usable weights, in order: an unset weight counts 1.
func (a *agent) usable(replicas []Replica) []Replica {
	if len(replicas) > maxReplicas {
		a.bounded += uint64(len(replicas) - maxReplicas)
		replicas = replicas[:maxReplicas]
	}
	out := slices.Clone(replicas)
	for i := range out {
		if out[i].Weight = a.bound(out[i].Weight, maxRate); out[i].Weight == 0 {
			out[i].Weight = 1
		}
	}
	slices.SortFunc(out, func(a, b Replica) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// boundWeights bounds the weights of all replicas by their median. It returns the sum of
// each agent's weights and of all weights.
func (al *Allocator) boundWeights() (each map[string]float64, total float64) {
	var weights []float64
	for _, a := range al.agents {
		for _, replica := range a.replicas {
			weights = append(weights, replica.Weight)
		}
	}
	most := math.Inf(1)
	if len(weights) > 0 {
		slices.Sort(weights)
		most = maxWeight * weights[(len(weights)-1)/2]
	}
	each = make(map[string]float64, len(al.agents))
	for _, name := range slices.Sorted(maps.Keys(al.agents)) {
		a := al.agents[name]
		for i := range a.replicas {
			a.replicas[i].Weight = a.bound(a.replicas[i].Weight, most)
			each[name] += a.replicas[i].Weight
		}
		if len(a.replicas) == 0 { // its gateways have left; their last report still counts
			each[name] = 1
		}
		total += each[name]
	}
	return each, total
}

// boundOff scales down what an agent says that OFF flows were served, if their sum is
// more than the agent may take from a pool.
func (al *Allocator) boundOff(a *agent, part float64) {
	served := map[string]float64{}
	for _, e := range a.order {
		if e.flow != nil && e.flow.settings.off {
			served[e.key.Pool] += e.rate.served
		}
	}
	for _, e := range a.order {
		most := al.capacities[e.key.Pool] * math.Min(1, 2*part)
		if sum := served[e.key.Pool]; sum > most && e.flow != nil && e.flow.settings.off {
			e.rate.served *= most / sum
			a.bounded++
		}
	}
}

// suspects are the agents that reported impossible numbers, in order.
func (al *Allocator) suspects() []Suspect {
	var out []Suspect
	for name, a := range al.agents {
		if a.bounded+a.unknown > 0 {
			out = append(out, Suspect{name, a.bounded, a.unknown})
		}
	}
	slices.SortFunc(out, func(a, b Suspect) int { return cmp.Compare(a.Agent, b.Agent) })
	return out
}

// delay is the gossip delay that the time between rounds follows: the median over
// agents, each weighted by the number of its replicas. With the maximum, one agent that
// was stopped for some seconds and measures that as delay would slow all rounds.
func (al *Allocator) delay() time.Duration {
	type one struct {
		delay  time.Duration
		weight int
	}
	var all []one
	total := 0
	for _, a := range al.agents {
		all = append(all, one{a.delay, len(a.replicas)})
		total += len(a.replicas)
	}
	slices.SortFunc(all, func(a, b one) int { return cmp.Compare(a.delay, b.delay) })
	sum := 0
	for _, a := range all {
		if sum += a.weight; a.weight > 0 && 2*sum >= total {
			return a.delay
		}
	}
	return 0
}
