package catalog

import (
	"cmp"
	"math"
	"slices"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/fairshare"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/round"
	"github.com/titrate/titrate/services/store/resource"
)

// compile turns resources into the allocator's configuration. Limits are the
// gateways' business alone. The API has validated what is stored; what it could
// not have let in (a pool without capacity) grants nothing.
func compile(revision int64, resources map[string]*quotav1.Resource) *round.Config {
	c := &round.Config{Revision: revision, Tenants: map[string]float64{}, Quotas: map[round.Flow]round.Quota{}}
	for name, r := range resources {
		ref, err := resource.Parse(name)
		if err != nil {
			continue
		}
		switch ref.Kind {
		case resource.Pool:
			c.Pools = append(c.Pools, pool(ref.ID, r.GetPool()))
		case resource.Tenant:
			c.Tenants[ref.ID] = cmp.Or(r.GetTenant().GetWeight(), config.DefaultWeight)
		case resource.Quota:
			c.Quotas[round.Flow{Tenant: ref.Tenant, Pool: ref.ID}] = quota(r.GetQuota())
		}
	}
	slices.SortFunc(c.Pools, func(a, b round.Pool) int { return cmp.Compare(a.Name, b.Name) })
	return c
}

func pool(name string, p *quotav1.Pool) round.Pool {
	out := round.Pool{Name: name, Capacity: p.GetCapacity(), Alpha: cmp.Or(p.GetAlpha(), resource.DefaultAlpha)}
	if a := p.GetAdaptive(); a != nil {
		out.Adaptive = round.Range{Min: a.GetMin(), Max: a.GetMax()}
	}
	if p.GetSharing() == quotav1.Sharing_PROPORTIONAL {
		out.Sharing = round.Proportional
	}
	if p.GetGuarantee() == quotav1.Guarantee_ADDITIVE {
		out.Guarantee = fairshare.Additive
	}
	return out
}

func quota(q *quotav1.Quota) round.Quota {
	out := round.Quota{
		Guaranteed: q.GetGuaranteed(), Max: math.Inf(1), Weight: math.NaN(), Off: q.GetMode() == quotav1.Mode_OFF,
	}
	if q.Max != nil {
		out.Max = q.GetMax()
	}
	if q.Weight != nil {
		out.Weight = q.GetWeight()
	}
	return out
}
