package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Delta turns the configuration of one revision into that of a later one.
type Delta struct {
	// Base is the revision that it changes; it fits no other one.
	Base int64 `json:"base"`
	// Revision of the configuration after it.
	Revision int64 `json:"revision"`
	// Shared replaces all pools, defaults and plans; nil: they stay as they are.
	Shared *Shared `json:"shared,omitempty"`
	// Plans take the place of plans of the same names, whose limits have the same names. Beside their tenants nobody
	// is concerned. Not beside Shared.
	Plans []Tenant `json:"plans,omitempty"`
	// Tenants are new or changed, each one whole.
	Tenants []Tenant `json:"tenants,omitempty"`
	// Removed are the names of tenants that are gone.
	Removed []string `json:"removed,omitempty"`
	// Overrides are the changes of overrides that are apart from their limits.
	Overrides []OverrideChange `json:"overrides,omitempty"`
}

// Shared is the part of a [Config] that tenants have in common.
type Shared struct {
	Pools    []Pool   `json:"pools,omitempty"`
	Defaults []Limit  `json:"defaults,omitempty"`
	Plans    []Tenant `json:"plans,omitempty"`
}

// A BaseError says that a Delta is for another configuration than the one in force.
type BaseError struct {
	Base, InForce int64 // revisions
}

func (e *BaseError) Error() string {
	return fmt.Sprintf("a change of revision %d, but revision %d is in force: the whole configuration is needed",
		e.Base, e.InForce)
}

// Names are the tenants that d puts, replaces or removes, and its plans, as LeftOut has them.
func (d *Delta) Names() map[string]bool {
	names := make(map[string]bool, len(d.Plans)+len(d.Tenants)+len(d.Removed))
	for i := range d.Plans {
		names[planPrefix+d.Plans[i].Name] = true
	}
	for i := range d.Tenants {
		names[d.Tenants[i].Name] = true
	}
	for _, name := range d.Removed {
		names[name] = true
	}
	return names
}

// Then is the change that d and after it next make together.
func (d *Delta) Then(next *Delta) *Delta {
	tenants := make(map[string]*Tenant, len(d.Tenants)+len(next.Tenants)) // nil: removed
	for _, one := range []*Delta{d, next} {
		for i := range one.Tenants {
			tenants[one.Tenants[i].Name] = &one.Tenants[i]
		}
		for _, name := range one.Removed {
			tenants[name] = nil
		}
	}
	out := &Delta{Base: d.Base, Revision: next.Revision, Shared: cmp.Or(next.Shared, d.Shared)}
	switch {
	case next.Shared != nil:
	case d.Shared != nil && next.Plans != nil:
		shared := *d.Shared
		shared.Plans = ReplacePlans(shared.Plans, next.Plans)
		out.Shared = &shared
	case d.Shared == nil:
		out.Plans = ReplacePlans(d.Plans, next.Plans)
	}
	for _, name := range slices.Sorted(maps.Keys(tenants)) {
		if t := tenants[name]; t != nil {
			out.Tenants = append(out.Tenants, *t)
		} else {
			out.Removed = append(out.Removed, name)
		}
	}
	out.Overrides = joined(d.Overrides, next.Overrides)
	return out
}

// joined is a change of overrides and the next one in one.
func joined(list, next []OverrideChange) []OverrideChange {
	if len(list) == 0 || len(next) == 0 {
		return append(slices.Clip(list), next...)
	}
	byLimit := map[OverridesOf]*OverrideChange{}
	var order []*OverrideChange
	for _, c := range append(slices.Clip(list), next...) {
		was := byLimit[c.OverridesOf]
		if was == nil {
			one := c
			byLimit[c.OverridesOf], order = &one, append(order, &one)
			continue
		}
		again := make(map[uint64]bool, len(c.Put)+len(c.Removed))
		for _, row := range c.Put {
			again[row.Key] = true
		}
		for _, key := range c.Removed {
			again[key] = true
		}
		was.Put = append(slices.DeleteFunc(slices.Clone(was.Put), func(row Override) bool { return again[row.Key] }),
			c.Put...)
		was.Removed = append(slices.DeleteFunc(slices.Clone(was.Removed), func(key uint64) bool { return again[key] }),
			c.Removed...)
		was.table, was.known = c.table, c.known
	}
	out := make([]OverrideChange, len(order))
	for i, c := range order {
		out[i] = *c
	}
	return out
}

// ReplacePlans returns a list of plans with others in the place of plans of their names, or at its end. The list stays
// as it is.
func ReplacePlans(list, others []Tenant) []Tenant {
	if len(others) == 0 {
		return list
	}
	out := slices.Clone(list)
	for _, p := range others {
		if was := planNamed(out, p.Name); was != nil {
			*was = p
		} else {
			out = append(out, p)
		}
	}
	return out
}

// With is the configuration that a delta makes of c, which stays as it is. The error is a
// *BaseError. O(tenants·log tenants).
func (c *Config) With(d *Delta) (*Config, error) {
	var s Set
	s.Replace(c)
	if err := s.Change(d); err != nil {
		return nil, err
	}
	return s.Config(), nil
}

// LeaveOut removes the limits, quotas and tenants that are not valid in a configuration with
// the given pools, defaults and plans, and returns what it removed. A tenant that is removed is one
// of Removed. The lists are copied before they change.
func (d *Delta) LeaveOut(in Shared) []LeftOut {
	c := &Config{Plans: d.Plans, Tenants: d.Tenants}
	out := c.leaveOut(func(found func(place, error) bool) {
		if c.planFaults(in, found) {
			c.tenantFaults(in, found)
		}
	})
	for _, l := range out {
		if l.Limit == "" && !strings.HasPrefix(l.Tenant, planPrefix) {
			d.Removed = append(slices.Clip(d.Removed), l.Tenant)
		}
	}
	d.Plans, d.Tenants = c.Plans, c.Tenants
	return out
}

// LeaveOutUnheld is [Config.LeaveOutUnheld] for a delta.
func (d *Delta) LeaveOutUnheld() []LeftOut {
	c := &Config{Plans: d.Plans, Tenants: d.Tenants}
	out := c.LeaveOutUnheld()
	d.Plans, d.Tenants = c.Plans, c.Tenants
	return out
}

// Set is a configuration that deltas keep current. The zero value is empty, of revision 0. It
// shares what it is given: nobody may change that any more.
type Set struct {
	head    Config // without tenants
	plans   map[string]*Tenant
	tenants map[string]*Tenant
	over    map[OverridesOf]*Overrides
}

// Replace puts a whole configuration in the place of what there was. O(tenants).
func (s *Set) Replace(c *Config) {
	s.head, s.tenants = *c, make(map[string]*Tenant, len(c.Tenants))
	s.head.Tenants, s.head.Overrides = nil, nil
	s.over = make(map[OverridesOf]*Overrides, len(c.Overrides))
	for _, one := range c.Overrides {
		if one.Table.Len() > 0 {
			s.over[one.OverridesOf] = one.Table
		}
	}
	s.share(Shared{c.Pools, c.Defaults, c.Plans})
	for i := range c.Tenants {
		s.tenants[c.Tenants[i].Name] = &c.Tenants[i]
	}
}

// share sets what tenants have in common.
func (s *Set) share(in Shared) {
	s.head.Pools, s.head.Defaults, s.head.Plans = in.Pools, in.Defaults, in.Plans
	s.plans = make(map[string]*Tenant, len(in.Plans))
	for i := range in.Plans {
		s.plans[in.Plans[i].Name] = &in.Plans[i]
	}
}

// Change applies a delta. The error is a *BaseError; nothing has changed then. O(delta).
func (s *Set) Change(d *Delta) error {
	if d.Base != s.head.Revision {
		return &BaseError{Base: d.Base, InForce: s.head.Revision}
	}
	s.head.Revision = d.Revision
	if d.Shared != nil {
		s.share(*d.Shared)
	}
	if d.Plans != nil {
		s.share(Shared{s.head.Pools, s.head.Defaults, ReplacePlans(s.head.Plans, d.Plans)})
	}
	if s.tenants == nil {
		s.tenants = make(map[string]*Tenant, len(d.Tenants))
	}
	for i := range d.Tenants {
		s.tenants[d.Tenants[i].Name] = &d.Tenants[i]
	}
	for _, name := range d.Removed {
		delete(s.tenants, name)
	}
	for _, c := range s.Resolve(d.Overrides) {
		if s.over == nil {
			s.over = map[OverridesOf]*Overrides{}
		}
		if s.over[c.OverridesOf] = c.table; c.table.Len() == 0 {
			delete(s.over, c.OverridesOf)
		}
	}
	return nil
}

// Resolve computes the tables after changes, where they are not known. Who puts a change in force several times, in
// sets and an engine, resolves it before: so all share the tables.
func (s *Set) Resolve(list []OverrideChange) []OverrideChange {
	out := slices.Clone(list)
	for i := range out {
		if c := &out[i]; !c.known {
			c.table, c.known = s.over[c.OverridesOf].With(c.Put, c.Removed), true
		}
	}
	return out
}

// Overrides returns the table of a tenant's limit, nil for none.
func (s *Set) Overrides(of OverridesOf) *Overrides { return s.over[of] }

// OverrideOf returns the override of a key of a tenant's limit, if there is one and it holds at an instant. It stands
// in the limit itself, or apart. The API refuses both for one client.
func (s *Set) OverrideOf(tenant string, l *Limit, key uint64, client string, at Instant) (rb RateBurst, found bool) {
	k := l.Kind()
	if o, is := s.over[OverridesOf{tenant, l.Name, k}].Find(key); is && !o.Until.Over(at) {
		return o.Numbers(k), true
	}
	return l.OverrideAt(client, at)
}

// Revision of the configuration.
func (s *Set) Revision() int64 { return s.head.Revision }

// Seed returns the seed of the key hashes.
func (s *Set) Seed() uint64 { return s.head.Seed }

// Shared returns the part that tenants have in common.
func (s *Set) Shared() Shared { return Shared{s.head.Pools, s.head.Defaults, s.head.Plans} }

// Limit returns the limit of a name that holds for a tenant at an instant: its own, or that of its plan, or the
// default; nil if there is none.
func (s *Set) Limit(tenant, name string, at Instant) *Limit {
	t := s.tenants[tenant]
	if t == nil {
		return nil
	}
	lists := [][]Limit{t.Limits, nil, s.head.Defaults}
	if plan := s.plans[t.Plan]; plan != nil {
		lists[1] = plan.Limits
	}
	for _, list := range lists {
		if l := limitNamed(list, name); l != nil && !l.Until.Over(at) {
			return l
		}
	}
	return nil
}

// Tenant returns the tenant of that name, nil if there is none.
func (s *Set) Tenant(name string) *Tenant { return s.tenants[name] }

// Tenants is the number of tenants.
func (s *Set) Tenants() int { return len(s.tenants) }

// Config is the whole configuration, its tenants by name. O(tenants·log tenants).
func (s *Set) Config() *Config {
	c := s.head
	if len(s.tenants) > 0 {
		c.Tenants = make([]Tenant, 0, len(s.tenants))
	}
	for _, name := range slices.Sorted(maps.Keys(s.tenants)) {
		c.Tenants = append(c.Tenants, *s.tenants[name])
	}
	for _, of := range slices.SortedFunc(maps.Keys(s.over), OverridesOf.Compare) {
		c.Overrides = append(c.Overrides, OverrideTable{of, s.over[of]})
	}
	return &c
}
