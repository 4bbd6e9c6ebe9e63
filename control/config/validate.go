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
		precisions.check(path, uint8(l.Precision)), scopes.check(path, uint8(l.Scope))); err != nil {
		return err
	}
	switch {
	case l.Precision == Exact && l.Queued():
		return &FieldError{join(path, "precision"), l.Precision, "LOCAL for a limit with a queue, or no queue"}
	case l.Scope == GlobalScope && l.Precision != Exact:
		return &FieldError{join(path, "scope"), l.Scope, "SITE, or a precision of EXACT beside it"}
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
