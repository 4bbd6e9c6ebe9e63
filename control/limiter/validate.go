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
	pools := make(map[string]bool, len(c.Pools))
	for i := range c.Pools {
		p := &c.Pools[i]
		path := "pools[" + p.Name + "]"
		if err := unique(pools, p.Name, path); err != nil {
			return err
		}
		if err := p.validate(path); err != nil {
			return err
		}
	}
	tenants := make(map[string]bool, len(c.Tenants))
	for i := range c.Tenants {
		t := &c.Tenants[i]
		path := "tenants[" + t.Name + "]"
		if err := unique(tenants, t.Name, path); err != nil {
			return err
		}
		if err := t.validate(path, pools); err != nil {
			return err
		}
	}
	return nil
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

func (t *Tenant) validate(path string, pools map[string]bool) error {
	if !(t.Weight >= 0 && t.Weight <= 1e9) {
		return &FieldError{path + ".weight", t.Weight, "a number from 0 (default 1) to 1e9"}
	}
	if len(t.Limits) > MaxLimits {
		return &FieldError{path + ".limits", len(t.Limits), fmt.Sprint("at most ", MaxLimits)}
	}
	names := make(map[string]bool, len(t.Limits))
	for i := range t.Limits {
		l := &t.Limits[i]
		at := path + ".limits[" + l.Name + "]"
		if err := unique(names, l.Name, at); err != nil {
			return err
		}
		if err := l.validate(at); err != nil {
			return err
		}
	}
	quotas := make(map[string]bool, len(t.Quotas))
	for i := range t.Quotas {
		q := &t.Quotas[i]
		at := path + ".quotas[" + q.Pool + "]"
		if err := unique(quotas, q.Pool, at); err != nil {
			return err
		}
		if err := q.validate(at, pools); err != nil {
			return err
		}
	}
	return nil
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
