package judge

import (
	"math"

	"github.com/titrate/titrate/control/fairshare"
)

// Pool is a pool shared by tenants.
type Pool struct {
	Capacity  float64             // cost units/s
	Guarantee fairshare.Guarantee // of max-min fairness; with Alpha it is a minimum
	Alpha     float64             // shares are α-fair, by weight^(1/α); 0: max-min fair by weight
}

// Tenant is one tenant's demand for a pool, and its bounds, cost units/s.
type Tenant struct {
	Weight     float64
	Guaranteed float64
	Max        float64 // of its quota; +Inf without one
	Demand     float64 // within its limits
}

// Asks is the demand within the quota.
func (t Tenant) Asks() float64 { return min(t.Max, t.Demand) }

// Entitlement is the due share of a tenant in a pool.
type Entitlement struct {
	Share float64 // cost units/s
	Held  bool    // by the pool or its guarantee: it asks for more
}

// Entitle divides the pool exactly.
func (p Pool) Entitle(tenants []Tenant) []Entitlement {
	guarantee := p.Guarantee
	if p.Alpha > 0 {
		guarantee = fairshare.Minimum
	}
	demands, shares := make([]fairshare.Demand, len(tenants)), make([]float64, len(tenants))
	for i, t := range tenants {
		w := t.Weight
		if p.Alpha > 0 && w > 0 {
			w = math.Pow(w, 1/p.Alpha)
		}
		demands[i] = fairshare.Demand{Weight: w, Guaranteed: t.Guaranteed, Cap: t.Asks()}
	}
	result := fairshare.Fill(p.Capacity, demands, guarantee, 0, shares)
	all := make([]Entitlement, len(tenants))
	for i := range all {
		all[i] = Entitlement{Share: shares[i], Held: result.Bound(demands[i]) != fairshare.BoundCap}
	}
	return all
}
