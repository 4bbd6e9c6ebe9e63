package config

import (
	"cmp"
	"fmt"
	"math"
	"time"
)

// A FieldError says which field of a configuration is wrong, and what would be
// right.
type FieldError struct {
	Field string // a path such as tenants[acme].limits[per-user].rate
	Value any
	Want  string
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("%s is %v, want %s", e.Field, e.Value, e.Want)
}

// under is the error of a part that path leads to.
func (e *FieldError) under(path string) *FieldError {
	return &FieldError{Field: join(path, e.Field), Value: e.Value, Want: e.Want}
}

// join is the path of a field; path "" leads to what has it.
func join(path, field string) string {
	if path == "" {
		return field
	}
	return path + "." + field
}

// Bounds of a configuration.
const (
	// MaxLimits is the most limits of one tenant, inherited ones included.
	MaxLimits = 64
	// MaxConcurrency bounds the requests in flight of a limit.
	MaxConcurrency = 1_000_000
	// MaxRate bounds rates in cost units/s and bursts in cost units.
	MaxRate = 1e12
	// MaxWeight bounds a tenant's weight.
	MaxWeight = 1e9
	// MinWait is the least that a Queue's DelayTarget and MaxWait may be, if not 0.
	MinWait = time.Millisecond
	// MaxDelayTarget bounds Queue.DelayTarget.
	MaxDelayTarget = 10 * time.Second
	// MaxMaxWait bounds Queue.MaxWait.
	MaxMaxWait = time.Minute
	// MaxQueueRequests bounds Queue.MaxRequests.
	MaxQueueRequests = 1_000_000
)

// Validate reports the first field that is wrong, as a *FieldError.
func (c *Config) Validate() error {
	err := c.validatePools()
	if err != nil {
		return err
	}
	c.faults(func(_ place, fault error) (goOn bool) {
		err = fault
		return false
	})
	return err
}

// LeftOut is a limit, a quota, a tenant or a plan that is not enforced because it is not valid.
type LeftOut struct {
	// Tenant has it: DefaultTenant one of Config.Defaults; a plan is planPrefix and its name.
	Tenant string `json:"tenant"`
	// Limit is the limit's name, "quotas/" and the pool for a quota, and "" for the
	// tenant as a whole, with its limits and quotas.
	Limit  string `json:"limit,omitempty"`
	Reason string `json:"reason"` // names the field, and what would be right
}

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

// place is a part of a configuration, by its index in each list; −1 is none.
type place struct {
	of                   section
	tenant, limit, quota int
}

// planPrefix stands before the name of a plan in LeftOut.Tenant.
const planPrefix = "plans/"

// section is a list of a configuration.
type section uint8

const (
	inDefaults section = iota
	inPlans
	inTenants
)

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

func (s *Shared) poolNames() map[string]bool {
	names := make(map[string]bool, len(s.Pools))
	for i := range s.Pools {
		names[s.Pools[i].Name] = true
	}
	return names
}

func (c *Config) validatePools() error {
	names := make(map[string]bool, len(c.Pools))
	for i := range c.Pools {
		p := &c.Pools[i]
		path := "pools[" + p.Name + "]"
		if err := unique(names, p.Name, path); err != nil {
			return err
		}
		if err := p.validate(path); err != nil {
			return err
		}
	}
	return nil
}

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

// Validate reports the first field of a pool that is wrong, as a *FieldError.
func (p *Pool) Validate() error { return p.validate("") }

// Validate reports the first field of a tenant itself that is wrong, as a *FieldError.
func (t *Tenant) Validate() error { return t.validate("") }

// Validate reports the first field of a limit that is wrong, as a *FieldError.
func (l *Limit) Validate() error { return l.validate("") }

// Validate reports the first number of a quota that is wrong, as a *FieldError.
func (q *Quota) Validate() error { return q.validate("") }

// Validate reports the first number that is wrong, as a *FieldError.
func (rb RateBurst) Validate() error { return rb.validate("") }

func (p *Pool) validate(path string) error {
	if p.Unknown != nil {
		return p.Unknown.under(path)
	}
	if !(p.Capacity > 0 && p.Capacity <= MaxRate) {
		return &FieldError{join(path, "capacity"), p.Capacity, "a rate above 0, at most 1e12"}
	}
	if err := onLosses.check(path, uint8(p.OnLoss)); err != nil {
		return err
	}
	if p.HardExpiry < 0 {
		return &FieldError{join(path, "hard_expiry"), p.HardExpiry, "0 or more"}
	}
	return p.Queue.validate(path)
}

func (t *Tenant) validate(path string) error {
	if !(t.Weight >= 0 && t.Weight <= MaxWeight) {
		return &FieldError{join(path, "weight"), t.Weight, "a number from 0 (default 1) to 1e9"}
	}
	return t.validateResets(path)
}

// validate is for the queue of what path leads to.
func (q *Queue) validate(path string) error {
	if err := laws.check(path, uint8(q.Law)); err != nil {
		return err
	}
	if q.DelayTarget != 0 && (q.DelayTarget < MinWait || q.DelayTarget > MaxDelayTarget) {
		return &FieldError{join(path, "queue.delay_target"), q.DelayTarget, "0 (default) or 1ms to 10s"}
	}
	if q.MaxWait != 0 && (q.MaxWait < MinWait || q.MaxWait > MaxMaxWait) {
		return &FieldError{join(path, "queue.max_wait"), q.MaxWait, "0 (default) or 1ms to 60s"}
	}
	if q.MaxRequests < 0 || q.MaxRequests > MaxQueueRequests {
		return &FieldError{join(path, "queue.max_requests"), q.MaxRequests, "0 (default) to 1000000"}
	}
	return nil
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

func (l *Limit) validate(path string) error {
	if l.Unknown != nil {
		return l.Unknown.under(path)
	}
	own := RateBurst{Rate: l.Rate, Burst: l.Burst, Concurrency: l.Concurrency, Until: l.Until}
	if err := own.validate(path); err != nil {
		return err
	}
	if err := cmp.Or(l.validateQuota(path), l.validateKind(path)); err != nil {
		return err
	}
	for client, rb := range l.Overrides {
		if err := rb.validate(join(path, "overrides["+client+"]")); err != nil {
			return err
		}
	}
	if err := cmp.Or(l.validatePlans(path), l.validateRequestedRate(path), modes.check(path, uint8(l.Mode)),
		precisions.check(path, uint8(l.Precision))); err != nil {
		return err
	}
	if l.Precision == Exact && l.Queued() {
		return &FieldError{join(path, "precision"), l.Precision, "LOCAL for a limit with a queue, or no queue"}
	}
	return l.Queue.validate(path)
}

// validateKind refuses fields of the other kind of limit.
func (l *Limit) validateKind(path string) error {
	for client, rb := range l.Overrides {
		if (rb.Concurrency > 0) != (l.Concurrency > 0) {
			return &FieldError{join(path, "overrides["+client+"].concurrency"), rb.Concurrency,
				"above 0 if the limit has a concurrency, else none"}
		}
	}
	switch {
	case l.Concurrency == 0:
		return nil
	case l.Queued() && l.Queue.Law != DropTail:
		return &FieldError{join(path, "queue.aqm"), l.Queue.Law, "DROP_TAIL or POLICE for a limit with a concurrency"}
	case l.Strict:
		return &FieldError{join(path, "strict"), l.Strict, "false for a limit with a concurrency"}
	case l.Precision != Unstated:
		return &FieldError{join(path, "precision"), l.Precision, "none for a limit with a concurrency"}
	case l.Cost != "":
		return &FieldError{join(path, "cost"), l.Cost, "none for a limit with a concurrency, which counts requests"}
	}
	return nil
}

func (rb RateBurst) validate(path string) error {
	if rb.Concurrency < 0 || rb.Concurrency > MaxConcurrency {
		return &FieldError{join(path, "concurrency"), rb.Concurrency, "a number of requests from 1 to 1000000"}
	}
	switch {
	case rb.Concurrency > 0 && rb.Rate != 0:
		return &FieldError{join(path, "rate"), rb.Rate, "none beside a concurrency: make another limit for the rate"}
	case rb.Concurrency > 0 && rb.Burst != 0:
		return &FieldError{join(path, "burst"), rb.Burst, "none beside a concurrency"}
	}
	if !(rb.Rate >= 0 && rb.Rate <= MaxRate) {
		return &FieldError{join(path, "rate"), rb.Rate, "a rate from 0 to 1e12"}
	}
	if !(rb.Burst >= 0 && rb.Burst <= MaxRate) {
		return &FieldError{join(path, "burst"), rb.Burst, "a cost from 0 (default) to 1e12"}
	}
	return rb.Until.validate(path)
}

// of checks a quota of a configuration with the given pools.
func (q *Quota) of(path string, pools map[string]bool) error {
	if q.Unknown == nil && !pools[q.Pool] {
		return &FieldError{join(path, "pool"), q.Pool, "a pool of this configuration"}
	}
	return q.validate(path)
}

func (q *Quota) validate(path string) error {
	if q.Unknown != nil {
		return q.Unknown.under(path)
	}
	if !(q.Guaranteed >= 0 && q.Guaranteed <= MaxRate) {
		return &FieldError{join(path, "guaranteed"), q.Guaranteed, "a rate from 0 to 1e12"}
	}
	if math.IsNaN(q.Max) || q.Max < q.Guaranteed {
		want := fmt.Sprintf("at least guaranteed, which is %v; +Inf for none", q.Guaranteed)
		return &FieldError{join(path, "max"), q.Max, want}
	}
	if err := q.Until.validate(path); err != nil {
		return err
	}
	return modes.check(path, uint8(q.Mode))
}
