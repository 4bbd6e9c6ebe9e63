package config

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/fairshare"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/allocation"
	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/resource"
)

// Compile turns resources into the allocator's configuration. It ignores limits, which gateways enforce without shares.
// The API has validated the stored resources; a resource that the API would have refused (a pool without capacity) is
// granted nothing. A quota that has lapsed at the time is left out.
func Compile(revision int64, resources map[string]*quotav1.Resource, at time.Time) *allocation.Config {
	d := draft{at: at, Config: allocation.Config{Revision: revision, Tenants: map[string]float64{},
		Quotas: map[allocation.Flow]allocation.Quota{}}, tenants: true, quotas: true}
	for name, r := range resources {
		d.set(name, r)
	}
	return d.finish()
}

// With is the allocator's configuration after a step that is no reset. What the step does
// not change is shared with the one before.
func With(before *allocation.Config, b store.Batch, at time.Time) *allocation.Config {
	d := draft{at: at, Config: *before}
	d.Revision = b.Revision
	for _, r := range b.Resources {
		d.set(resource.Name(r), r)
	}
	for _, name := range b.Deleted {
		d.set(name, nil)
	}
	return d.finish()
}

// draft is a configuration that is being made. The flags say which of its tables are its own
// and not those of the configuration before.
type draft struct {
	allocation.Config
	at              time.Time
	pools           map[string]allocation.Pool // nil: none has changed
	tenants, quotas bool
}

// set takes in a resource; nil removes the one of that name.
func (d *draft) set(name string, r *quotav1.Resource) {
	ref, err := resource.Parse(name)
	if err != nil {
		return
	}
	switch ref.Kind {
	case resource.Pool:
		d.ownPools()
		if delete(d.pools, ref.ID); r != nil {
			d.pools[ref.ID] = pool(ref.ID, r.GetPool())
		}
	case resource.Tenant:
		own(&d.Tenants, &d.tenants)
		if delete(d.Tenants, ref.ID); r != nil {
			d.Tenants[ref.ID] = cmp.Or(r.GetTenant().GetWeight(), config.DefaultWeight)
		}
	case resource.Quota:
		own(&d.Quotas, &d.quotas)
		flow := allocation.Flow{Tenant: ref.Tenant, Pool: ref.ID}
		if delete(d.Quotas, flow); r != nil && !resource.IsOver(r.GetQuota(), d.at) {
			d.Quotas[flow] = quota(r.GetQuota())
		}
	}
}

// own makes a table the draft's own.
func own[K comparable, V any](table *map[K]V, is *bool) {
	if !*is {
		*table, *is = maps.Clone(*table), true
	}
}

func (d *draft) ownPools() {
	if d.pools != nil {
		return
	}
	d.pools = make(map[string]allocation.Pool, len(d.Pools)+1)
	for _, p := range d.Pools {
		d.pools[p.Name] = p
	}
}

func (d *draft) finish() *allocation.Config {
	if d.pools != nil {
		d.Pools = slices.SortedFunc(maps.Values(d.pools), func(a, b allocation.Pool) int {
			return cmp.Compare(a.Name, b.Name)
		})
	}
	return &d.Config
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
