package config

import (
	"iter"
	"math"
	"slices"
	"strings"
	"time"
)

// Config is one whole configuration. A gateway applies it whole or not at all.
type Config struct {
	// Revision of the configuration, for reports.
	Revision int64 `json:"revision"`
	// Seed of the key hashes, the same in every replica that shares limits.
	Seed  uint64 `json:"seed"`
	Pools []Pool `json:"pools,omitempty"`
	// Defaults are limits of every tenant that has none of the same name, DefaultTenant
	// included.
	Defaults []Limit `json:"defaults,omitempty"`
	// Plans are the settings of the tenants that name them. A plan has the fields of a tenant, but no Plan.
	Plans   []Tenant `json:"plans,omitempty"`
	Tenants []Tenant `json:"tenants,omitempty"`
	// Overrides are other numbers for single clients, besides the lists that limits have themselves. Of a limit that
	// is not there, or of another kind, they do nothing.
	Overrides []OverrideTable `json:"overrides,omitempty"`
}

// Pool is an upstream with a capacity.
type Pool struct {
	Name     string  `json:"name"`
	Capacity float64 `json:"capacity"` // cost units/s, > 0 and finite
	Queue    Queue   `json:"queue"`    // the queue of every tenant of this pool
	OnLoss   OnLoss  `json:"on_loss,omitempty"`
	// HardExpiry is counted from the time when the shares went stale. 0: never for
	// SafeRate, at once for Open.
	HardExpiry time.Duration `json:"hard_expiry_ns,omitempty"`
	// Adaptive: the capacity is estimated, so gateways report what the upstream has
	// finished.
	Adaptive bool `json:"adaptive,omitempty"`
	// Cost is the name of the cost that the pool counts; "": the plain cost. A request that has no
	// such cost counts with its plain cost. An older gateway counts the plain cost of all.
	Cost string `json:"cost,omitempty"`
	// Unknown is as in [Limit].
	Unknown *FieldError `json:"-"`
}

// Queue says how requests wait. The zero value of DelayTarget, MaxWait and
// MaxRequests means the default.
type Queue struct {
	Law Law `json:"law,omitempty"`
	// DelayTarget is the wait that the queue law aims at. Default 50 ms, range 1 ms
	// to 10 s. Larger keeps a bursty tenant's share busier, at longer waits.
	DelayTarget time.Duration `json:"delay_target_ns,omitempty"`
	// MaxWait is the longest wait; an older request is rejected. Default 1 s,
	// range 1 ms to 60 s. It must stay below the proxy's drain time.
	MaxWait time.Duration `json:"max_wait_ns,omitempty"`
	// MaxRequests is the most requests that wait: per tenant in a pool's queue,
	// per client in a limit's. Default 1024, range 1 to 1,000,000.
	MaxRequests int `json:"max_requests,omitempty"`
}

// Defaults of a Queue, and of a tenant's weight.
const (
	DefaultDelayTarget = 50 * time.Millisecond
	DefaultMaxWait     = time.Second
	DefaultMaxRequests = 1024
	DefaultWeight      = 1.0
)

// WithDefaults fills in the numbers that are zero.
func (q Queue) WithDefaults() Queue {
	if q.DelayTarget == 0 {
		q.DelayTarget = DefaultDelayTarget
	}
	if q.MaxWait == 0 {
		q.MaxWait = DefaultMaxWait
	}
	if q.MaxRequests == 0 {
		q.MaxRequests = DefaultMaxRequests
	}
	return q
}

// Tenant is a customer or team.
type Tenant struct {
	Name   string  `json:"name"`
	Weight float64 `json:"weight"` // > 0; 0 means that of the plan, or DefaultWeight
	// Plan names one of Config.Plans, whose weight, limits and quotas the tenant has where it has none itself. Of
	// limits of one name the tenant's comes before the plan's, and the plan's before the default. "": none.
	Plan   string  `json:"plan,omitempty"`
	Limits []Limit `json:"limits,omitempty"`
	Quotas []Quota `json:"quotas,omitempty"` // at most one per pool; a pool without one has no max
	// Resets are the clients of limits whose counts have begun anew, each of a limit once. An older gateway ignores
	// them: there the counts go on. Not of a plan.
	Resets []Reset `json:"resets,omitempty"`
}

// DefaultTenant is the name of the tenant whose limits and quotas unknown tenants get.
const DefaultTenant = "-"

// Quota is a tenant's guarantee and maximum in one pool. Rates in cost units/s. In JSON a
// Max of +Inf is left out.
type Quota struct {
	Pool       string
	Guaranteed float64 // ≥ 0
	Max        float64 // ≥ Guaranteed; +Inf: unbounded; 0 admits nothing
	Mode       Mode
	Until      Instant // when it lapses, see Limit
	// Unknown is as in [Limit].
	Unknown *FieldError
}

// Unbounded is the Max of a quota without one.
var Unbounded = math.Inf(1)

// RateBurst is a rate in cost units/s and a burst in cost units.
type RateBurst struct {
	Rate  float64 `json:"rate"`  // ≥ 0
	Burst float64 `json:"burst"` // 0: one second's worth; below 1 is raised to 1
	// Concurrency is as in [Limit].
	Concurrency int64 `json:"concurrency,omitempty"`
	// Amount is the amount of the limit's quota for a client. Only of an override.
	Amount float64 `json:"amount,omitempty"`
	// Until is the instant from which an override counts no more; 0: it stays. Only of an override.
	Until Instant `json:"until_ms,omitempty"`
}

// WithDefaults fills in a burst that is 0.
func (rb RateBurst) WithDefaults() RateBurst {
	if rb.Burst == 0 {
		rb.Burst = rb.Rate
	}
	rb.Burst = max(1, rb.Burst)
	return rb
}

// Limit holds each client of a tenant, or all of them together, to a rate.
type Limit struct {
	Name      string  `json:"name"`
	PerTenant bool    `json:"per_tenant,omitempty"` // one key for the whole tenant, not one per client
	Rate      float64 `json:"rate"`                 // cost units/s
	Burst     float64 `json:"burst"`                // cost units; 0: one second's worth, at least 1
	// Concurrency is the most requests in flight, over all replicas. Such a limit has no rate. 0: a limit with a rate.
	Concurrency int64 `json:"concurrency,omitempty"`
	// Quota is a cost per period of a calendar, over all replicas. Such a limit has no rate. Nil: none.
	Quota *CalendarQuota `json:"quota,omitempty"`
	Pools []string       `json:"pools,omitempty"` // it applies to; empty: all
	// Overrides are other numbers for single clients, by their names.
	Overrides map[string]RateBurst `json:"overrides,omitempty"`
	// Plans are other numbers for requests that name a plan, by the names of the plans: see [PlanIdentity]. Each plan
	// of a client has a bucket of its own. An override comes first. Only of a limit with a rate.
	Plans map[string]RateBurst `json:"plans,omitempty"`
	// RequestedRate bounds the rate that a request may state for itself, see [RateIdentity]. It comes before Plans, and
	// after Overrides. Only of a limit with a rate.
	RequestedRate RateBounds `json:"requested_rate,omitzero"`
	// Queue lets a client wait for its limit when MaxRequests > 0 or MaxWait > 0
	// and Law is not Police; otherwise a request beyond the limit is rejected.
	Queue Queue `json:"queue"`
	Mode  Mode  `json:"mode,omitempty"`
	// Strict never admits more than the envelope over all replicas, at the
	// price of rejecting some bursts below the limit.
	Strict bool `json:"strict,omitempty"`
	// Precision says how close the limit is held over all replicas. Unstated is Local for a limit
	// that cannot be Exact.
	Precision Precision `json:"precision,omitempty"`
	// Scope says whether an Exact limit is exact within each site, or over all sites.
	Scope Scope `json:"scope,omitempty"`
	// Identity is the name of the identity that distinguishes clients; "": the client. A
	// request that has no such identity is the client "". PerTenant needs none.
	Identity string `json:"identity,omitempty"`
	// Classes of requests that it applies to, by name; empty: all requests. A class
	// that a gateway does not know has no requests there.
	Classes []string `json:"classes,omitempty"`
	// Cost is the name of the cost that it counts; "": the plain cost. A request that has no such
	// cost is not counted.
	Cost string `json:"cost,omitempty"`
	// Until is the instant from which all is as without the limit; 0: it stays. Agents and gateways make that
	// change themselves: see [Lapses].
	Until Instant `json:"until_ms,omitempty"`
	// Unknown is set when a limit is decoded that has a field or a name which this build
	// does not know, because a newer build has sent it. What the limit means is then not
	// known: it is not valid. Nil of a limit that is understood.
	Unknown *FieldError `json:"-"`
}

// Queued reports whether a request beyond the limit waits.
func (l *Limit) Queued() bool {
	return l.Queue.Law != Police && (l.Queue.MaxRequests > 0 || l.Queue.MaxWait > 0)
}

// Inherited is the configuration with plans and defaults copied into each tenant: all that holds for it. It is as large
// as tenants times plans and defaults. c stays as it is.
func (c *Config) Inherited() *Config {
	if len(c.Defaults)+len(c.Plans) == 0 {
		return c
	}
	out := *c
	out.Defaults, out.Plans, out.Tenants = nil, nil, slices.Clone(c.Tenants)
	for i := range out.Tenants {
		t := &out.Tenants[i]
		plan := planNamed(c.Plans, t.Plan)
		t.Limits = slices.Collect(t.all(plan, c.Defaults))
		slices.SortFunc(t.Limits, func(a, b Limit) int { return strings.Compare(a.Name, b.Name) })
		if t.Plan = ""; plan == nil {
			continue
		}
		if t.Weight == 0 {
			t.Weight = plan.Weight
		}
		t.Quotas = slices.Clone(t.Quotas)
		for _, q := range plan.Quotas {
			if !slices.ContainsFunc(t.Quotas, func(own Quota) bool { return own.Pool == q.Pool }) {
				t.Quotas = append(t.Quotas, q)
			}
		}
	}
	return &out
}

// all are the limits that hold for a tenant: its own, those of its plan (nil: none) and the defaults, of each name the
// first.
func (t *Tenant) all(plan *Tenant, defaults []Limit) iter.Seq[Limit] {
	lists := [][]Limit{t.Limits, nil, defaults}
	if plan != nil {
		lists[1] = plan.Limits
	}
	return func(yield func(Limit) bool) {
		for i, list := range lists {
			for _, l := range list {
				named := func(before []Limit) bool { return limitNamed(before, l.Name) != nil }
				if !slices.ContainsFunc(lists[:i], named) && !yield(l) {
					return
				}
			}
		}
	}
}

// limitNamed returns the limit of a name in a list, nil if there is none.
func limitNamed(list []Limit, name string) *Limit {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

// planNamed returns the plan of a name, nil if there is none.
func planNamed(plans []Tenant, name string) *Tenant {
	for i := range plans {
		if plans[i].Name == name {
			return &plans[i]
		}
	}
	return nil
}
