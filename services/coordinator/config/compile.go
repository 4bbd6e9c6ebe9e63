package config

import (
	"cmp"
	"math"
	"slices"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/fairshare"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/allocation"
	"github.com/titrate/titrate/services/store/resource"
)

// Compile turns resources into the allocator's configuration. It ignores limits, which
// gateways enforce without shares. The API has validated the stored resources; one that
// it would have refused (a pool without capacity) is granted nothing.
func Compile(revision int64, resources map[string]*quotav1.Resource) *allocation.Config {
	c := &allocation.Config{Revision: revision, Tenants: map[string]float64{},
		Quotas: map[allocation.Flow]allocation.Quota{}}
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
			c.Quotas[allocation.Flow{Tenant: ref.Tenant, Pool: ref.ID}] = quota(r.GetQuota())
		}
	}
	slices.SortFunc(c.Pools, func(a, b allocation.Pool) int { return cmp.Compare(a.Name, b.Name) })
	return c
}

func pool(name string, p *quotav1.Pool) allocation.Pool {
	out := allocation.Pool{Name: name, Capacity: p.GetCapacity(), Alpha: cmp.Or(p.GetAlpha(), resource.DefaultAlpha)}
	if a := p.GetAdaptive(); a != nil {
		out.Adaptive = allocation.Range{Min: a.GetMin(), Max: a.GetMax()}
	}
	if p.GetSharing() == quotav1.Sharing_PROPORTIONAL {
		out.Sharing = allocation.Proportional
	}
	if p.GetGuarantee() == quotav1.Guarantee_ADDITIVE {
		out.Guarantee = fairshare.Additive
	}
	return out
}

func quota(q *quotav1.Quota) allocation.Quota {
	out := allocation.Quota{
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
