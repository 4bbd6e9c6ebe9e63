package limiter

import (
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/titrate/titrate/control/config"
)

// route holds the limits and the flow of requests of one tenant to one pool.
type route struct {
	tenant  *tenant
	limits  []*limit // with a rate
	slots   []*limit // concurrency limits
	mode    config.Mode
	queue   config.Queue
	flow    *flow   // nil for an unknown pool
	flight  *Flight // of an adaptive pool's flow
	apart   apart
	cost    costName  // that the pool counts
	blocked bool      // the quota has a max of 0 and is enforced
	exact   exactness // the most of its limits
	stated  bool      // one of its limits has plans, or bounds of requested rates
}

// queues reports whether a request beyond the tenant's share waits.
func (rt *route) queues() bool { return rt.mode == config.Enforce && rt.queue.Law != config.Police }

// isIn reports whether the limit holds for a pool.
func (l *limit) isIn(pool string) bool { return len(l.pools) == 0 || slices.Contains(l.pools, pool) }

// route returns the tenant's route to a pool and makes it if need be.
func (e *Engine) route(s *snapshot, t *tenant, pool string) *route {
	i, known := s.pools[pool]
	if !known {
		i = len(s.list)
	}
	routes := t.routes.Load()
	if routes == nil {
		fresh := make([]atomic.Pointer[route], len(s.list)+1)
		if t.routes.CompareAndSwap(nil, &fresh) {
			routes = &fresh
		} else {
			routes = t.routes.Load()
		}
	}
	at := &(*routes)[i]
	if rt := at.Load(); rt != nil {
		return rt
	}
	return e.newRoute(s, t, i, at)
}

// newRoute makes a route; of two made at once one wins.
func (e *Engine) newRoute(s *snapshot, t *tenant, i int, at *atomic.Pointer[route]) *route {
	rt := &route{tenant: t}
	pool := ""
	if i < len(s.list) {
		p := &s.list[i]
		pool, rt.queue, rt.mode, rt.cost = p.Name, p.Queue, t.quotas[p.Name].Mode, s.costs[i]
		rt.blocked = t.blocked(p.Name)
		rt.flow = e.obtainFlow(s, t, i)
		if p.Adaptive {
			rt.flight = e.registry.obtainFlight(rt.flow)
		}
	}
	for _, l := range t.limits {
		if i < len(s.list) && l.isIn(pool) || len(l.pools) == 0 {
			if l.slots != nil || l.quota != nil { // such a request takes the way of EXACT limits
				rt.slots, rt.exact = append(rt.slots, l), always
				continue
			}
			rt.limits = append(rt.limits, l)
			rt.apart.add(l)
			rt.exact = max(rt.exact, l.exact)
			rt.stated = rt.stated || l.plans != nil || l.bounds != nil
		}
	}
	slices.SortStableFunc(rt.slots, narrowerFirst)
	if !at.CompareAndSwap(nil, rt) {
		rt = cmp.Or(at.Load(), rt)
	}
	if rt.flow != nil && rt.flow.gone() { // its tick did not see the route
		at.CompareAndSwap(rt, nil)
	}
	return rt
}

// initialShare is the share of a flow before the coordinator has granted any: its
// guarantee, or its weighted part of the pool.
func (s *snapshot) initialShare(t *tenant, pool int) float64 {
	if q := t.quotas[s.list[pool].Name]; q.Guaranteed > 0 {
		return q.Guaranteed
	}
	return s.list[pool].Capacity * t.weight / s.weight
}
