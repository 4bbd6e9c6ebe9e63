package keys

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/drc"
	"github.com/titrate/titrate/control/limiter/internal/fixed"
	"github.com/titrate/titrate/control/limiter/internal/hash"
	"github.com/titrate/titrate/control/limiter/internal/members"
)

// unit is one cost unit in fixed point.
const unit = fixed.Unit

// Never is the wait for what can never pass.
const Never = math.MaxInt64

// Numbers are a limit's rate and burst for one key. Each request copies them some times: with more than four
// fields, or 32 bytes, Go keeps the copies in memory and a decision takes a fifth longer.
type Numbers struct {
	Rate, Burst float64 // cost units/s, cost units
	limit       uint64  // whose numbers these are, see Group.ID; 0: not said
	Terms
}

// Terms are the terms of a limit besides rate and burst.
type Terms struct {
	Strict  bool
	Exact   bool   // the owners of its keys grant tokens,
	While   bool   // but only while the agents are near
	version uint32 // see Group.Follow; 0: not said
}

// Version counts the changes of the limit's numbers: a later one is greater, and it wraps around.
func (n Numbers) Version() uint32 { return n.version }

// allowsAs reports whether a bucket of these numbers is one of the others, too.
func (n Numbers) allowsAs(o Numbers) bool { return n.Rate == o.Rate && n.Burst == o.Burst }

// Group is the keys of one limit: one per client, or one for the tenant as a whole.
type Group struct {
	base      Numbers
	overrides map[string]Numbers // by client, shared by all tenants that have the limit
	own       *config.Overrides  // of this tenant, by key
	perTenant bool
	version   uint32                    // of these numbers, > 0
	earlier   []*earlier                // versions before, the latest last
	byKey     func() map[uint64]Numbers // the overrides by the hashes of their keys, made when asked for

	id           uint64
	resets       map[string]uint64 // when clients were reset; nil: none was
	prefix       hash.State
	tenantKey    uint64
	overflowKey  uint64
	tenantSlot   atomic.Pointer[bucket]
	overflowSlot atomic.Pointer[bucket]
}

// Overrides reports whether a client has other numbers than the limit.
func (g *Group) Overrides(client string) bool {
	if g.own != nil && !g.perTenant {
		if _, ok := g.own.Find(g.OverrideKey(client)); ok {
			return true
		}
	}
	_, ok := g.overrides[client]
	return ok
}

// OverrideKey returns the hash of a client by which a [config.Override] goes: that of its key, also since a reset.
func (g *Group) OverrideKey(client string) uint64 { return hash.Client(g.prefix, client) }

// Init sets up the keys of a limit, which h names; resets says when clients were reset. A version is later than that
// of each Group before with the same store, see NextVersion: a limit may be deleted and made again. The overrides and
// resets are shared and must not change.
func (g *Group) Init(
	version uint32, h hash.LimitHash, perTenant bool, base Numbers, overrides map[string]Numbers,
	own *config.Overrides, resets map[string]uint64,
) {
	g.base, g.overrides, g.own, g.perTenant, g.version = base, overrides, own, perTenant, version
	g.id, g.prefix, g.tenantKey, g.overflowKey = h.Tenant, h.Clients, hash.Reset(h.Tenant, resets[""]), h.Overflow
	if !perTenant {
		g.tenantKey, g.resets = h.Tenant, resets
	}
	g.byKey = nil
	if len(overrides) > 0 && !perTenant {
		g.byKey = sync.OnceValue(g.hashOverrides)
	}
}

// Numbers returns what the limit allows a client.
func (g *Group) Numbers(client string) Numbers {
	n := g.base
	switch {
	case g.own != nil:
		n = g.allowed(client, g.base, g.overrides, g.own)
	case len(g.overrides) > 0:
		if other, ok := g.overrides[client]; ok {
			n = other
		}
	}
	n.version, n.limit = g.version, g.id
	return n
}

// allowed returns the numbers of a client among those of a limit, now or before a change.
func (g *Group) allowed(client string, base Numbers, overrides map[string]Numbers, own *config.Overrides) Numbers {
	if own != nil && !g.perTenant {
		if o, ok := own.Find(g.OverrideKey(client)); ok {
			return base.Of(o)
		}
	}
	if other, ok := overrides[client]; ok {
		return other
	}
	return base
}

// Of returns the numbers of an override of a limit that has n.
func (n Numbers) Of(o config.Override) Numbers {
	n.Rate, n.Burst = o.Number, o.Burst
	return n
}

// ID identifies the limit, through changes and also when it is deleted and made again.
func (g *Group) ID() uint64 { return g.id }

// Key returns the hash of a client's key.
func (g *Group) Key(client string) uint64 {
	if g.perTenant {
		return g.tenantKey
	}
	return g.clientKey(client)
}

func (g *Group) clientKey(client string) uint64 {
	key := hash.Client(g.prefix, client)
	if g.resets != nil {
		key = hash.Reset(key, g.resets[client])
	}
	return key
}

// Local returns the numbers that this replica goes by for a key without a state: when it
// has been cut off for long, its static part. Of a key with a state see cutoff.go.
func (n Numbers) Local(m *members.View) Numbers {
	if m.Static() {
		return n.part(m.Weight / m.Total)
	}
	return n
}

// part is a part of the numbers; a burst of 1 or less stays whole.
func (n Numbers) part(of float64) Numbers {
	n.Rate *= of
	n.Burst = max(min(n.Burst, 1), n.Burst*of)
	return n
}

// fraction returns the numbers of a key that is counted here alone because there is no
// state for it: 1/N, or the static part.
func (n Numbers) fraction(m *members.View) Numbers {
	if m.Static() {
		return n.Local(m)
	}
	return n.part(1 / m.Replicas)
}

// ledger returns the parameters of a contended key.
func (n Numbers) ledger(m *members.View) drc.LedgerParams {
	return drc.LedgerParams{Rate: n.Rate, Burst: n.Burst, Replicas: m.Replicas, Lag: m.Lag, Strict: n.Strict}
}

// countedBy returns the numbers that a slot's TAT counts by.
func countedBy(m *members.View, at slot, n Numbers) Numbers {
	if at.b != nil && at.is(fractional) {
		return n.fraction(m)
	}
	return n.Local(m)
}

// deepestDebt is the most that a key may have spent: its burst, and as much again as debt
// from corrected costs.
func deepestDebt(n Numbers) float64 { return 2 * n.Burst }

// refill is the time in nanoseconds that a cost takes to be refilled at a rate.
func refill(cost, rate float64) int64 {
	if !(rate > 0) {
		return 0
	}
	return int64(min(math.Round(cost/rate*1e9), 1<<61))
}

// nanoseconds converts a wait; what does not fit is Never.
func nanoseconds(seconds float64) int64 {
	if !(seconds < math.MaxInt64/2e9) {
		return Never
	}
	return int64(seconds * 1e9)
}
