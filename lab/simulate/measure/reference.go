package measure

import (
	"maps"
	"slices"
	"time"

	"github.com/titrate/titrate/lab/judge"
	"github.com/titrate/titrate/lab/simulate/scenario"
	"github.com/titrate/titrate/lab/simulate/traffic"
	"github.com/titrate/titrate/services/coordinator/allocation"
)

// Reference has the demand of a run, and the entitlement of each key and flow. It is made in one pass over the
// requests, before any system plays, and does not change after that.
type Reference struct {
	plan
	s    *scenario.Scenario // as the pass has it: follows the events
	cast *traffic.Cast      // as the pass has it
	at   int                // phase

	flows  []flowReference
	pools  []poolReference
	limits []limitReference
	keys   []keyReference
	gates  [][]float64 // offered cost by gateway and bin

	limitOf []int // by key: place in limits
	poolOf  []int // by flow: place in pools, −1
	flowOf  []int // by client: place in flows
}

// flowReference is a flow: its demand, and its entitlement per phase.
type flowReference struct {
	tenant, pool string
	wanted       float64   // cost after the warm-up
	demand       []float64 // cost per bin that limits let pass
	rates        []float64 // by phase: demand, units/s
	fair         []float64 // by phase: entitlement, units/s
	saturated    []bool    // by phase
	largest      float64   // cost of a request
}

type poolReference struct {
	name     string
	capacity []float64 // by phase
	demand   []float64 // by phase, units/s
}

// limitReference is a limit with all its keys.
type limitReference struct {
	tenant, limit    string
	offered, central []float64 // cost per bin
	rate             []float64 // by phase: sum over keys
	above            []bool    // by phase: some key is above its rate
	largest          float64
}

// keyReference is one key.
type keyReference struct {
	offered, central, within int // requests
	phase, phaseCentral      float64
	above                    []bool // by phase, as far as there is any; shorter: false
	aboveSeconds             float64
	aboveCentral             float64 // cost
	largest                  float64
}

// NewReference begins the pass over a scenario and its cast, both of which follow the
// events.
func NewReference(s *scenario.Scenario, cast *traffic.Cast) *Reference {
	t := &Reference{s: s, cast: cast}
	places := map[[2]string]int{}
	for _, k := range cast.Keys {
		id := [2]string{k.Tenant, k.Limit}
		at, ok := places[id]
		if !ok {
			at = len(t.limits)
			places[id] = at
			t.limits = append(t.limits, limitReference{tenant: k.Tenant, limit: k.Limit})
		}
		t.limitOf = append(t.limitOf, at)
	}
	t.plan = newPlan(s, 2*len(cast.Flows)+4*len(t.limits)+2*len(cast.Gateways)+len(s.InForce.Allocation.Pools))
	t.keys = make([]keyReference, len(cast.Keys))
	for i := range t.limits {
		l := &t.limits[i]
		l.offered, l.central = make([]float64, t.bins), make([]float64, t.bins)
		l.rate, l.above = make([]float64, len(t.phases)), make([]bool, len(t.phases))
	}
	for _, p := range s.InForce.Allocation.Pools {
		t.pools = append(t.pools, poolReference{name: p.Name, capacity: make([]float64, len(t.phases)),
			demand: make([]float64, len(t.phases))})
	}
	t.addFlows()
	t.placeClients()
	for range cast.Gateways {
		t.gates = append(t.gates, make([]float64, t.bins))
	}
	t.note()
	return t
}

func (t *Reference) addFlows() {
	flows := t.cast.Flows
	if len(t.pools) == 0 { // without pools a tenant is one flow
		for _, tenant := range slices.Sorted(maps.Keys(t.s.InForce.Allocation.Tenants)) {
			flows = append(flows, traffic.Flow{Tenant: tenant})
		}
	}
	for _, f := range flows {
		n := len(t.phases)
		t.flows = append(t.flows, flowReference{tenant: f.Tenant, pool: f.Pool, demand: make([]float64, t.bins),
			rates: make([]float64, n), fair: make([]float64, n), saturated: make([]bool, n)})
		pool := -1
		for i := range t.pools {
			if t.pools[i].name == f.Pool {
				pool = i
			}
		}
		t.poolOf = append(t.poolOf, pool)
	}
}

// placeClients finds each client's flow. There is one: without pools each tenant
// is a flow, with pools each client names one.
func (t *Reference) placeClients() {
	places := map[traffic.Flow]int{}
	for i := range t.flows {
		places[traffic.Flow{Tenant: t.flows[i].tenant, Pool: t.flows[i].pool}] = i
	}
	for i := range t.cast.Clients {
		c := &t.cast.Clients[i]
		t.flowOf = append(t.flowOf, places[traffic.Flow{Tenant: c.Tenant, Pool: c.Pool}])
	}
}

// note notes the configuration in force in the phase that begins.
func (t *Reference) note() {
	for i := range t.pools {
		t.pools[i].capacity[t.at] = t.s.Serves(t.s.InForce.Allocation.Pools[i])
	}
	for i := range t.limits {
		t.limits[i].rate[t.at] = 0
	}
	for i := range t.cast.Keys {
		t.limits[t.limitOf[i]].rate[t.at] += t.cast.Keys[i].Rate
	}
}

// Request takes in the next request.
func (t *Reference) Request(r *traffic.Request) {
	t.Advance(r.At)
	bin := t.binOf(r.At)
	t.gates[r.Gateway][bin] += r.Cost
	f := &t.flows[t.flowOf[r.Client]]
	f.largest = max(f.largest, r.Cost)
	if t.phases[t.at].judged {
		f.wanted += r.Cost
	}
	if r.Central {
		f.demand[bin] += r.Cost
		f.rates[t.at] += r.Cost
	}
	for _, k := range t.cast.Clients[r.Client].Keys {
		t.count(k, bin, r)
	}
}

func (t *Reference) count(key, bin int, r *traffic.Request) {
	k, l := &t.keys[key], &t.limits[t.limitOf[key]]
	k.offered++
	k.phase += r.Cost
	l.offered[bin] += r.Cost
	k.largest, l.largest = max(k.largest, r.Cost), max(l.largest, r.Cost)
	if r.Central {
		k.central++
		k.phaseCentral += r.Cost
		l.central[bin] += r.Cost
	}
	if r.Within {
		k.within++
	}
}

// Advance notes that all requests before now were given. Call it at an event before the scenario changes, and
// Changed after.
func (t *Reference) Advance(now time.Duration) {
	for t.at+1 < len(t.phases) && now >= t.phases[t.at].to {
		t.closeKeys()
		t.at++
		t.note()
	}
}

// Changed notes that the scenario and its keys have new numbers.
func (t *Reference) Changed() { t.note() }

// closeKeys settles which keys were above their rate in the phase that ends.
func (t *Reference) closeKeys() {
	seconds := t.phases[t.at].seconds()
	for i := range t.keys {
		k := &t.keys[i]
		if k.phase > t.cast.Keys[i].Rate*seconds*(1+margin) && k.phase > 0 {
			for len(k.above) < t.at {
				k.above = append(k.above, false)
			}
			k.above = append(k.above, true)
			k.aboveSeconds += seconds
			k.aboveCentral += k.phaseCentral
			t.limits[t.limitOf[i]].above[t.at] = true
		}
		k.phase, k.phaseCentral = 0, 0
	}
}

// isAbove reports whether the demand for a key was above its rate in a phase.
func (k *keyReference) isAbove(phase int) bool { return phase < len(k.above) && k.above[phase] }

// margin is the excess of demand over what it can get from which a flow or key counts as saturated: less is noise.
const margin = .02

// Finish ends the pass: entitlements are filled.
func (t *Reference) Finish() {
	t.Advance(t.end)
	t.closeKeys()
	for i := range t.flows {
		for p := range t.phases {
			t.flows[i].rates[p] /= t.phases[p].seconds()
		}
	}
	for i := range t.pools {
		for p := range t.phases {
			t.fill(i, p)
		}
	}
	for i := range t.flows {
		if t.poolOf[i] < 0 {
			copy(t.flows[i].fair, t.flows[i].rates)
		}
	}
}

// fill gives each flow of a pool its entitlement in a phase.
func (t *Reference) fill(pool, phase int) {
	p := &t.s.InForce.Allocation.Pools[pool]
	shared := judge.Pool{Capacity: t.pools[pool].capacity[phase], Guarantee: p.Guarantee}
	if p.Sharing == allocation.Proportional {
		shared.Alpha = p.Alpha
	}
	var members []int
	var tenants []judge.Tenant
	for i := range t.flows {
		if t.poolOf[i] != pool {
			continue
		}
		f := &t.flows[i]
		q := t.s.InForce.Quota(f.tenant, f.pool)
		tenant := judge.Tenant{Weight: q.Weight, Guaranteed: q.Guaranteed, Max: q.Max, Demand: f.rates[phase]}
		members, tenants = append(members, i), append(tenants, tenant)
		t.pools[pool].demand[phase] += tenant.Asks()
	}
	for j, e := range shared.Entitle(tenants) {
		f := &t.flows[members[j]]
		f.fair[phase] = e.Share
		f.saturated[phase] = f.rates[phase] > e.Share*(1+margin) && e.Share > 0
	}
}
