package coordinator

import (
	"cmp"
	"context"
	"math"
	"path"
	"slices"
	"time"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/allocation"
	"github.com/titrate/titrate/services/coordinator/delivery"
	"github.com/titrate/titrate/services/coordinator/election"
	"github.com/titrate/titrate/services/quota"
)

// Rehearse says what a change would do to the shares, for the demand of now. Coordinators that share
// the pools rehearse their own each.
func (l *live) Rehearse(ctx context.Context, resources []*quotav1.Resource, deleted []string,
	suppose []*quotav1.SupposedDemand) (*quota.Rehearsal, error) {
	change := &controlv1.RehearseQuestion{Resources: resources, Deleted: deleted, Suppose: suppose}
	out, err := l.ownRehearse(change)
	s := l.sharing()
	if err != nil || s == nil {
		return out, err
	}
	question := &controlv1.AskRequest{Question: &controlv1.AskRequest_Rehearse{Rehearse: change}}
	err = l.coordinator.peers.each(ctx, s, question, func(_ *election.Sharer, a *controlv1.AskResponse) {
		out.Pools = append(out.Pools, a.GetRehearse().GetPools()...)
		out.Flows = append(out.Flows, a.GetRehearse().GetFlows()...)
	})
	slices.SortFunc(out.Pools, func(a, b *quotav1.PoolEffect) int { return cmp.Compare(a.GetPool(), b.GetPool()) })
	slices.SortFunc(out.Flows, func(a, b *quotav1.FlowEffect) int {
		return cmp.Or(cmp.Compare(a.GetPool(), b.GetPool()), cmp.Compare(a.GetTenant(), b.GetTenant()))
	})
	return out, err
}

// ownRehearse rehearses the pools that are led here.
func (l *live) ownRehearse(c *controlv1.RehearseQuestion) (*quota.Rehearsal, error) {
	now, next := l.coordinator.configuration.Rehearse(c.GetResources(), c.GetDeleted(), time.Now())
	supposed := map[allocation.Flow]float64{}
	for _, s := range c.GetSuppose() {
		supposed[allocation.Flow{Tenant: path.Base(s.GetTenant()), Pool: path.Base(s.GetPool())}] = s.GetDemand()
	}
	if s := l.sharing(); s != nil {
		now, next = now.Part(s.Leads), next.Part(s.Leads)
	}
	before, after := l.coordinator.loop.Rehearse(time.Now(), now, next, supposed)
	if before == nil {
		return nil, cmp.Or(l.leads(), errSettling)
	}
	return rehearsal(now, next, before, after), nil
}

// rehearsal compares what a round decides under two configurations.
func rehearsal(now, next *allocation.Config, before, after *allocation.Outcome) *quota.Rehearsal {
	r := &quota.Rehearsal{}
	for _, name := range poolNames(before, after) {
		r.Pools = append(r.Pools, poolEffect(name, now, next, before, after))
	}
	for _, key := range flowKeys(before, after) {
		r.Flows = append(r.Flows, flowEffect(key, now, next, before, after))
	}
	return r
}

func poolNames(outcomes ...*allocation.Outcome) (names []string) {
	for _, o := range outcomes {
		for i := range o.Pools {
			names = append(names, o.Pools[i].Pool)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func flowKeys(outcomes ...*allocation.Outcome) (keys []allocation.Flow) {
	for _, o := range outcomes {
		for i := range o.Flows {
			keys = append(keys, o.Flows[i].Flow)
		}
	}
	slices.SortFunc(keys, func(a, b allocation.Flow) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Tenant, b.Tenant))
	})
	return slices.Compact(keys)
}

func poolEffect(name string, now, next *allocation.Config, before, after *allocation.Outcome) *quotav1.PoolEffect {
	e := &quotav1.PoolEffect{Pool: "pools/" + name}
	if p := before.Pool(name); p != nil {
		e.Demand, e.CapacityBefore, e.PriceBefore, e.FairRateBefore = p.Demand, p.Capacity, p.Price, p.FairRate
	}
	if p := after.Pool(name); p != nil {
		e.Demand, e.CapacityAfter, e.PriceAfter, e.FairRateAfter = p.Demand, p.Capacity, p.Price, p.FairRate
	}
	e.GuaranteedBefore, e.GuaranteedAfter = guaranteed(now, name), guaranteed(next, name)
	return e
}

// guaranteed is the sum of the guarantees of a pool.
func guaranteed(c *allocation.Config, pool string) (sum float64) {
	for key, q := range c.Quotas {
		if key.Pool == pool {
			sum += q.Guaranteed
		}
	}
	return sum
}

func flowEffect(key allocation.Flow, now, next *allocation.Config, before, after *allocation.Outcome,
) *quotav1.FlowEffect {
	was, is := flowIn(key, now, before), flowIn(key, next, after)
	e := &quotav1.FlowEffect{
		Tenant: "tenants/" + key.Tenant, Pool: "pools/" + key.Pool, DemandBefore: was.Demand, DemandAfter: is.Demand,
		ShareBefore: was.Share, ShareAfter: is.Share,
		BoundBefore: delivery.Bounds[was.Bound], BoundAfter: delivery.Bounds[is.Bound],
		OverBefore: math.Max(was.Demand-was.Share, 0), OverAfter: math.Max(is.Demand-is.Share, 0),
	}
	return e
}

// flowIn returns the share of a flow in an outcome: its own, or the pool's idle share. A flow of a tenant or a pool
// that the configuration does not have gets nothing.
func flowIn(key allocation.Flow, c *allocation.Config, o *allocation.Outcome) allocation.FlowShare {
	if f := o.Flow(key); f != nil {
		return *f
	}
	_, known := c.Tenants[key.Tenant]
	if p := o.Pool(key.Pool); p != nil && (known || key.Tenant == allocation.Unknown) {
		return c.Idle(key, p.IdleShare)
	}
	return allocation.FlowShare{Flow: key}
}
