package config

import "fmt"

// place is a part of a configuration, by its index in each list; −1 is none.
type place struct {
	of                   section
	tenant, limit, quota int
}

// section is a list of a configuration.
type section uint8

const (
	inDefaults section = iota
	inPlans
	inTenants
)

// faults calls found with each part of the defaults, the plans and the tenants that is not valid, until found says to
// stop.
func (c *Config) faults(found func(at place, why error) (goOn bool)) {
	in := Shared{c.Pools, c.Defaults, c.Plans}
	if limitFaults("defaults", c.Defaults, map[string]bool{}, nil, func(j int, why error) bool {
		return found(place{inDefaults, -1, j, -1}, why)
	}) && c.planFaults(in, found) {
		c.tenantFaults(in, found)
	}
}

// planFaults is faults for the plans.
func (c *Config) planFaults(in Shared, found func(at place, why error) (goOn bool)) (goOn bool) {
	list := listFaults{of: inPlans, path: "plans", pools: in.poolNames(), names: map[string]bool{}, found: found}
	inherited := in.inherited(nil)
	for i := range c.Plans {
		p := &c.Plans[i]
		var err error
		if p.Plan != "" {
			err = &FieldError{"plans[" + p.Name + "].plan", p.Plan, "none of a plan"}
		}
		if !list.check(i, p, inherited, err) {
			return false
		}
	}
	return true
}

// tenantFaults is faults for the tenants of a configuration with the given pools, defaults and plans.
func (c *Config) tenantFaults(in Shared, found func(at place, why error) (goOn bool)) {
	list := listFaults{of: inTenants, path: "tenants", pools: in.poolNames(),
		names: make(map[string]bool, len(c.Tenants)), found: found}
	inherited := map[string]map[string]bool{"": in.inherited(nil)} // by plan
	for i := range in.Plans {
		inherited[in.Plans[i].Name] = in.inherited(&in.Plans[i])
	}
	for i := range c.Tenants {
		t := &c.Tenants[i]
		names, known := inherited[t.Plan]
		var err error
		if !known {
			err = &FieldError{"tenants[" + t.Name + "].plan", t.Plan, "a plan of this configuration"}
		}
		if !list.check(i, t, names, err) {
			return
		}
	}
}

// inherited are the names of the limits that a tenant of a plan inherits; nil: of none.
func (s *Shared) inherited(plan *Tenant) map[string]bool {
	names := make(map[string]bool, len(s.Defaults))
	for l := range (&Tenant{}).all(plan, s.Defaults) {
		names[l.Name] = true
	}
	return names
}

func (s *Shared) poolNames() map[string]bool {
	names := make(map[string]bool, len(s.Pools))
	for i := range s.Pools {
		names[s.Pools[i].Name] = true
	}
	return names
}

// listFaults finds what is not valid in a list of tenants or plans.
type listFaults struct {
	of           section
	path         string
	pools, names map[string]bool // names are those before
	found        func(at place, why error) (goOn bool)
}

// check checks the i-th, which inherits limits of the given names; err is what is wrong with it already.
func (l *listFaults) check(i int, t *Tenant, inherited map[string]bool, err error) (goOn bool) {
	path := l.path + "[" + t.Name + "]"
	if err == nil {
		err = unique(l.names, t.Name, path)
	}
	if err == nil {
		err = t.validate(path)
	}
	if err != nil {
		return l.found(place{l.of, i, -1, -1}, err)
	}
	return t.faults(path, place{l.of, i, -1, -1}, l.pools, inherited, l.found)
}

// faults is Config.faults for the limits and quotas of a tenant at a place.
func (t *Tenant) faults(
	path string, of place, pools, inherited map[string]bool, found func(place, error) bool,
) (goOn bool) {
	if !limitFaults(path, t.Limits, make(map[string]bool, len(t.Limits)), inherited, func(j int, why error) bool {
		return found(place{of.of, of.tenant, j, -1}, why)
	}) {
		return false
	}
	quotas := make(map[string]bool, len(t.Quotas))
	for j := range t.Quotas {
		q := &t.Quotas[j]
		at := path + ".quotas[" + q.Pool + "]"
		err := unique(quotas, q.Pool, at)
		if err == nil {
			err = q.of(at, pools)
		}
		if err != nil && !found(place{of.of, of.tenant, -1, j}, err) {
			return false
		}
	}
	return true
}

// limitFaults calls found with each limit of a list that is not valid, or that exceeds
// MaxLimits when the inherited limits are counted too. It adds the names to seen.
func limitFaults(path string, list []Limit, seen, inherited map[string]bool, found func(int, error) bool) (goOn bool) {
	total := len(inherited)
	for j := range list {
		l := &list[j]
		at := path + ".limits[" + l.Name + "]"
		err := unique(seen, l.Name, at)
		if err == nil {
			err = l.validate(at)
		}
		if !inherited[l.Name] {
			total++
		}
		if err == nil && !inherited[l.Name] && total > MaxLimits {
			err = &FieldError{path + ".limits", total, fmt.Sprint("at most ", MaxLimits, ", inherited ones included")}
		}
		if err != nil && !found(j, err) {
			return false
		}
	}
	return true
}

func unique(seen map[string]bool, name, path string) error {
	if name == "" {
		return &FieldError{path + ".name", `""`, "a name"}
	}
	if seen[name] {
		return &FieldError{path + ".name", name, "a name used once"}
	}
	seen[name] = true
	return nil
}
