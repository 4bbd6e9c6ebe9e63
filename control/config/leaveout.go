package config

// LeftOut is a limit, a quota, a tenant or a plan that is not enforced because it is not valid.
type LeftOut struct {
	// Tenant has it: DefaultTenant one of Config.Defaults; a plan is planPrefix and its name.
	Tenant string `json:"tenant"`
	// Limit is the limit's name, "quotas/" and the pool for a quota, and "" for the
	// tenant as a whole, with its limits and quotas.
	Limit  string `json:"limit,omitempty"`
	Reason string `json:"reason"` // names the field, and what would be right
}

// planPrefix stands before the name of a plan in LeftOut.Tenant.
const planPrefix = "plans/"

// LeaveOut removes the limits, quotas and tenants that are not valid, and returns what it
// removed. The lists are copied before they change. Pools stay as they are: Validate
// refuses a configuration with a bad one.
func (c *Config) LeaveOut() []LeftOut {
	return c.leaveOut(func(found func(place, error) bool) { c.faults(found) })
}

// leaveOut removes the parts that faults finds, and returns what it removed.
func (c *Config) leaveOut(faults func(found func(place, error) bool)) (out []LeftOut) {
	bad := map[place]bool{}
	faults(func(at place, why error) (goOn bool) {
		bad[at] = true
		out = append(out, c.leftOut(at, why))
		return true
	})
	if len(out) > 0 {
		c.remove(bad)
	}
	return out
}

// Why a rate limit service leaves out a limit with a concurrency or a quota.
const (
	unheld     = "none here: a rate limit service does not see when a request ends. Envoys with the filter hold it"
	unanswered = "none here: a rate limit service does not ask the owners of quotas. Envoys with the filter hold it"
)

// LeaveOutUnheld removes the limits with a concurrency or a quota, for a process that holds neither, and returns what
// it removed. The lists are copied before they change.
func (c *Config) LeaveOutUnheld() []LeftOut {
	return c.leaveOut(func(found func(place, error) bool) {
		note := func(of section, i int, list []Limit) {
			for j := range list {
				if l := &list[j]; l.Concurrency > 0 {
					found(place{of, i, j, -1}, &FieldError{"limits[" + l.Name + "].concurrency", l.Concurrency, unheld})
				} else if l.Quota != nil {
					found(place{of, i, j, -1}, &FieldError{"limits[" + l.Name + "].quota", l.Quota.Amount, unanswered})
				}
			}
		}
		note(inDefaults, -1, c.Defaults)
		for i := range c.Plans {
			note(inPlans, i, c.Plans[i].Limits)
		}
		for i := range c.Tenants {
			note(inTenants, i, c.Tenants[i].Limits)
		}
	})
}

func (c *Config) leftOut(at place, why error) LeftOut {
	if at.of == inDefaults {
		return LeftOut{Tenant: DefaultTenant, Limit: c.Defaults[at.limit].Name, Reason: why.Error()}
	}
	list, prefix := c.Tenants, ""
	if at.of == inPlans {
		list, prefix = c.Plans, planPrefix
	}
	t := &list[at.tenant]
	left := LeftOut{Tenant: prefix + t.Name, Reason: why.Error()}
	switch {
	case at.limit >= 0:
		left.Limit = t.Limits[at.limit].Name
	case at.quota >= 0:
		left.Limit = "quotas/" + t.Quotas[at.quota].Pool
	}
	return left
}

func (c *Config) remove(bad map[place]bool) {
	defaults := c.Defaults
	c.Defaults = nil
	for j, l := range defaults {
		if !bad[place{inDefaults, -1, j, -1}] {
			c.Defaults = append(c.Defaults, l)
		}
	}
	c.Plans, c.Tenants = without(c.Plans, inPlans, bad), without(c.Tenants, inTenants, bad)
}

// without is a list without its bad parts.
func without(list []Tenant, of section, bad map[place]bool) (out []Tenant) {
	for i, t := range list {
		if bad[place{of, i, -1, -1}] {
			continue
		}
		limits, quotas := t.Limits, t.Quotas
		t.Limits, t.Quotas = nil, nil
		for j, l := range limits {
			if !bad[place{of, i, j, -1}] {
				t.Limits = append(t.Limits, l)
			}
		}
		for j, q := range quotas {
			if !bad[place{of, i, -1, j}] {
				t.Quotas = append(t.Quotas, q)
			}
		}
		out = append(out, t)
	}
	return out
}
