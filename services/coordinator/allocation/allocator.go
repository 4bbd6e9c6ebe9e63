package allocation

import (
	"cmp"
	"maps"
	"math"
	"slices"
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
	Limited  bool    // the tenant stage acted in the last windows
	Weight   float64
	// Guaranteed and Max as configured; Max is +Inf where there is none.
	Guaranteed, Max float64
}

// Outcome is what a round decided. It is not changed afterwards.
type Outcome struct {
	Revision int64 // of the configuration
	Flows    []FlowShare
	Pools    []PoolShare
	Members  []Replica     // of all agents heard within Params.Membership
	Delay    time.Duration // gossip delay reported: the median
	Suspects []Suspect     // agents that reported what cannot be
}

// Allocator is the state of the loop. It is not safe for concurrent use.
type Allocator struct {
	params    Params
	config    *Config
	agents    map[string]*agent
	flows     map[Flow]*flow
	order     []*flow              // in the order in which they appeared
	trims     map[string]*trim     // by pool
	upstreams map[string]*upstream // of adaptive pools
	quotas    map[string][]Flow    // the flows that have one, by pool, in order
	most      map[string]float64   // highest capacity of each configured pool
	span      time.Duration        // of the reports of this round; 0 = none
	last      time.Time            // last round that had new reports
	solver    solver
}

// New makes a loop without configuration: it grants nothing until Configure.
func New(p Params) *Allocator {
	return &Allocator{
		params: p, config: &Config{}, agents: map[string]*agent{},
		flows: map[Flow]*flow{}, trims: map[string]*trim{},
	}
}

// Configure puts another configuration in force from the next round on. What is
// known of demands is kept.
func (r *Allocator) Configure(c *Config) {
	r.config, r.quotas = c, c.quotasByPool()
	r.most = make(map[string]float64, len(c.Pools))
	for _, p := range c.Pools {
		r.most[p.Name] = math.Max(p.Capacity, p.Adaptive.Max)
	}
	r.adapt(c.Pools)
	for key, f := range r.flows {
		if c.resolve(key) != key {
			delete(r.flows, key)
			f.arrived = time.Time{}
		}
	}
	r.order = slices.DeleteFunc(r.order, func(f *flow) bool { return r.flows[f.key] != f })
}

// Observe takes an agent's report, heard now.
func (r *Allocator) Observe(now time.Time, name string, report *Report) {
	a := r.agents[name]
	if a == nil {
		a = &agent{flows: map[Flow]*entry{}}
		r.agents[name] = a
	}
	a.addReport(now, report, r.config.resolve, r.most)
}

// Connect takes the gateways of an agent that has connected, before its first report.
// Gateways that the agent had before and does not name now stay members for reconnectTime:
// the agent was restarted, and its gateways still run.
func (r *Allocator) Connect(now time.Time, name string, replicas []Replica) {
	a := r.agents[name]
	if a == nil {
		a = &agent{flows: map[Flow]*entry{}}
		r.agents[name] = a
	}
	a.connect(now, a.usable(replicas))
}

// Step computes the shares as of now.
func (r *Allocator) Step(now time.Time) *Outcome {
	span := r.gather(now)
	r.span = span
	r.follow(span)
	if span > 0 {
		dt := span
		if !r.last.IsZero() {
			dt = now.Sub(r.last)
		}
		r.last = now
		for _, f := range r.order {
			f.update(now, span, max(dt, minInterval), &r.params)
		}
	}
	r.order = slices.DeleteFunc(r.order, func(f *flow) bool {
		gone := now.Sub(f.arrived) >= r.params.Idle
		if gone {
			delete(r.flows, f.key)
		}
		return gone
	})
	return r.share()
}

// gather closes the windows of all agents and sums them per flow. It returns the
// longest window, 0 if nobody reported since the last round.
func (r *Allocator) gather(now time.Time) (span time.Duration) {
	for _, f := range r.order {
		f.sample, f.out, f.queued, f.held = 0, 0, 0, false
	}
	maps.DeleteFunc(r.agents, func(_ string, a *agent) bool { return now.Sub(a.heard) > r.params.Membership })
	for _, a := range r.agents {
		a.wait(now)
	}
	weights, total := r.weigh()
	for _, name := range slices.Sorted(maps.Keys(r.agents)) {
		a := r.agents[name]
		if span = max(span, a.span); a.span > 0 {
			a.turn()
			r.restrain(a, weights[name]/total)
		}
		for _, e := range a.order {
			if u := r.upstreams[e.key.Pool]; u != nil {
				u.add(e)
			}
			if key := r.config.resolve(e.key); e.rate > 0 || e.waiting > 0 || r.flows[key] != nil {
				r.flow(now, key).add(e)
			}
		}
	}
	return span
}

// flow finds the state of a flow, made on its first arrivals.
func (r *Allocator) flow(now time.Time, key Flow) *flow {
	f := r.flows[key]
	if f == nil {
		f = &flow{key: key, arrived: now}
		r.flows[key] = f
		r.order = append(r.order, f)
	}
	return f
}

func (f *flow) add(e *entry) {
	f.sample += e.rate
	f.out += e.out
	f.queued += e.waiting
	f.held = f.held || e.held
}

// share fills every pool and collects the outcome.
func (r *Allocator) share() *Outcome {
	out := &Outcome{Revision: r.config.Revision}
	byPool := make(map[string][]*flow, len(r.config.Pools))
	for _, f := range r.order {
		f.terms = r.config.terms(f.key)
		byPool[f.key.Pool] = append(byPool[f.key.Pool], f)
	}
	for i := range r.config.Pools {
		p := r.present(&r.config.Pools[i])
		share := r.pool(&p, byPool[p.Name], r.quotas[p.Name], out)
		r.tell(&share)
		out.Pools = append(out.Pools, share)
	}
	slices.SortFunc(out.Flows, func(a, b FlowShare) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Tenant, b.Tenant))
	})
	for _, name := range slices.Sorted(maps.Keys(r.agents)) {
		out.Members = append(out.Members, r.agents[name].replicas...)
		out.Members = append(out.Members, r.agents[name].awaited...)
	}
	out.Delay, out.Suspects = r.delay(), r.suspects()
	slices.SortFunc(out.Members, func(a, b Replica) int { return cmp.Compare(a.Name, b.Name) })
	out.Members = slices.CompactFunc(out.Members, func(a, b Replica) bool { return a.Name == b.Name })
	return out
}

// pool shares one pool among its active flows and adds the leases of idle flows
// that the pool's idle share does not fit.
func (r *Allocator) pool(p *Pool, flows []*flow, quotas []Flow, out *Outcome) PoolShare {
	s := &r.solver
	s.params, s.pool, s.free, s.flows = &r.params, p, p.Capacity, s.flows[:0]
	demand, admitted := 0.0, 0.0
	for _, f := range flows {
		demand += f.demand.mean
		admitted += f.admitted
		if f.terms.off {
			f.share, f.bound = f.demand.mean, ByDemand
			s.free -= f.admitted
			continue
		}
		s.flows = append(s.flows, f)
	}
	s.free = math.Max(s.free, 0)
	t := r.trims[p.Name]
	if t == nil {
		t = &trim{}
		r.trims[p.Name] = t
	}
	share := s.solve(t)
	share.Demand, share.Admitted = demand, admitted
	if r.span > 0 && p.Capacity > 0 {
		t.step(r.span, share.FairRate > 0, 1-admitted/p.Capacity, r.params.Headroom*(1-idlePart))
	}
	scale := r.feasible(p, quotas)
	for _, f := range flows {
		share.Standing += f.stand(scale)
		out.Flows = append(out.Flows, f.outcome())
	}
	for _, key := range quotas {
		if r.flows[key] == nil {
			r.idle(key, scale, &share, out)
		}
	}
	return share
}

// feasible is the factor that makes all guarantees of a pool together fit it.
func (r *Allocator) feasible(p *Pool, quotas []Flow) float64 {
	total := 0.0
	for _, key := range quotas {
		total += r.config.Quotas[key].Guaranteed
	}
	if total <= p.Capacity {
		return 1
	}
	return p.Capacity / total
}

// stand lifts a share to the (feasible) guarantee and returns by how much.
func (f *flow) stand(scale float64) float64 {
	if f.terms.off {
		return 0
	}
	if f.terms.weight == 0 && f.bound == ByMax {
		f.bound = ByGuarantee
	}
	lift := math.Max(f.terms.guaranteed*scale-f.share, 0)
	f.share += lift
	return lift
}

// idle leases to a flow without arrivals what the pool's idle share does not say:
// its guarantee, or its maximum if that is smaller.
func (r *Allocator) idle(key Flow, scale float64, pool *PoolShare, out *Outcome) {
	t := r.config.terms(key)
	share := math.Max(t.guaranteed*scale, math.Min(pool.IdleShare, t.max))
	if share == pool.IdleShare || t.off {
		return
	}
	pool.Standing += math.Max(share-pool.IdleShare, 0)
	bound := ByGuarantee
	if share < pool.IdleShare {
		bound = ByMax
	}
	out.Flows = append(out.Flows, FlowShare{
		Flow: key, Share: share, Bound: bound, Weight: t.weight, Guaranteed: t.guaranteed, Max: t.max,
	})
}

func (f *flow) outcome() FlowShare {
	return FlowShare{
		Flow: f.key, Share: f.share, Bound: f.bound, Demand: f.demand.mean, Admitted: f.admitted,
		Waiting: f.waiting, Limited: f.limited,
		Weight: f.terms.weight, Guaranteed: f.terms.guaranteed, Max: f.terms.max,
	}
}

// Parts are what each gateway contributed to a flow in its last report.
func (r *Allocator) Parts(key Flow) []Part {
	var parts []Part
	for _, a := range r.agents {
		if e := a.flows[key]; e != nil {
			parts = append(parts, e.parts...)
		}
	}
	slices.SortFunc(parts, func(a, b Part) int { return cmp.Compare(a.Gateway, b.Gateway) })
	return parts
}

// Agents is how many agents were heard within Params.Membership.
func (r *Allocator) Agents() int { return len(r.agents) }

// Pool is the outcome for one pool, nil if it is not configured.
func (o *Outcome) Pool(name string) *PoolShare {
	i := slices.IndexFunc(o.Pools, func(p PoolShare) bool { return p.Pool == name })
	if i < 0 {
		return nil
	}
	return &o.Pools[i]
}

// Flow is the lease of one flow, nil if it has none of its own.
func (o *Outcome) Flow(key Flow) *FlowShare {
	i, found := slices.BinarySearchFunc(o.Flows, key, func(f FlowShare, key Flow) int {
		return cmp.Or(cmp.Compare(f.Pool, key.Pool), cmp.Compare(f.Tenant, key.Tenant))
	})
	if !found {
		return nil
	}
	return &o.Flows[i]
}
