package allocation

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// FlowShare is the outcome of a round for one flow. Rates in cost units/s.
type FlowShare struct {
	Flow
	Share    float64 // total over all gateways
	Bound    Bound
	Demand   float64
	Admitted float64
	Waiting  float64 // cost units
	Agents   int     // with a recent report of the flow
	Lease    *Lease  // what agents have been sent of the flow
	Limited  bool    // the tenant stage acted in the last windows
	Weight   float64
	// Guaranteed and Max as configured; Max is +Inf where there is none.
	Guaranteed, Max float64
	// Since the flow is known, in cost units: what was admitted, and what the guarantee entitled it to. At each moment
	// that is the guarantee, or the demand if that is less. Where less is admitted, the guarantee is not kept.
	AdmittedCost, GuaranteedCost float64
}

// PoolShare is the outcome of a round for one pool. Rates in cost units/s.
type PoolShare struct {
	Pool      string
	Capacity  float64 // that was shared in this round
	Demand    float64 // measured, of all flows
	Admitted  float64
	Price     float64 // 0 while the pool is not full, +Inf when guarantees alone use it up
	FairRate  float64 // share of weight 1; 0 while the pool is not full
	IdleShare float64 // of a flow without a lease
	Unused    float64 // capacity that nobody asks for: all flows may use it beyond their shares
	// GuaranteeScale is the part of each guarantee that fits the pool, in [0, 1].
	GuaranteeScale float64
	// Loss is κ: the part of a full pool's capacity that is leased beyond it and stays unused.
	Loss float64
	// Overcommit is the rate that is leased beyond the capacity: as margin, and as guarantees of flows that ask for
	// less.
	Overcommit float64
	// Infeasible: the guarantees that are asked for exceed the capacity.
	Infeasible bool
	// Of an adaptive pool: what its upstream is believed to serve (Capacity where it is
	// fixed), and the cost at the upstream now. Backlog is the part of that cost that waits
	// there, Stay the mean time that a request stays there without a backlog, seconds.
	Adaptive                          bool
	Estimate, InFlight, Backlog, Stay float64
	Events
}

// Events counts the requests of a pool that are not admitted at once.
type Events struct {
	Waiting         float64 // cost units that wait for shares
	Marked, Refused float64 // requests per second
}

// Outcome is the result of a round. It is not changed afterwards.
type Outcome struct {
	Revision int64       // of the configuration
	Flows    []FlowShare // by pool
	Pools    []PoolShare
	Members  []Replica     // of all agents with a report within Params.Membership
	Delay    time.Duration // gossip delay reported: the median
	Suspects []Suspect     // agents that reported impossible numbers

	index map[Flow]int // of Flows, made when it is first asked for
	once  sync.Once
}

// Pool is the outcome for one pool, nil if the pool is not configured.
func (o *Outcome) Pool(name string) *PoolShare {
	i := slices.IndexFunc(o.Pools, func(p PoolShare) bool { return p.Pool == name })
	if i < 0 {
		return nil
	}
	return &o.Pools[i]
}

// Flow returns the lease of one flow, nil if the flow has none.
func (o *Outcome) Flow(key Flow) *FlowShare {
	o.once.Do(func() {
		o.index = make(map[Flow]int, len(o.Flows))
		for i := range o.Flows {
			o.index[o.Flows[i].Flow] = i
		}
	})
	i, found := o.index[key]
	if !found {
		return nil
	}
	return &o.Flows[i]
}

// outcome shares every pool and collects the results.
func (al *Allocator) outcome() *Outcome {
	out := &Outcome{Revision: al.config.Revision, Delay: al.delay(), Suspects: al.suspects(), Members: al.members()}
	out.Flows = make([]FlowShare, 0, len(al.order))
	byPool := make(map[string][]*flow, len(al.config.Pools))
	for _, f := range al.order {
		byPool[f.key.Pool] = append(byPool[f.key.Pool], f)
	}
	for i := range al.config.Pools {
		if al.collecting[al.config.Pools[i].Name] {
			continue
		}
		p := al.atPresentCapacity(&al.config.Pools[i])
		share := al.sharePool(&p, byPool[p.Name], out)
		al.addUpstream(&share)
		out.Pools = append(out.Pools, share)
	}
	return out
}

// members returns the replicas of all agents, the awaited ones included, in order.
func (al *Allocator) members() (all []Replica) {
	for _, name := range slices.Sorted(maps.Keys(al.agents)) {
		all = append(append(all, al.agents[name].replicas...), al.agents[name].awaited...)
	}
	slices.SortStableFunc(all, func(a, b Replica) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(all, func(a, b Replica) bool { return a.Name == b.Name })
}

func (f *flow) outcome() FlowShare {
	return FlowShare{
		Flow: f.key, Share: f.share, Bound: f.bound, Demand: f.demand.mean, Admitted: f.admitted,
		Waiting: f.waiting, Limited: f.limited, Agents: f.agents, Lease: &f.lease,
		Weight: f.settings.weight, Guaranteed: f.settings.guaranteed, Max: f.settings.max,
		AdmittedCost: f.admittedCost, GuaranteedCost: f.guaranteedCost,
	}
}

// Parts lists the contribution of each gateway to a flow in its last report.
func (al *Allocator) Parts(key Flow) []Part {
	var parts []Part
	for _, a := range al.agents {
		for _, e := range a.order {
			if e.flow != nil && e.flow.key == key {
				parts = append(parts, e.parts...)
			}
		}
	}
	slices.SortFunc(parts, func(a, b Part) int { return cmp.Compare(a.Gateway, b.Gateway) })
	return parts
}

// Agents counts the agents that reported within Params.Membership.
func (al *Allocator) Agents() int { return len(al.agents) }
