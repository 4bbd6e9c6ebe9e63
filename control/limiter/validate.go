package limiter

import (
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
	return fmt.Sprintf("limiter: %s is %v, want %s", e.Field, e.Value, e.Want)
}

// MaxLimits is the most limits of one tenant.
const MaxLimits = 64

const maxRate = 1e12 // cost units/s, and cost units for a burst

// Validate reports the first field that is wrong, as a *FieldError.
func (c *Config) Validate() error {
	pools, err := c.validatePools()
	if err != nil {
		return err
	}
	c.faults(pools, func(_ place, fault error) (goOn bool) {
		err = fault
		return false
	})
	return err
}

// LeftOut is a part of a configuration that is not valid.
type LeftOut struct {
	Tenant string // DefaultTenant for one of Config.Defaults
	// Limit is the limit's name, "quotas/" and the pool for a quota, and "" for the
	// tenant as a whole.
	Limit string
	Why   error // a *FieldError
}

// LeaveOut takes out of the configuration the limits, quotas and tenants that are
// not valid, and returns what it took. The lists are copied before they change.
// Pools are left as they are, for Validate to refuse.
func (c *Config) LeaveOut() (out []LeftOut) {
	pools := make(map[string]bool, len(c.Pools))
	for i := range c.Pools {
		pools[c.Pools[i].Name] = true
	}
	bad := map[place]bool{}
	c.faults(pools, func(at place, why error) (goOn bool) {
		bad[at] = true
		out = append(out, c.leftOut(at, why))
		return true
	})
	if len(out) > 0 {
		c.remove(bad)
	}
	return out
}

// place is a part of a configuration, by its index in each list; −1 is none. A
// limit of no tenant is one of the defaults.
type place struct{ tenant, limit, quota int }

func (c *Config) leftOut(at place, why error) LeftOut {
	if at.tenant < 0 {
		return LeftOut{Tenant: DefaultTenant, Limit: c.Defaults[at.limit].Name, Why: why}
	}
	t := &c.Tenants[at.tenant]
	left := LeftOut{Tenant: t.Name, Why: why}
	switch {
	case at.limit >= 0:
		left.Limit = t.Limits[at.limit].Name
	case at.quota >= 0:
		left.Limit = "quotas/" + t.Quotas[at.quota].Pool
	}
	return left
}

func (c *Config) remove(bad map[place]bool) {
	defaults, tenants := c.Defaults, c.Tenants
	c.Defaults, c.Tenants = nil, nil
	for j, l := range defaults {
		if !bad[place{-1, j, -1}] {
			c.Defaults = append(c.Defaults, l)
		}
	}
	for i, t := range tenants {
		if bad[place{i, -1, -1}] {
			continue
		}
		limits, quotas := t.Limits, t.Quotas
		t.Limits, t.Quotas = nil, nil
		for j, l := range limits {
			if !bad[place{i, j, -1}] {
				t.Limits = append(t.Limits, l)
			}
		}
		for j, q := range quotas {
			if !bad[place{i, -1, j}] {
				t.Quotas = append(t.Quotas, q)
			}
		}
		c.Tenants = append(c.Tenants, t)
	}
}

func (c *Config) validatePools() (names map[string]bool, err error) {
	names = make(map[string]bool, len(c.Pools))
	for i := range c.Pools {
		p := &c.Pools[i]
		path := "pools[" + p.Name + "]"
		if err := unique(names, p.Name, path); err != nil {
			return nil, err
		}
		if err := p.validate(path); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// faults calls found with each part of the tenants that is not valid, until found
// says to stop.
func (c *Config) faults(pools map[string]bool, found func(at place, why error) (goOn bool)) {
	inherited := make(map[string]bool, len(c.Defaults))
	if !limitFaults("defaults", c.Defaults, inherited, nil, func(j int, why error) bool {
		return found(place{-1, j, -1}, why)
	}) {
		return
	}
	names := make(map[string]bool, len(c.Tenants))
	for i := range c.Tenants {
		t := &c.Tenants[i]
		path := "tenants[" + t.Name + "]"
		err := unique(names, t.Name, path)
		if err == nil && !(t.Weight >= 0 && t.Weight <= 1e9) {
			err = &FieldError{path + ".weight", t.Weight, "a number from 0 (default 1) to 1e9"}
		}
		if err != nil {
			if !found(place{i, -1, -1}, err) {
				return
			}
			continue
		}
		if !t.faults(path, i, pools, inherited, found) {
			return
		}
	}
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

func (p *Pool) validate(path string) error {
	if !(p.Capacity > 0 && p.Capacity <= maxRate) {
		return &FieldError{path + ".capacity", p.Capacity, "a rate above 0, at most 1e12"}
	}
	if p.OnLoss > Open {
		return &FieldError{path + ".on_loss", uint8(p.OnLoss), "FREEZE, SAFE_RATE or OPEN"}
	}
	if p.HardExpiry < 0 {
		return &FieldError{path + ".hard_expiry", p.HardExpiry, "0 or more"}
	}
	return p.Queue.validate(path + ".queue")
}

func (q *Queue) validate(path string) error {
	if int(q.Law) >= len(lawNames) {
		return &FieldError{path + ".law", uint8(q.Law), "VARIABLE_STRUCTURE, DROP_TAIL, POLICE or CODEL"}
	}
	if q.DelayTarget != 0 && (q.DelayTarget < time.Millisecond || q.DelayTarget > 10*time.Second) {
		return &FieldError{path + ".delay_target", q.DelayTarget, "0 (default) or 1ms to 10s"}
	}
	if q.MaxWait != 0 && (q.MaxWait < time.Millisecond || q.MaxWait > time.Minute) {
		return &FieldError{path + ".max_wait", q.MaxWait, "0 (default) or 1ms to 60s"}
	}
	if q.MaxRequests < 0 || q.MaxRequests > MaxQueueRequests {
		return &FieldError{path + ".max_requests", q.MaxRequests, "0 (default) to 1000000"}
	}
	return nil
}

// faults is Config.faults for the limits and quotas of the i-th tenant.
func (t *Tenant) faults(
	path string, i int, pools, inherited map[string]bool, found func(place, error) bool,
) (goOn bool) {
	if !limitFaults(path, t.Limits, make(map[string]bool, len(t.Limits)), inherited, func(j int, why error) bool {
		return found(place{i, j, -1}, why)
	}) {
		return false
	}
	quotas := make(map[string]bool, len(t.Quotas))
	for j := range t.Quotas {
		q := &t.Quotas[j]
		at := path + ".quotas[" + q.Pool + "]"
		err := unique(quotas, q.Pool, at)
		if err == nil {
			err = q.validate(at, pools)
		}
		if err != nil && !found(place{i, -1, j}, err) {
			return false
		}
	}
	return true
}

// limitFaults calls found with each limit of a list that is not valid, or is beyond
// MaxLimits together with those that the tenant inherits. It adds the names to seen.
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
	if err := (RateBurst{l.Rate, l.Burst}).validate(path); err != nil {
		return err
	}
	for client, rb := range l.Overrides {
		if err := rb.validate(path + ".overrides[" + client + "]"); err != nil {
			return err
		}
	}
	if l.Mode > Off {
		return &FieldError{path + ".mode", uint8(l.Mode), "ENFORCE, SHADOW or OFF"}
	}
	return l.Queue.validate(path + ".queue")
}

func (rb RateBurst) validate(path string) error {
	if !(rb.Rate >= 0 && rb.Rate <= maxRate) {
		return &FieldError{path + ".rate", rb.Rate, "a rate from 0 to 1e12"}
	}
	if !(rb.Burst >= 0 && rb.Burst <= maxRate) {
		return &FieldError{path + ".burst", rb.Burst, "a cost from 0 (default) to 1e12"}
	}
	return nil
}

func (q *Quota) validate(path string, pools map[string]bool) error {
	if !pools[q.Pool] {
		return &FieldError{path + ".pool", q.Pool, "a pool of this configuration"}
	}
	if !(q.Guaranteed >= 0 && q.Guaranteed <= maxRate) {
		return &FieldError{path + ".guaranteed", q.Guaranteed, "a rate from 0 to 1e12"}
	}
	if math.IsNaN(q.Max) || q.Max < q.Guaranteed {
		return &FieldError{path + ".max", q.Max, "at least guaranteed; +Inf for none"}
	}
	if q.Mode > Off {
		return &FieldError{path + ".mode", uint8(q.Mode), "ENFORCE, SHADOW or OFF"}
	}
	return nil
}
