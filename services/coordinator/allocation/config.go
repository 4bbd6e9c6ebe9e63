package allocation

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/titrate/titrate/control/fairshare"
)

// Unknown is the tenant that stands for all that are not configured.
const Unknown = "-"

// Flow names a tenant's use of a pool, both without prefix.
type Flow struct{ Tenant, Pool string }

// Sharing says how a pool's capacity is divided.
type Sharing uint8

// The kinds of sharing.
const (
	MaxMin       Sharing = iota // weighted max-min
	Proportional                // α-fair, see Pool.Alpha
)

// Config is a whole configuration. An Allocator only reads it: do not change it after
// Configure.
type Config struct {
	Revision int64
	Pools    []Pool
	Tenants  map[string]float64 // weight of each tenant, > 0
	Quotas   map[Flow]Quota
}

// Pool is an upstream with a capacity in cost units per second.
type Pool struct {
	Name     string
	Capacity float64
	Sharing  Sharing
	Alpha    float64 // of Proportional
	// Adaptive bounds a capacity that is found from what the upstream serves, and
	// begins at Capacity; zero: it is fixed.
	Adaptive  Range
	Guarantee fairshare.Guarantee // a floor under the fair share, or a base below it
}

// Range is from Min to Max, cost units per second.
type Range struct{ Min, Max float64 }

// Quota is what a tenant may have of a pool, in cost units per second.
type Quota struct {
	Guaranteed float64
	Max        float64 // +Inf = unbounded
	Weight     float64 // NaN = the tenant's
	// Off: the flow is measured but not limited, so it is load that comes first.
	Off bool
}

// terms are the numbers that hold for one flow.
type terms struct {
	weight, guaranteed, max float64
	off                     bool
}

// terms looks up what holds for a flow.
func (c *Config) terms(f Flow) terms {
	t := terms{weight: 1, max: math.Inf(1)}
	if w, ok := c.Tenants[f.Tenant]; ok {
		t.weight = w
	}
	if q, ok := c.Quotas[f]; ok {
		t.guaranteed, t.max, t.off = q.Guaranteed, q.Max, q.Off
		if !math.IsNaN(q.Weight) {
			t.weight = q.Weight
		}
	}
	if t.weight == 0 { // such a flow has its guarantee and no more, slack or not
		t.max = math.Min(t.max, t.guaranteed)
	}
	return t
}

// quotasByPool groups the flows that have a quota, each group in order.
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

// resolve is the flow that a report counts for: tenants that are not configured
// are one together.
func (c *Config) resolve(f Flow) Flow {
	if _, ok := c.Tenants[f.Tenant]; !ok {
		f.Tenant = Unknown
	}
	return f
}

// Params are the numbers of the loop. Start from [Defaults].
type Params struct {
	// Headroom given on top of measured demands, part of a pool's capacity.
	// Larger lets unsaturated tenants wait less and overloads the upstream more.
	Headroom float64
	// Room to swing about their mean demand, up to their fair share, for flows
	// that get all they ask for; part of a pool's capacity that may be leased
	// beyond it. Default .1. 0 to 1: larger spares those flows queues on their
	// own noise, and lets the pool be over-committed by as much for one round.
	Room float64
	// Smoothing is the time constant of demand. Longer is steadier between
	// significant changes, which act at once in any case.
	Smoothing time.Duration
	// Drain is the time in which what waits is to be served.
	Drain time.Duration
	// Idle is how long without arrivals a flow stays in the fill.
	Idle time.Duration
	// Membership is how long a silent agent keeps its demand and its gateways: longer
	// than T2, or a gateway that is only cut off would have its part given away while it
	// may still live on it. A crashed one's part lies idle for as long.
	Membership time.Duration
}

// Defaults are what the coordinator uses unless its options say otherwise.
func Defaults() Params {
	return Params{
		Headroom: .02, Room: .1, Smoothing: 1500 * time.Millisecond, Drain: time.Second,
		Idle: 3 * time.Second, Membership: 20 * time.Second,
	}
}

// Idle is what a flow without a lease of its own has, given its pool's idle share.
func (c *Config) Idle(f Flow, share float64) FlowShare {
	t := c.terms(f)
	return FlowShare{Flow: f, Share: math.Min(share, t.max), Bound: ByDemand, Weight: t.weight, Guaranteed: t.guaranteed, Max: t.max}
}
