package limiter

import (
	"cmp"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/limiter/internal/keys"
)

// snapshot is a configuration compiled for the data path. It is immutable but for the
// routes, which are made when they are first used.
type snapshot struct {
	revision int64
	seed     uint64
	pools    map[string]int
	list     []config.Pool // by index, defaults filled in
	weights  []float64     // of all tenants, by pool
	tenants  map[string]*tenant
	named    bool   // some limit names an identity or a class
	wanted   Wanted // of requests
}

// tenant is a config.Tenant compiled.
type tenant struct {
	name   string
	weight float64
	limits []*limit
	quotas map[string]config.Quota
	routes atomic.Pointer[[]atomic.Pointer[route]] // by pool index; the last is for unknown pools
}

// route is what counts for a request of one tenant to one pool.
type route struct {
	tenant  *tenant
	limits  []*limit
	mode    config.Mode
	queue   config.Queue
	flow    *flow   // nil for an unknown pool
	flight  *Flight // of an adaptive pool's flow
	apart   apart
	blocked bool // the quota has a max of 0 and is enforced
}

// queues reports whether a request beyond the tenant's share waits.
func (rt *route) queues() bool { return rt.mode == config.Enforce && rt.queue.Law != config.Police }

// isIn reports whether the limit holds for a pool.
func (l *limit) isIn(pool string) bool { return len(l.pools) == 0 || slices.Contains(l.pools, pool) }

// compile turns a validated configuration into a snapshot.
func compile(c *config.Config, names *Names) *snapshot {
	s := &snapshot{
		revision: c.Revision, seed: c.Seed,
		pools:   make(map[string]int, len(c.Pools)),
		list:    slices.Clone(c.Pools),
		weights: make([]float64, len(c.Pools)),
		tenants: make(map[string]*tenant, len(c.Tenants)),
	}
	for i := range s.list {
		s.list[i].Queue = s.list[i].Queue.WithDefaults()
		s.pools[s.list[i].Name] = i
	}
	inherited := make([]ruled, len(c.Defaults))
	for i := range c.Defaults {
		inherited[i] = ruled{&c.Defaults[i], exceptions(&c.Defaults[i])}
	}
	for i := range c.Tenants {
		t := s.newTenant(c.Seed, &c.Tenants[i], inherited, names)
		s.tenants[t.name] = t
		for p := range s.weights {
			s.weights[p] += t.weight
		}
	}
	return s
}

// ruled is a limit with its overrides, which all tenants that have it share.
type ruled struct {
	*config.Limit
	overrides map[string]keys.Numbers
}

func (s *snapshot) newTenant(seed uint64, c *config.Tenant, inherited []ruled, names *Names) *tenant {
	t := &tenant{name: c.Name, weight: c.Weight, quotas: make(map[string]config.Quota, len(c.Quotas))}
	if t.weight == 0 {
		t.weight = 1
	}
	for _, q := range c.Quotas {
		t.quotas[q.Pool] = q
	}
	add := func(r ruled) {
		l := newLimit(seed, c.Name, r, names)
		t.limits = append(t.limits, l)
		s.noteWanted(l, r.Limit)
	}
	for i := range c.Limits {
		add(ruled{&c.Limits[i], exceptions(&c.Limits[i])})
	}
	if len(inherited) == 0 {
		return t
	}
	for _, r := range inherited {
		if !slices.ContainsFunc(c.Limits, func(l config.Limit) bool { return l.Name == r.Name }) {
			add(r)
		}
	}
	slices.SortFunc(t.limits, func(a, b *limit) int { return strings.Compare(a.name, b.name) })
	return t
}

// noteWanted notes what a limit needs to know of requests.
func (s *snapshot) noteWanted(l *limit, c *config.Limit) {
	s.named = s.named || c.Identity != "" || len(c.Classes) > 0
	if l.mode == config.Off {
		return
	}
	if l.identity != 0 && l.identity != unnamed {
		s.wanted.Identities |= 1 << (l.identity - 1)
	}
	s.wanted.Classes |= uint32(l.classes &^ every)
}

func newLimit(seed uint64, tenant string, c ruled, names *Names) *limit {
	l := &limit{
		name: c.Name, mode: c.Mode, strict: c.Strict, perTenant: c.PerTenant,
		queued: c.Queued(), queue: c.Queue.WithDefaults(), pools: c.Pools, classes: names.classes(c.Classes),
	}
	if !l.perTenant {
		l.identity = names.identity(c.Identity)
	}
	base := numbersOf(c.Limit, config.RateBurst{Rate: c.Rate, Burst: c.Burst})
	l.keys.Init(seed, tenant, c.Name, c.PerTenant, base, c.overrides)
	return l
}

// numbersOf is what a rate and a burst mean in a limit.
func numbersOf(l *config.Limit, rb config.RateBurst) keys.Numbers {
	rb = rb.WithDefaults()
	return keys.Numbers{Rate: rb.Rate, Burst: rb.Burst, Strict: l.Strict}
}

// exceptions are the limit's overrides, nil if it has none.
func exceptions(l *config.Limit) map[string]keys.Numbers {
	if len(l.Overrides) == 0 {
		return nil
	}
	out := make(map[string]keys.Numbers, len(l.Overrides))
	for client, rb := range l.Overrides {
		out[client] = numbersOf(l, rb)
	}
	return out
}

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
		pool, rt.queue, rt.mode = p.Name, p.Queue, t.quotas[p.Name].Mode
		rt.blocked = t.blocked(p.Name)
		rt.flow = e.obtainFlow(s, t, i)
		if p.Adaptive {
			rt.flight = e.registry.obtainFlight(rt.flow)
		}
	}
	for _, l := range t.limits {
		if i < len(s.list) && l.isIn(pool) || len(l.pools) == 0 {
			rt.limits = append(rt.limits, l)
			rt.apart.add(l)
		}
	}
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
	return s.list[pool].Capacity * t.weight / s.weights[pool]
}

// blocked reports whether a quota admits nothing.
func (t *tenant) blocked(pool string) bool {
	return t.maxOf(pool) == 0 && t.quotas[pool].Mode == config.Enforce
}

// maxOf is the max of a tenant's quota in a pool.
func (t *tenant) maxOf(pool string) float64 {
	if q, ok := t.quotas[pool]; ok {
		return q.Max
	}
	return config.Unbounded
}
