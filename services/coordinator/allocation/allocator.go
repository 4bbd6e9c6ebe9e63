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
	order      []*flow         // flows in the order in which they appeared
	idle       map[Flow]*Lease // of flows without arrivals that have one
	pools      map[string]*poolState
	upstreams  map[string]*upstream // of adaptive pools
	quotas     map[string][]Flow    // the flows that have one, by pool, in order
	off        bool                 // some quota is OFF
	capacities map[string]float64   // highest capacity of each configured pool
	span       time.Duration        // of the reports of this round, 0 = none
	counted    bool                 // a round has had reports
	collecting map[string]bool      // pools that were led elsewhere: see Collect
	stirred    bool                 // since the last round: see Stirred
	solver     solver
	refused    map[string]float64 // requests/s of flows without demand, by pool
}

// New makes an allocator without configuration: it grants nothing until Configure.
func New(p Params) *Allocator {
	return &Allocator{
		params: p, config: &Config{}, agents: map[string]*agent{},
		flows: map[Flow]*flow{}, idle: map[Flow]*Lease{}, pools: map[string]*poolState{},
		refused: map[string]float64{},
	}
}

// Configure puts another configuration in force from the next round on. What is known of demands stays known.
func (al *Allocator) Configure(c *Config) {
	al.config, al.quotas, al.stirred = c, c.quotasByPool(), true
	al.capacities = make(map[string]float64, len(c.Pools))
	for _, p := range c.Pools {
		al.capacities[p.Name] = math.Max(p.Capacity, p.Adaptive.Max)
	}
	al.configureUpstreams(c.Pools)
	al.order = slices.DeleteFunc(al.order, func(f *flow) bool {
		if f.gone = c.resolve(f.key) != f.key; f.gone {
			delete(al.flows, f.key)
		}
		f.settings = c.settings(f.key)
		return f.gone
	})
	maps.DeleteFunc(al.idle, func(key Flow, _ *Lease) bool { _, has := c.Quotas[key]; return !has })
	al.off = false
	for _, q := range c.Quotas {
		al.off = al.off || q.Off
	}
}

// Observe adds an agent's report that arrived now. It reports whether the agent has begun to
// use a flow that has a share already.
func (al *Allocator) Observe(now time.Time, name string, report *Report) (news bool) {
	a := al.agent(name)
	before, gateways := len(a.order), a.replicas
	news = a.addReport(now, report, al.capacities, al.config.Elsewhere)
	al.stirred = al.stirred || len(report.Flows) > 0 || !slices.Equal(gateways, a.replicas)
	if !news {
		return false
	}
	news = false
	for _, e := range a.order[before:] {
		e.flow = al.flows[al.config.resolve(e.key)]
		news = news || e.flow != nil
	}
	return news
}

// Connect takes the gateways of an agent that has connected, before its first report. Gateways that the agent had
// before and does not name now stay members for reconnectTime: the agent was restarted, and its gateways still run.
func (al *Allocator) Connect(now time.Time, name string, replicas []Replica) {
	a := al.agent(name)
	a.connect(now, a.usable(replicas))
	al.stirred = true
}

// Left forgets an agent that stops in order, if its last report named no gateway and none is
// awaited: what its last window had of requests does not go on.
func (al *Allocator) Left(name string) {
	if a := al.agents[name]; a != nil && a.withoutGateways() {
		delete(al.agents, name)
		al.stirred = true
	}
}

// Stirred reports whether something has come since the last round that may change what is decided: a request, a
// gateway, an agent, or a configuration.
func (al *Allocator) Stirred() bool { return al.stirred }

// Calm reports whether the next round decides what the last one did, until Stirred: no flow has had arrivals for
// Params.Idle, and no pool's capacity is estimated.
func (al *Allocator) Calm() bool { return !al.stirred && len(al.order)+len(al.upstreams) == 0 }

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
	al.stirred = false
	span := al.gather(now)
	al.span = span
	al.stepUpstreams(span)
	if span > 0 {
		al.counted = true
		for _, f := range al.order {
			if al.collecting[f.key.Pool] {
				f.await(now)
				continue
			}
			f.update(now, span, &al.params)
		}
	}
	al.order = slices.DeleteFunc(al.order, func(f *flow) bool {
		if f.gone = now.Sub(f.arrived) >= al.params.Idle; f.gone {
			delete(al.flows, f.key)
		}
		return f.gone
	})
	return al.outcome()
}

// DemandByAgent returns the mean demand of each pool by agent, cost units/s. O(flows at agents).
func (al *Allocator) DemandByAgent() map[string]map[string]float64 {
	out := map[string]map[string]float64{}
	for name, a := range al.agents {
		for _, e := range a.order {
			if e.mean.demand > 0 {
				if out[e.key.Pool] == nil {
					out[e.key.Pool] = map[string]float64{}
				}
				out[e.key.Pool][name] += e.mean.demand
			}
		}
	}
	return out
}

// gather closes the windows of all agents and sums them per flow. It returns the
// longest window, 0 if no agent reported since the last round.
func (al *Allocator) gather(now time.Time) (span time.Duration) {
	for _, f := range al.order {
		f.reported, f.agents = usageNow{}, 0
	}
	clear(al.refused)
	maps.DeleteFunc(al.agents, func(_ string, a *agent) bool { return now.Sub(a.heard) > al.params.Membership })
	for _, a := range al.agents {
		a.expireAwaited(now)
	}
	weights, total := al.boundWeights()
	for _, name := range slices.Sorted(maps.Keys(al.agents)) {
		a := al.agents[name]
		window := a.span
		if span = max(span, window); window > 0 {
			a.closeWindows(now)
		} else {
			a.useMeans()
		}
		for _, e := range a.order {
			e.flow = al.flowOf(now, e)
		}
		if window > 0 {
			if al.off {
				al.boundOff(a, weights[name]/total)
			}
			a.followMeans(window, al.params.Smoothing)
		}
		for _, e := range a.order {
			if u := al.upstreams[e.key.Pool]; u != nil {
				u.add(e)
			}
			if e.flow != nil {
				e.flow.add(e)
			} else if e.rate.refused > 0 { // limits refuse everything
				al.refused[e.key.Pool] += e.rate.refused
			}
		}
	}
	return span
}

// flowOf is the flow that an entry counts for, made on its first arrivals; nil before.
func (al *Allocator) flowOf(now time.Time, e *entry) *flow {
	if e.flow != nil && !e.flow.gone {
		return e.flow
	}
	key := al.config.resolve(e.key)
	f := al.flows[key]
	if f == nil && (e.rate.demand > 0 || e.waiting > 0) {
		f = al.newFlow(now, key)
	}
	return f
}

// newFlow makes the state of a flow. A state that is there is kept, if only for its place.
func (al *Allocator) newFlow(now time.Time, key Flow) *flow {
	f := al.flows[key]
	if f == nil {
		f = &flow{key: key}
		al.flows[key] = f
		al.order = append(al.order, f)
	}
	*f = flow{key: key, arrived: now, settings: al.config.settings(key), lease: Lease{Flow: key}}
	return f
}

// Used calls yield with the lease of each flow that the agent's latest reports name, for some flows more than once.
func (al *Allocator) Used(name string, yield func(*Lease)) {
	a := al.agents[name]
	if a == nil {
		return
	}
	for _, e := range a.order {
		if e.flow != nil && !e.flow.gone {
			yield(&e.flow.lease)
		}
	}
}
