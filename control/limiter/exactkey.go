package limiter

import (
	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
	"github.com/titrate/titrate/control/limiter/internal/hash"
	"github.com/titrate/titrate/control/limiter/internal/tokens"
)

// ClientKey returns the hash of a client's key of a tenant's limit, by which a [config.Override] goes.
func ClientKey(seed uint64, tenant, limit, client string) uint64 {
	return hash.Limit(seed, tenant, limit, client)
}

// ResetOf returns when a configuration says that a key was reset; 0: never. O(resets of the tenant).
func ResetOf(in *config.Set, n *exchange.KeyName) config.Instant {
	if t := in.Tenant(n.Tenant); t != nil {
		return t.ResetOf(n.Limit, n.Client)
	}
	return 0
}

// ExactKey returns the hash of a key of an EXACT limit, and what a configuration allows it at an instant. Not ok:
// the configuration has no such limit, or owners do not grant its tokens. O(limits of the tenant).
func ExactKey(in *config.Set, at config.Instant, n *exchange.KeyName) (key uint64, p grant.Params, ok bool) {
	b, ok := BucketOf(in, at, n)
	return b.Key, b.Params, ok && b.exact != never
}

// overrideOf returns the override of a key of a limit. Overrides that are resources go by the hash of a client. A
// PerTenant limit has none of them.
func overrideOf(in *config.Set, at config.Instant, l *config.Limit, n *exchange.KeyName) (config.RateBurst, bool) {
	var own uint64
	if !l.PerTenant {
		own = ClientKey(in.Seed(), n.Tenant, n.Limit, n.Client)
	}
	return in.OverrideOf(n.Tenant, l, own, n.Client, at)
}

// KeyBucket is the key of a limit that has a token bucket, and what a configuration allows it.
type KeyBucket struct {
	Key uint64
	grant.Params
	Global bool // its owner is one of the agents of all sites, see [config.GlobalScope]
	exact  exactness
}

// IsExact reports whether owners grant its tokens, where gateways are near or are not.
func (b *KeyBucket) IsExact(near bool) bool { return b.exact >= always || b.exact == whileNear && near }

// BucketOf returns the bucket of a key at an instant. Not ok: the configuration has no such limit, or the limit has no
// bucket. O(limits of the tenant).
func BucketOf(in *config.Set, at config.Instant, n *exchange.KeyName) (b KeyBucket, ok bool) {
	l := in.Limit(n.Tenant, n.Limit, at)
	if l == nil || l.Concurrency > 0 || l.Quota != nil || l.PerTenant && n.Client != "" {
		return b, false
	}
	allowed, ok := l.Bucket(), true
	if o, found := overrideOf(in, at, l, n); found { // as keys.Group has it, for a PerTenant limit, too
		allowed, ok = o, n.Plan == ""
	} else if n.Plan != "" {
		allowed, ok = l.Plans[n.Plan]
	}
	if !ok {
		return b, false
	}
	b.Key = hash.OfLimit(in.Seed(), n.Tenant, n.Limit, n.Plan).Key(l.PerTenant, n.Client, uint64(ResetOf(in, n)))
	numbers := numbersOf(l, allowed)
	b.Params = grant.Params{Rate: numbers.Rate, Burst: int64(numbers.Burst * grant.Token), Strict: numbers.Strict}
	if b.exact = exactnessOf(l); b.exact == overSites {
		b.Global = true
		b.Hold, b.Horizon = tokens.HoldGlobal, tokens.HorizonGlobal
	}
	return b, b.Rate > 0
}
