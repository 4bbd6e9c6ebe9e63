package limiter

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/titrate/titrate/control/budget"
	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/limiter/internal/hash"
	"github.com/titrate/titrate/control/limiter/internal/keys"
)

// snapshot is a configuration compiled for the data path. It is immutable but for the
// routes, which are made when they are first used. Snapshots share the tenants that are the
// same in both.
type snapshot struct {
	revision  int64
	version   uint32 // of the numbers of its limits, see keys.Group.Follow
	seed      uint64
	pools     map[string]int
	list      []config.Pool // by index, defaults of their queues filled in
	costs     []costName    // that the pools count, by index
	defaults  []config.Limit
	inherited []ruled // the defaults
	plans     plans
	weight    float64 // of all tenants
	tenants   map[string]*tenant
	own       map[string][]config.OverrideTable // by tenant
	asks      asks                              // by the limits of all tenants

	changed map[uint64]*keys.Group // limits that the snapshot before had not, or with other numbers
}

// tenant is a config.Tenant compiled.
type tenant struct {
	name   string
	source *config.Tenant
	weight float64
	limits []*limit
	quotas map[string]config.Quota
	routes atomic.Pointer[[]atomic.Pointer[route]] // by pool index; the last is for unknown pools
}

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

// compile turns a validated configuration into a snapshot, which comes after another one or is the first.
func compile(c *config.Config, names *Names, before *snapshot) *snapshot {
	s := &snapshot{
		revision: c.Revision, version: before.nextVersion(), seed: c.Seed,
		pools:    make(map[string]int, len(c.Pools)),
		list:     slices.Clone(c.Pools),
		defaults: c.Defaults,
		tenants:  make(map[string]*tenant, len(c.Tenants)),
	}
	for i := range s.list {
		s.list[i].Queue = s.list[i].Queue.WithDefaults()
		s.pools[s.list[i].Name] = i
		s.costs = append(s.costs, names.cost(s.list[i].Cost))
	}
	s.inherited, s.plans = rules(c.Defaults), newPlans(c.Plans)
	for _, one := range c.Overrides {
		s.putOwn(one)
	}
	for i := range c.Tenants {
		t := s.newTenant(&c.Tenants[i], names)
		s.follow(before, t)
		s.add(t)
	}
	return s
}

// nextVersion is the version of the snapshot after this one; nil: of the first.
func (s *snapshot) nextVersion() uint32 {
	if s == nil {
		return keys.NextVersion(0)
	}
	return keys.NextVersion(s.version)
}

// with is the snapshot after a validated change, and the tenants that it touches. plans are all plans after it.
func (s *snapshot) with(d *config.Delta, plans []config.Tenant, names *Names) (_ *snapshot, touched map[string]bool) {
	n := *s
	n.revision, n.version, n.tenants, n.changed = d.Revision, s.nextVersion(), maps.Clone(s.tenants), nil
	touched = d.Names()
	n.withOwn(d.Overrides, touched)
	for _, name := range d.Removed {
		n.remove(name)
	}
	put := func(c *config.Tenant) {
		t := n.newTenant(c, names)
		n.follow(s, t)
		n.uncount(t.name)
		n.add(t)
	}
	if len(d.Plans) > 0 {
		n.plans = newPlans(plans)
		for _, t := range s.tenants {
			if t.source.Plan != "" && touched["plans/"+t.source.Plan] && !touched[t.name] {
				touched[t.name] = true
				put(t.source)
			}
		}
	}
	for i := range d.Tenants {
		put(&d.Tenants[i])
	}
	for i := range d.Overrides {
		name := d.Overrides[i].Tenant
		if t := n.tenants[name]; t != nil && t == s.tenants[name] {
			put(t.source)
		}
	}
	return &n, touched
}

// withOwn replaces the tables of overrides that have changed, in a snapshot that is being made. It notes their tenants.
func (s *snapshot) withOwn(list []config.OverrideChange, touched map[string]bool) {
	if len(list) == 0 {
		return
	}
	s.own = maps.Clone(s.own)
	for i := range list {
		c := &list[i]
		table, _ := c.Table()
		touched[c.Tenant] = true
		s.putOwn(config.OverrideTable{OverridesOf: c.OverridesOf, Table: table})
	}
}

// putOwn puts a table in the place of the one of the same limit.
func (s *snapshot) putOwn(one config.OverrideTable) {
	if s.own == nil {
		s.own = map[string][]config.OverrideTable{}
	}
	list := slices.DeleteFunc(slices.Clone(s.own[one.Tenant]), func(was config.OverrideTable) bool {
		return was.OverridesOf == one.OverridesOf
	})
	if one.Table.Len() > 0 {
		list = append(list, one)
	}
	if s.own[one.Tenant] = list; len(list) == 0 {
		delete(s.own, one.Tenant)
	}
}

// ownOf returns the overrides that a tenant has of a limit apart from it, nil for none.
func (s *snapshot) ownOf(tenant string, l *config.Limit) *config.Overrides {
	for _, one := range s.own[tenant] {
		if one.Limit == l.Name && one.Kind == l.Kind() {
			return one.Table
		}
	}
	return nil
}

// source is the configuration that the snapshot was compiled from, its tenants in any order.
func (s *snapshot) source() *config.Config {
	c := &config.Config{Revision: s.revision, Seed: s.seed, Pools: s.list, Defaults: s.defaults, Plans: s.plans.list,
		Tenants: make([]config.Tenant, 0, len(s.tenants))}
	for _, t := range s.tenants {
		c.Tenants = append(c.Tenants, *t.source)
	}
	for _, list := range s.own {
		c.Overrides = append(c.Overrides, list...)
	}
	return c
}

// add adds a tenant to a snapshot that is being made, and remove removes one.
func (s *snapshot) add(t *tenant) {
	s.tenants[t.name] = t
	s.weight += t.weight
	s.asks.count(t.limits, 1)
}

func (s *snapshot) remove(name string) {
	s.uncount(name)
	delete(s.tenants, name)
}

// uncount takes a tenant out of the sums: another takes its place.
func (s *snapshot) uncount(name string) {
	if t := s.tenants[name]; t != nil {
		s.weight -= t.weight
		s.asks.count(t.limits, -1)
	}
}

// ruled is a limit with its overrides, which all tenants that have it share.
type ruled struct {
	*config.Limit
	overrides map[string]keys.Numbers
	plans     map[string]keys.Numbers
}

func rules(list []config.Limit) []ruled {
	out := make([]ruled, len(list))
	for i := range list {
		out[i] = ruled{&list[i], exceptions(&list[i], list[i].Overrides), exceptions(&list[i], list[i].Plans)}
	}
	return out
}

// plans are the plans of a configuration, compiled: what is the same in the tenants of a plan is made once.
type plans struct {
	list   []config.Tenant
	byName map[string]*plan
}

type plan struct {
	weight float64
	limits []ruled
	quotas map[string]config.Quota
}

func newPlans(list []config.Tenant) plans {
	p := plans{list: list, byName: make(map[string]*plan, len(list))}
	for i := range list {
		p.byName[list[i].Name] = &plan{list[i].Weight, rules(list[i].Limits), quotasOver(nil, list[i].Quotas)}
	}
	return p
}

// quotasOver are the quotas of a plan, by pool, and of a tenant, which take their place.
func quotasOver(plan map[string]config.Quota, own []config.Quota) map[string]config.Quota {
	if len(own) == 0 {
		return plan
	}
	out := make(map[string]config.Quota, len(plan)+len(own))
	maps.Copy(out, plan)
	for _, q := range own {
		out[q.Pool] = q
	}
	return out
}

func (s *snapshot) newTenant(c *config.Tenant, names *Names) *tenant {
	p := s.plans.byName[c.Plan]
	if p == nil {
		p = &plan{}
	}
	t := &tenant{name: c.Name, source: c, weight: cmp.Or(c.Weight, p.weight, config.DefaultWeight),
		quotas: quotasOver(p.quotas, c.Quotas)}
	lists := [][]ruled{rules(c.Limits), p.limits, s.inherited}
	for i, list := range lists {
		for _, r := range list {
			if !hasLimit(lists[:i], r.Name) {
				t.limits = append(t.limits, newLimit(s, c, r, names))
			}
		}
	}
	if len(t.limits) > len(c.Limits) {
		slices.SortFunc(t.limits, func(a, b *limit) int { return strings.Compare(a.name, b.name) })
	}
	return t
}

// hasLimit reports whether a limit of a name is in one of the lists.
func hasLimit(lists [][]ruled, name string) bool {
	return slices.ContainsFunc(lists, func(list []ruled) bool {
		return slices.ContainsFunc(list, func(r ruled) bool { return r.Name == name })
	})
}

// asks counts the limits that ask something of requests.
type asks struct {
	names      int // limits with an identity, a class or a cost
	identities [MaxIdentities]int
	classes    [MaxClasses]int
}

// count adds the limits of a tenant (step 1), or takes them away (−1). A limit that is off
// asks nothing, but its names count: they may get an index.
func (a *asks) count(limits []*limit, step int) {
	for _, l := range limits {
		if l.identity != 0 || l.planAt != 0 || l.rateAt != 0 || l.classes != every || l.cost != plainCost {
			a.names += step
		}
		if l.mode == config.Off {
			continue
		}
		for _, at := range [...]uint8{l.identity, l.planAt, l.rateAt} {
			if at != 0 && at != unnamed {
				a.identities[at-1] += step
			}
		}
		for i := range a.classes {
			if l.classes>>i&1 != 0 {
				a.classes[i] += step
			}
		}
	}
}

// countsByName reports whether a pool counts a cost that has a name.
func (s *snapshot) countsByName() bool {
	return slices.ContainsFunc(s.costs, func(c costName) bool { return c != plainCost })
}

// wanted returns the identities and classes that requests need to have.
func (a *asks) wanted() (w Wanted) {
	for i, n := range a.identities {
		if n > 0 {
			w.Identities |= 1 << i
		}
	}
	for i, n := range a.classes {
		if n > 0 {
			w.Classes |= 1 << i
		}
	}
	return w
}

func newLimit(s *snapshot, of *config.Tenant, c ruled, names *Names) *limit {
	tenant := of.Name
	l := &limit{
		tenant: tenant, name: c.Name, mode: c.Mode, strict: c.Strict, perTenant: c.PerTenant,
		queued: c.Queued(), queue: c.Queue.WithDefaults(), pools: c.Pools, classes: names.classes(c.Classes),
		counted: c.Cost,
	}
	l.exact, l.part, l.cost = exactnessOf(c.Limit), budget.Of(tenant, c.Name), names.cost(c.Cost)
	l.plain = l.cost == plainCost && c.RequestedRate == (config.RateBounds{})
	l.slots, l.quota = slotNumbersOf(c.Limit), quotaNumbersOf(c.Limit)
	if !l.perTenant {
		l.identity = names.identity(c.Identity)
	}
	if l.bounds = boundsOf(c.Limit); l.bounds != nil {
		l.rateAt = names.identity(config.RateIdentity)
	}
	base, own := numbersOf(c.Limit, c.Bucket()), s.ownOf(tenant, c.Limit)
	if !l.perTenant && c.Kind() != config.RateLimit {
		l.own, own = own, nil
	}
	resets := resetsOf(of, c.Limit)
	l.keys.Init(s.version, hash.OfLimit(s.seed, tenant, c.Name, ""), c.PerTenant, base, c.overrides, own, resets)
	if len(c.plans) == 0 {
		return l
	}
	l.planAt, l.plans = names.identity(config.PlanIdentity), make(map[string]*keys.Group, len(c.plans))
	for plan, n := range c.plans {
		l.plans[plan] = &keys.Group{}
		l.plans[plan].Init(s.version, hash.OfLimit(s.seed, tenant, c.Name, plan), c.PerTenant, n, nil, nil, resets)
	}
	return l
}

// resetsOf says when clients of a limit were reset; nil: none was.
func resetsOf(t *config.Tenant, l *config.Limit) (by map[string]uint64) {
	for _, r := range t.Resets {
		if r.Limit != l.Name || l.Concurrency > 0 {
			continue
		}
		if by == nil {
			by = map[string]uint64{}
		}
		by[r.Client] = uint64(r.At)
	}
	return by
}

// numbersOf returns the numbers of a limit with a rate and a burst.
func numbersOf(l *config.Limit, rb config.RateBurst) keys.Numbers {
	rb = rb.WithDefaults()
	return keys.Numbers{Rate: rb.Rate, Burst: rb.Burst, Terms: keys.Terms{Strict: l.Strict}}
}

// exceptions are other numbers of the limit by name, nil if there are none.
func exceptions(l *config.Limit, named map[string]config.RateBurst) map[string]keys.Numbers {
	if len(named) == 0 {
		return nil
	}
	out := make(map[string]keys.Numbers, len(named))
	for name, rb := range named {
		out[name] = numbersOf(l, rb)
	}
	return out
}

// follow gives the limits of a tenant, which is not in use yet, their numbers of the snapshot before,
// and notes which of them allow something else now; nil: nothing.
func (s *snapshot) follow(before *snapshot, t *tenant) {
	if before == nil {
		return
	}
	var old []*limit
	if was := before.tenants[t.name]; was != nil {
		old = was.limits
	}
	for _, l := range t.limits {
		was := &limit{}
		if i := slices.IndexFunc(old, func(o *limit) bool { return o.name == l.name }); i >= 0 {
			was = old[i]
			if l.begun = was.begun; l.exact > was.exact {
				l.begun = new(atomic.Int64)
			}
			s.followKeys(&was.keys, &l.keys)
		} else {
			s.followKeys(nil, &l.keys)
		}
		for plan, g := range l.plans {
			s.followKeys(was.plans[plan], g)
		}
	}
}

func (s *snapshot) followKeys(before, g *keys.Group) {
	if before != nil && !g.Follow(before) {
		return
	}
	if s.changed == nil {
		s.changed = map[uint64]*keys.Group{}
	}
	s.changed[g.ID()] = g
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
