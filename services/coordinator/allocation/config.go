package allocation

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/fairshare"
)

// Unknown is the tenant that stands for all tenants that are not configured.
const Unknown = config.DefaultTenant

// Flow names a tenant's use of a pool, both without prefix.
type Flow struct{ Tenant, Pool string }

// Sharing says how a pool's capacity is divided.
type Sharing uint8

// The kinds of sharing.
const (
	MaxMin       Sharing = iota // weighted max-min
	Proportional                // α-fair, see Pool.Alpha
)

// Config is a whole configuration. An Allocator only reads it: do not change it after Configure.
type Config struct {
	Revision int64
	Pools    []Pool
	Tenants  map[string]float64 // weight of each tenant, > 0
	Quotas   map[Flow]Quota
	// Elsewhere are pools of the configuration that other coordinators lead: what is reported of
	// them here does not count, and is no mistake. nil: none.
	Elsewhere map[string]bool
}

// Has reports whether a pool is led here.
func (c *Config) Has(pool string) bool {
	return slices.ContainsFunc(c.Pools, func(p Pool) bool { return p.Name == pool })
}

// Part is the configuration of some of its pools. The others are led elsewhere.
func (c *Config) Part(led func(pool string) bool) *Config {
	out := &Config{Revision: c.Revision, Tenants: c.Tenants, Quotas: map[Flow]Quota{}, Elsewhere: map[string]bool{}}
	for _, p := range c.Pools {
		if led(p.Name) {
			out.Pools = append(out.Pools, p)
		} else {
			out.Elsewhere[p.Name] = true
		}
	}
	for key, q := range c.Quotas {
		if !out.Elsewhere[key.Pool] {
			out.Quotas[key] = q
		}
	}
	return out
}

// Pool is an upstream with a capacity in cost units per second.
type Pool struct {
	Name     string
	Capacity float64
	Sharing  Sharing
	Alpha    float64 // of Proportional
	// Adaptive bounds a capacity that is found from what the upstream serves and that
	// begins at Capacity. Zero: the capacity is fixed.
	Adaptive  Range
	Guarantee fairshare.Guarantee // a floor under the fair share, or a base below it
}

// Range is from Min to Max, cost units per second.
type Range struct{ Min, Max float64 }

// Quota is a tenant's guarantee and maximum in a pool, in cost units per second.
type Quota struct {
	Guaranteed float64
	Max        float64 // +Inf = unbounded
	Weight     float64 // NaN = the tenant's
	// Off: the flow is measured and not limited. Its load comes off the capacity before the others share the rest.
	Off bool
}

// settings are the numbers in force for one flow.
type settings struct {
	weight, guaranteed, max float64
	off                     bool
}

// Quota returns what holds for a flow: its quota, with its tenant's weight if that has none.
func (c *Config) Quota(f Flow) Quota {
	q, ok := c.Quotas[f]
	if !ok {
		q = Quota{Max: math.Inf(1), Weight: math.NaN()}
	}
	if math.IsNaN(q.Weight) {
		q.Weight = config.DefaultWeight
		if w, ok := c.Tenants[f.Tenant]; ok {
			q.Weight = w
		}
	}
	return q
}

// settings returns the numbers in force for a flow.
func (c *Config) settings(f Flow) settings {
	q := c.Quota(f)
	s := settings{weight: q.Weight, guaranteed: q.Guaranteed, max: q.Max, off: q.Off}
	if s.weight == 0 { // such a flow has its guarantee and no more, also in a pool that is not full
		s.max = math.Min(s.max, s.guaranteed)
	}
	return s
}

// Idle returns the share of a flow that has no lease, given its pool's idle share.
func (c *Config) Idle(f Flow, idleShare float64) FlowShare {
	s := c.settings(f)
	return FlowShare{
		Flow: f, Share: math.Min(idleShare, s.max), Bound: ByDemand,
		Weight: s.weight, Guaranteed: s.guaranteed, Max: s.max,
	}
}

// quotasByPool groups the flows that have a quota by pool, each group in order.
func (c *Config) quotasByPool() map[string][]Flow {
	grouped := make(map[string][]Flow, len(c.Pools))
	for key := range c.Quotas {
		grouped[key.Pool] = append(grouped[key.Pool], key)
	}
	for _, flows := range grouped {
		slices.SortFunc(flows, func(a, b Flow) int { return strings.Compare(a.Tenant, b.Tenant) })
	}
	return grouped
}

// resolve is the flow that a report counts for: all tenants that are not configured count as one.
func (c *Config) resolve(f Flow) Flow {
	if _, ok := c.Tenants[f.Tenant]; !ok {
		f.Tenant = Unknown
	}
	return f
}

// Params are the numbers of the allocator. Start from [Defaults].
type Params struct {
	// Margin is ρ of the package comment: how much may at most be leased beyond a pool's capacity, as a part of it, to
	// flows that get all they ask for. Default 0.2, range 0 to 1. Larger: fewer requests of those flows wait or are
	// refused when their demand rises or is noisy. The pool may admit as much beyond its capacity until the next
	// rounds.
	Margin float64
	// Smoothing is the time constant of demand between significant changes, which act
	// at once. Default 1.5 s. Longer is steadier.
	Smoothing time.Duration
	// Drain is the time in which the margin serves what waits. Default 1 s.
	Drain time.Duration
	// Idle is the time for which a flow without arrivals stays in the fill. Default 3 s.
	Idle time.Duration
	// Membership is the time for which an unreachable agent keeps its demand and its gateways. Default 20 s. It must be
	// longer than T₂ (15 s): a gateway that is only cut off uses its part until then. The part of a gateway that has
	// crashed is unused for as long.
	Membership time.Duration
}

// Defaults are the numbers that the coordinator uses unless its options say otherwise.
func Defaults() Params {
	return Params{
		Margin: .2, Smoothing: 1500 * time.Millisecond, Drain: time.Second,
		Idle: 3 * time.Second, Membership: 20 * time.Second,
	}
}
