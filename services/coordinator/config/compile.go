package config

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/fairshare"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/allocation"
	"github.com/titrate/titrate/services/store/resource"
)

// Compile turns resources into the allocator's configuration. It ignores limits, which gateways enforce without shares.
// The API has validated the stored resources; a resource that the API would have refused (a pool without capacity) is
// granted nothing. A quota that has lapsed at the time is left out.
func Compile(revision int64, resources map[string]*quotav1.Resource, at time.Time) *allocation.Config {
	c := compiler{resources: resources, planOf: map[string]string{}, plans: map[string]*plan{}}
	return c.whole(revision, at)
}

// compiler keeps the allocator's configuration in step with resources. Tenants of a plan have its weight and its quotas
// there, as if these were their own.
type compiler struct {
	resources map[string]*quotav1.Resource // by name, as they are after the step
	planOf    map[string]string            // by tenant; none has ""
	plans     map[string]*plan
}

// plan has what a change of a plan concerns: its tenants, and the pools of its quotas.
type plan struct{ tenants, pools map[string]bool }

func (c *compiler) plan(name string) *plan {
	if c.plans[name] == nil {
		c.plans[name] = &plan{map[string]bool{}, map[string]bool{}}
	}
	return c.plans[name]
}

// whole compiles all resources.
func (c *compiler) whole(revision int64, at time.Time) *allocation.Config {
	clear(c.planOf)
	clear(c.plans)
	empty := &allocation.Config{Tenants: map[string]float64{}, Quotas: map[allocation.Flow]allocation.Quota{}}
	return c.step(empty, revision, maps.Keys(c.resources), at)
}

// step is the configuration after the resources of some names have changed. What the step does not change is shared
// with the one before.
func (c *compiler) step(before *allocation.Config, revision int64, names iter.Seq[string], at time.Time,
) *allocation.Config {
	d := draft{compiler: c, at: at, Config: *before}
	d.Revision = revision
	var refs []resource.Ref
	for name := range names {
		if ref, err := resource.Parse(name); err == nil {
			refs = append(refs, ref)
		}
	}
	for _, ref := range refs { // first: a tenant of a plan has all of its quotas
		if ref.Kind == resource.Quota && ref.Plan != "" {
			c.plan(ref.Plan).pools[ref.ID] = true
		}
	}
	for _, ref := range refs {
		d.set(ref)
	}
	for _, ref := range refs {
		if ref.Kind == resource.Quota && ref.Plan != "" && c.resources[ref.String()] == nil {
			delete(c.plan(ref.Plan).pools, ref.ID)
		}
	}
	return d.finish()
}

// draft is a configuration that is being made. The flags say which of its tables are its own
// and not those of the configuration before.
type draft struct {
	allocation.Config
	*compiler
	at              time.Time
	pools           map[string]allocation.Pool // nil: none has changed
	tenants, quotas bool
}

// set takes in the resource of a name, which may be gone.
func (d *draft) set(ref resource.Ref) {
	switch r := d.resources[ref.String()]; {
	case ref.Kind == resource.Pool:
		d.ownPools()
		if delete(d.pools, ref.ID); r != nil {
			d.pools[ref.ID] = pool(ref.ID, r.GetPool())
		}
	case ref.Kind == resource.Plan:
		for tenant := range d.plan(ref.ID).tenants {
			d.weigh(tenant)
		}
	case ref.Kind == resource.Tenant:
		d.join(ref.ID, r.GetTenant().GetPlan())
		d.weigh(ref.ID)
	case ref.Kind == resource.Quota && ref.Plan != "":
		for tenant := range d.plan(ref.Plan).tenants {
			d.setQuota(allocation.Flow{Tenant: tenant, Pool: ref.ID})
		}
	case ref.Kind == resource.Quota:
		d.setQuota(allocation.Flow{Tenant: ref.Tenant, Pool: ref.ID})
	}
}

// join makes a tenant one of a plan, "" being none.
func (d *draft) join(tenant, name string) {
	before := d.planOf[tenant]
	if before == name {
		return
	}
	var left, joined map[string]bool // pools
	if delete(d.planOf, tenant); name != "" {
		d.planOf[tenant] = name
		d.plan(name).tenants[tenant] = true
		joined = d.plan(name).pools
	}
	if before != "" {
		delete(d.plan(before).tenants, tenant)
		left = d.plan(before).pools
	}
	for _, pools := range []map[string]bool{left, joined} {
		for pool := range pools {
			d.setQuota(allocation.Flow{Tenant: tenant, Pool: pool})
		}
	}
}

// weigh sets the weight of a tenant: its own, or its plan's.
func (d *draft) weigh(tenant string) {
	own(&d.Tenants, &d.tenants)
	r := d.resources[resource.Ref{Kind: resource.Tenant, ID: tenant}.String()]
	if r == nil {
		delete(d.Tenants, tenant)
		return
	}
	of := d.resources[resource.Ref{Kind: resource.Plan, ID: d.planOf[tenant]}.String()]
	d.Tenants[tenant] = cmp.Or(r.GetTenant().GetWeight(), of.GetPlan().GetWeight(), config.DefaultWeight)
}

// setQuota sets the quota of a flow: the tenant's own, or its plan's.
func (d *draft) setQuota(flow allocation.Flow) {
	own(&d.Quotas, &d.quotas)
	delete(d.Quotas, flow)
	for _, ref := range []resource.Ref{{Kind: resource.Quota, Tenant: flow.Tenant, ID: flow.Pool},
		{Kind: resource.Quota, Plan: d.planOf[flow.Tenant], ID: flow.Pool}} {
		if r := d.resources[ref.String()]; r != nil && !resource.IsOver(r.GetQuota(), d.at) {
			d.Quotas[flow] = quota(r.GetQuota())
			return
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
