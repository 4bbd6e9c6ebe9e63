package scenario

import (
	"math"
	"slices"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/services/coordinator/allocation"
)

// Config is the configuration as gateways have it, a copy of its own: later events
// do not change it.
func (s *Scenario) Config(revision int64) *config.Config {
	c := &config.Config{Revision: revision, Seed: s.Seed*0x9e3779b97f4a7c15 | 1}
	for _, p := range s.Pools {
		c.Pools = append(c.Pools, config.Pool{Name: p.Name, Capacity: p.configured(), Adaptive: p.Upstream.Start > 0,
			Queue: p.Queue, OnLoss: p.OnLoss, HardExpiry: p.HardExpiry})
	}
	for _, t := range s.Tenants {
		to := config.Tenant{Name: t.Name, Weight: t.Weight, Limits: slices.Clone(t.Limits)}
		for _, q := range t.Quotas {
			to.Quotas = append(to.Quotas, config.Quota{Pool: q.Pool, Guaranteed: q.Guaranteed, Max: q.Max})
		}
		c.Tenants = append(c.Tenants, to)
	}
	return c
}

// configured is the capacity that the configuration says.
func (p *Pool) configured() float64 {
	if p.Upstream.Start > 0 {
		return p.Upstream.Start
	}
	return p.Capacity
}

// Allocation is the scenario's configuration as the coordinator has it.
func (s *Scenario) Allocation(revision int64) *allocation.Config {
	c := &allocation.Config{Revision: revision, Tenants: map[string]float64{},
		Quotas: map[allocation.Flow]allocation.Quota{}}
	for _, p := range s.Pools {
		c.Pools = append(c.Pools, allocation.Pool{Name: p.Name, Capacity: p.configured(),
			Adaptive: allocation.Range{Min: p.Upstream.Min, Max: p.Upstream.Max},
			Sharing:  p.Sharing, Alpha: p.Alpha, Guarantee: p.Guarantee})
	}
	for _, t := range s.Tenants {
		c.Tenants[t.Name] = t.Weight
		for _, q := range t.Quotas {
			c.Quotas[allocation.Flow{Tenant: t.Name, Pool: q.Pool}] = allocation.Quota{Guaranteed: q.Guaranteed,
				Max: q.Max, Weight: q.Weight}
		}
	}
	return c
}

// Quota is what holds for a tenant in a pool.
func (s *Scenario) Quota(t *Tenant, pool string) Quota {
	q := Quota{Pool: pool, Max: math.Inf(1), Weight: t.Weight}
	if i := slices.IndexFunc(t.Quotas, func(q Quota) bool { return q.Pool == pool }); i >= 0 {
		q = t.Quotas[i]
		if math.IsNaN(q.Weight) {
			q.Weight = t.Weight
		}
	}
	return q
}

// Clone copies what events change.
func (s *Scenario) Clone() *Scenario {
	c := *s
	c.Pools = slices.Clone(s.Pools)
	c.Tenants = slices.Clone(s.Tenants)
	for i := range c.Tenants {
		c.Tenants[i].Limits = slices.Clone(c.Tenants[i].Limits)
	}
	return &c
}

// Change puts a change of a limit or a pool in force; false if e is none.
func (s *Scenario) Change(e *Event) bool {
	switch e.Kind {
	case ChangeLimit:
		for i := range s.Tenants {
			for j := range s.Tenants[i].Limits {
				if l := &s.Tenants[i].Limits[j]; s.Tenants[i].Name == e.Tenant && l.Name == e.Limit {
					rb := config.RateBurst{Rate: e.Rate, Burst: e.Burst}.WithDefaults()
					l.Rate, l.Burst = rb.Rate, rb.Burst
				}
			}
		}
	case ChangeCapacity:
		for i := range s.Pools {
			if s.Pools[i].Name == e.Pool {
				s.Pools[i].Capacity = e.Rate
			}
		}
	default:
		return false
	}
	return true
}
