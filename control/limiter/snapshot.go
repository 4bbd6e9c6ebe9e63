package limiter

import (
	"maps"
	"slices"
	"sync/atomic"

	"github.com/titrate/titrate/control/config"
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
