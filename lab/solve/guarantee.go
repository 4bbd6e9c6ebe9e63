package solve

import "math"

// standing are the guarantees, before any sharing.
type standing struct {
	floor  []float64 // per tenant: its guarantee as far as it can use it, scaled
	full   []bool    // per pool: guarantees fill it, and a tenant wants more
	scaled bool      // they did not fit
}

// settle scales the guarantees to the pools, by the rule of both laws:
//
//	φ_r = min(1, C_r / Σ_i a_ri·m_i)      floor_i = m_i · min over its pools of φ_r
func (p *Problem) settle() *standing {
	s := &standing{floor: make([]float64, len(p.Tenants)), full: make([]bool, len(p.Pools))}
	for i := range p.Tenants {
		t := &p.Tenants[i]
		s.floor[i] = math.Min(t.Guaranteed, t.limit())
	}
	factor := make([]float64, len(p.Pools))
	for r, load := range p.load(s.floor) {
		factor[r] = 1
		if c := p.Pools[r].Capacity; load > c*(1+rounding) {
			factor[r], s.scaled = c/load, true
		}
	}
	for i := range p.Tenants {
		least := 1.0
		for _, u := range p.Tenants[i].Uses {
			least = math.Min(least, factor[u.Pool])
		}
		s.floor[i] *= least
	}
	load := p.load(s.floor)
	for i := range p.Tenants {
		t := &p.Tenants[i]
		for _, u := range t.Uses {
			if load[u.Pool] >= p.Pools[u.Pool].Capacity*(1-rounding) && s.floor[i] < t.limit()*(1-rounding) {
				s.full[u.Pool] = true
			}
		}
	}
	return s
}

// load returns the load of each pool with the given shares, cost units/s.
func (p *Problem) load(shares []float64) []float64 {
	load := make([]float64, len(p.Pools))
	for i := range p.Tenants {
		for _, u := range p.Tenants[i].Uses {
			load[u.Pool] += u.Cost * shares[i]
		}
	}
	return load
}
