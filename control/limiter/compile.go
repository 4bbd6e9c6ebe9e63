package limiter

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/titrate/titrate/control/budget"
	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/limiter/internal/hash"
	"github.com/titrate/titrate/control/limiter/internal/keys"
)

// Tenants and their limits, as the data path has them.

// tenant is a config.Tenant compiled.
type tenant struct {
	name   string
	source *config.Tenant
	weight float64
	limits []*limit
	quotas map[string]config.Quota
	routes atomic.Pointer[[]atomic.Pointer[route]] // by pool index; the last is for unknown pools
}

// blocked reports whether a quota admits nothing.
func (t *tenant) blocked(pool string) bool {
	return t.maxOf(pool) == 0 && t.quotas[pool].Mode == config.Enforce
}

// maxOf is the max of a tenant's quota in a pool.
func (t *tenant) maxOf(pool string) float64 {
	if q, ok := t.quotas[pool]; ok {
		return q.Max
	}
	return config.Unbounded
}

// plans are the plans of a configuration, compiled: what is the same in the tenants of a plan is made once.
type plans struct {
	list   []config.Tenant
	byName map[string]*plan
}

type plan struct {
	weight float64
	limits []ruled
	quotas map[string]config.Quota
}

func newPlans(list []config.Tenant) plans {
	p := plans{list: list, byName: make(map[string]*plan, len(list))}
	for i := range list {
		p.byName[list[i].Name] = &plan{list[i].Weight, rules(list[i].Limits), quotasOver(nil, list[i].Quotas)}
	}
	return p
}

// quotasOver are the quotas of a plan, by pool, and of a tenant, which take their place.
func quotasOver(plan map[string]config.Quota, own []config.Quota) map[string]config.Quota {
	if len(own) == 0 {
		return plan
	}
	out := make(map[string]config.Quota, len(plan)+len(own))
	maps.Copy(out, plan)
	for _, q := range own {
		out[q.Pool] = q
	}
	return out
}

// ruled is a limit with its overrides, which all tenants that have it share.
type ruled struct {
	*config.Limit
	overrides map[string]keys.Numbers
	plans     map[string]keys.Numbers
}

func rules(list []config.Limit) []ruled {
	out := make([]ruled, len(list))
	for i := range list {
		out[i] = ruled{&list[i], exceptions(&list[i], list[i].Overrides), exceptions(&list[i], list[i].Plans)}
	}
	return out
}

func (s *snapshot) newTenant(c *config.Tenant, names *Names) *tenant {
	p := s.plans.byName[c.Plan]
	if p == nil {
		p = &plan{}
	}
	t := &tenant{name: c.Name, source: c, weight: cmp.Or(c.Weight, p.weight, config.DefaultWeight),
		quotas: quotasOver(p.quotas, c.Quotas)}
	lists := [][]ruled{rules(c.Limits), p.limits, s.inherited}
	for i, list := range lists {
		for _, r := range list {
			if !hasLimit(lists[:i], r.Name) {
				t.limits = append(t.limits, newLimit(s, c, r, names))
			}
		}
	}
	if len(t.limits) > len(c.Limits) {
		slices.SortFunc(t.limits, func(a, b *limit) int { return strings.Compare(a.name, b.name) })
	}
	return t
}

// hasLimit reports whether a limit of a name is in one of the lists.
func hasLimit(lists [][]ruled, name string) bool {
	return slices.ContainsFunc(lists, func(list []ruled) bool {
		return slices.ContainsFunc(list, func(r ruled) bool { return r.Name == name })
	})
}

func newLimit(s *snapshot, of *config.Tenant, c ruled, names *Names) *limit {
	tenant := of.Name
	l := &limit{
		tenant: tenant, name: c.Name, mode: c.Mode, strict: c.Strict, perTenant: c.PerTenant,
		queued: c.Queued(), queue: c.Queue.WithDefaults(), pools: c.Pools, classes: names.classes(c.Classes),
		counted: c.Cost,
	}
	l.exact, l.part, l.cost = exactnessOf(c.Limit), budget.Of(tenant, c.Name), names.cost(c.Cost)
	l.plain = l.cost == plainCost && c.RequestedRate == (config.RateBounds{})
	l.slots, l.quota = slotNumbersOf(c.Limit), quotaNumbersOf(c.Limit)
	if !l.perTenant {
		l.identity = names.identity(c.Identity)
	}
	if l.bounds = boundsOf(c.Limit); l.bounds != nil {
		l.rateAt = names.identity(config.RateIdentity)
	}
	base, own := numbersOf(c.Limit, c.Bucket()), s.ownOf(tenant, c.Limit)
	if !l.perTenant && c.Kind() != config.RateLimit {
		l.own, own = own, nil
	}
	resets := resetsOf(of, c.Limit)
	l.keys.Init(s.version, hash.OfLimit(s.seed, tenant, c.Name, ""), c.PerTenant, base, c.overrides, own, resets)
	if len(c.plans) == 0 {
		return l
	}
	l.planAt, l.plans = names.identity(config.PlanIdentity), make(map[string]*keys.Group, len(c.plans))
	for plan, n := range c.plans {
		l.plans[plan] = &keys.Group{}
		l.plans[plan].Init(s.version, hash.OfLimit(s.seed, tenant, c.Name, plan), c.PerTenant, n, nil, nil, resets)
	}
	return l
}

// resetsOf says when clients of a limit were reset; nil: none was.
func resetsOf(t *config.Tenant, l *config.Limit) (by map[string]uint64) {
	for _, r := range t.Resets {
		if r.Limit != l.Name || l.Concurrency > 0 {
			continue
		}
		if by == nil {
			by = map[string]uint64{}
		}
		by[r.Client] = uint64(r.At)
	}
	return by
}

// numbersOf returns the numbers of a limit with a rate and a burst.
func numbersOf(l *config.Limit, rb config.RateBurst) keys.Numbers {
	rb = rb.WithDefaults()
	x := exactnessOf(l)
	return keys.Numbers{Rate: rb.Rate, Burst: rb.Burst,
		Terms: keys.Terms{Strict: l.Strict, Exact: x != never, While: x == whileNear}}
}

// exceptions are other numbers of the limit by name, nil if there are none.
func exceptions(l *config.Limit, named map[string]config.RateBurst) map[string]keys.Numbers {
	if len(named) == 0 {
		return nil
	}
	out := make(map[string]keys.Numbers, len(named))
	for name, rb := range named {
		out[name] = numbersOf(l, rb)
	}
	return out
}
