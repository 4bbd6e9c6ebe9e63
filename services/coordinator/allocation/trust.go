package allocation

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// What one agent may say. An agent measures its own gateways and nobody checks it, so
// that each number has a bound, and what it can take from others has one:
//
//	demand of a flow, cost it finished, turned away, or kept   ≤ maxDemand·μ
//	served of a flow                                           ≤ maxServed·μ
//	served of all flows that are OFF in a pool                 ≤ μ·min(1, 2·w/W)
//	waiting, in flight                                         ≤ maxHeld·μ
//	weight of a replica                                        ≤ maxWeight·(median weight)
//
// μ is the capacity of the pool, w the weight of the agent's replicas and W that of
// all. An OFF flow is not limited: what it is served comes off the pool before the
// others get anything, so that one agent that made it up could leave nothing. It
// leaves half of what the other gateways have by weight, or more.
const (
	maxDemand = 1000 // times the capacity
	maxServed = 10   // times the capacity: a burst, within one report
	maxHeld   = 600  // seconds of the capacity
	maxWeight = 10   // times the median
	// maxReplicas bounds the filter processes of one agent, and the parts of a flow.
	maxReplicas = 1024
	// maxDelay is the longest gossip delay that is believed.
	maxDelay = 10 * time.Second
)

// Suspect is an agent that reported what cannot be. Counts are of its present life.
type Suspect struct {
	Agent   string
	Bounded uint64 // numbers that were beyond their bound
	Unknown uint64 // flows of pools that are not configured, or without a name
}

// bound brings a reported number into [0, most] and counts one that is not there.
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

// usable are the replicas with a usable weight: an unset one counts 1.
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

// weigh bounds the weights of all replicas by their median, and returns the sum of
// each agent's and of all.
func (r *Allocator) weigh() (each map[string]float64, total float64) {
	var weights []float64
	for _, a := range r.agents {
		for _, replica := range a.replicas {
			weights = append(weights, replica.Weight)
		}
	}
	most := math.Inf(1)
	if len(weights) > 0 {
		slices.Sort(weights)
		most = maxWeight * weights[(len(weights)-1)/2]
	}
	each = make(map[string]float64, len(r.agents))
	for _, name := range slices.Sorted(maps.Keys(r.agents)) {
		a := r.agents[name]
		for i := range a.replicas {
			a.replicas[i].Weight = a.bound(a.replicas[i].Weight, most)
			each[name] += a.replicas[i].Weight
		}
		if len(a.replicas) == 0 { // its gateways have left, their last report counts
			each[name] = 1
		}
		total += each[name]
	}
	return each, total
}

// restrain scales what an agent says that OFF flows were served, if together they are
// beyond what it may take from a pool.
func (r *Allocator) restrain(a *agent, part float64) {
	served := map[string]float64{}
	for _, e := range a.order {
		if r.config.terms(r.config.resolve(e.key)).off {
			served[e.key.Pool] += e.out
		}
	}
	for _, e := range a.order {
		most := r.most[e.key.Pool] * math.Min(1, 2*part)
		if sum := served[e.key.Pool]; sum > most && r.config.terms(r.config.resolve(e.key)).off {
			e.out *= most / sum
			a.bounded++
		}
	}
}

// suspects are the agents that reported what cannot be, in order.
func (r *Allocator) suspects() []Suspect {
	var out []Suspect
	for name, a := range r.agents {
		if a.bounded+a.unknown > 0 {
			out = append(out, Suspect{name, a.bounded, a.unknown})
		}
	}
	slices.SortFunc(out, func(a, b Suspect) int { return cmp.Compare(a.Agent, b.Agent) })
	return out
}

// delay is the gossip delay that rounds wait for: the median over agents, each
// weighing as much as its replicas. The longest would let one agent that was stopped
// for some seconds, and measures that as delay, slow the rounds of all.
func (r *Allocator) delay() time.Duration {
	type one struct {
		delay  time.Duration
		weight int
	}
	var all []one
	total := 0
	for _, a := range r.agents {
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
