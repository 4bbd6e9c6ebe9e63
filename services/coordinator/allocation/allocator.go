package allocation

import (
	"maps"
	"math"
	"slices"
	"time"
)

// Allocator is the state of the allocation. It is not safe for concurrent use.
type Allocator struct {
	params     Params
	config     *Config
	agents     map[string]*agent
	flows      map[Flow]*flow
	order      []*flow // flows in the order in which they appeared
	pools      map[string]*poolState
	upstreams  map[string]*upstream // of adaptive pools
	quotas     map[string][]Flow    // the flows that have one, by pool, in order
	capacities map[string]float64   // highest capacity of each configured pool
	span       time.Duration        // of the reports of this round, 0 = none
	solver     solver
}

// New makes an allocator without configuration: it grants nothing until Configure.
func New(p Params) *Allocator {
	return &Allocator{
		params: p, config: &Config{}, agents: map[string]*agent{},
		flows: map[Flow]*flow{}, pools: map[string]*poolState{},
	}
}

// Configure puts another configuration in force from the next round on. What is
// known of demands stays known.
func (al *Allocator) Configure(c *Config) {
	al.config, al.quotas = c, c.quotasByPool()
	al.capacities = make(map[string]float64, len(c.Pools))
	for _, p := range c.Pools {
		al.capacities[p.Name] = math.Max(p.Capacity, p.Adaptive.Max)
	}
	al.configureUpstreams(c.Pools)
	for key, f := range al.flows {
		if c.resolve(key) != key {
			delete(al.flows, key)
			f.arrived = time.Time{}
		}
	}
	al.order = slices.DeleteFunc(al.order, func(f *flow) bool { return al.flows[f.key] != f })
}

// Observe adds an agent's report that arrived now.
func (al *Allocator) Observe(now time.Time, name string, report *Report) {
	al.agent(name).addReport(now, report, al.config.resolve, al.capacities)
}

// Connect takes the gateways of an agent that has connected, before its first report.
// Gateways that the agent had before and does not name now stay members for
// reconnectTime: the agent was restarted, and its gateways still run.
func (al *Allocator) Connect(now time.Time, name string, replicas []Replica) {
	a := al.agent(name)
	a.connect(now, a.usable(replicas))
}

func (al *Allocator) agent(name string) *agent {
	a := al.agents[name]
	if a == nil {
		a = &agent{flows: map[Flow]*entry{}}
		al.agents[name] = a
	}
	return a
}

// Step computes the shares as of now.
func (al *Allocator) Step(now time.Time) *Outcome {
	span := al.gather(now)
	al.span = span
	al.stepUpstreams(span)
	if span > 0 {
		for _, f := range al.order {
			f.update(now, span, &al.params)
		}
	}
	al.order = slices.DeleteFunc(al.order, func(f *flow) bool {
		gone := now.Sub(f.arrived) >= al.params.Idle
		if gone {
			delete(al.flows, f.key)
		}
		return gone
	})
	return al.outcome()
}

// gather closes the windows of all agents and sums them per flow. It returns the
// longest window, 0 if no agent reported since the last round.
func (al *Allocator) gather(now time.Time) (span time.Duration) {
	for _, f := range al.order {
		f.reported = usageNow{}
	}
	maps.DeleteFunc(al.agents, func(_ string, a *agent) bool { return now.Sub(a.heard) > al.params.Membership })
	for _, a := range al.agents {
		a.expireAwaited(now)
	}
	weights, total := al.boundWeights()
	for _, name := range slices.Sorted(maps.Keys(al.agents)) {
		a := al.agents[name]
		if window := a.span; window > 0 {
			span = max(span, window)
			a.closeWindows(now)
			al.boundOff(a, weights[name]/total)
			a.followMeans(window, al.params.Smoothing)
		} else {
			a.useMeans()
		}
		for _, e := range a.order {
			if u := al.upstreams[e.key.Pool]; u != nil {
				u.add(e)
			}
			if key := al.config.resolve(e.key); e.rate.demand > 0 || e.waiting > 0 || al.flows[key] != nil {
				al.flow(now, key).add(e)
			}
		}
	}
	return span
}

// flow finds the state of a flow, made on its first arrivals.
func (al *Allocator) flow(now time.Time, key Flow) *flow {
	f := al.flows[key]
	if f == nil {
		f = &flow{key: key, arrived: now}
		al.flows[key] = f
		al.order = append(al.order, f)
	}
	return f
}
