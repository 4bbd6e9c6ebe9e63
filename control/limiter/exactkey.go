package limiter

import (
	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
	"github.com/titrate/titrate/control/limiter/internal/hash"
)

// ClientKey returns the hash of a client's key of a tenant's limit, by which a [config.Override] goes.
func ClientKey(seed uint64, tenant, limit, client string) uint64 {
	return hash.Limit(seed, tenant, limit, client)
}

// ExactKey returns the hash of a key of an EXACT limit, and what a configuration allows it at an instant. Not ok:
// the configuration has no such limit, or owners do not grant its tokens. O(limits of the tenant).
func ExactKey(in *config.Set, at config.Instant, n *exchange.KeyName) (key uint64, p grant.Params, ok bool) {
	l := in.Limit(n.Tenant, n.Limit, at)
	if l == nil || exactnessOf(l) == never || l.PerTenant && n.Client != "" {
		return 0, p, false
	}
	allowed := config.RateBurst{Rate: l.Rate, Burst: l.Burst}
	if l.PerTenant {
		key = hash.TenantLimit(in.Seed(), n.Tenant, n.Limit)
	} else {
		key = hash.Limit(in.Seed(), n.Tenant, n.Limit, n.Client)
	}
	if o, found := in.OverrideOf(n.Tenant, l, key, n.Client, at); found { // as keys.Group has it, for a PerTenant limit, too
		allowed = o
	}
	numbers := numbersOf(l, allowed)
	p = grant.Params{Rate: numbers.Rate, Burst: int64(numbers.Burst * grant.Token), Strict: numbers.Strict}
	return key, p, p.Rate > 0
}
