package pricing

import (
	"math"

	"github.com/titrate/titrate/control/fairshare"
)

// reset installs the problem: the bounds, guarantees that fit, and what they leave.
//
//	φ_r = min(1, C_r / Σ_i a_ri·m_i)      m_i *= min over its pools of φ_r
//
// This one rule, and what [fairshare.Fill] and [fairshare.Network] make of the
// same numbers, is what a guarantee means wherever α-fairness is used.
func (m *Market) reset(capacity []float64, demands []fairshare.Demand, g fairshare.Guarantee,
	prices []float64) fairshare.Status {
	for i, d := range demands {
		t := bidder{weight: min(sane(d.Weight), fairshare.MaxWeight), lo: sane(d.Guaranteed), hi: sane(d.Cap)}
		t.lo = min(t.lo, t.hi)
		m.tenants[i] = t
	}
	for r := range m.pools {
		p := &m.pools[r]
		p.capacity, p.price = sane(capacity[r]), sane(prices[r])
		for k, i := range p.index {
			if t := &m.tenants[i]; t.lo > unbounded { // all that its tightest pool has
				t.lo = min(t.lo, p.capacity/p.cost[k])
			}
		}
		if p.capacity > unbounded {
			p.capacity = math.Inf(1)
		}
		if p.price > unbounded {
			p.price = 0
		}
	}
	status := m.scale()
	m.shut()
	for i := range m.tenants {
		if t := &m.tenants[i]; t.weight == 0 {
			t.hi = t.lo
		}
	}
	if g == fairshare.Additive {
		m.subtractBases()
	}
	return status
}

// scale makes the guarantees fit every pool: a tenant's guarantee is scaled by the
// smallest factor of its pools.
func (m *Market) scale() (status fairshare.Status) {
	for i := range m.tenants {
		m.tenants[i].want = 1 // the factor, for now
	}
	for r := range m.pools {
		p := &m.pools[r]
		floor := m.floor(p)
		if floor <= p.capacity*(1+rounding) {
			continue
		}
		status = fairshare.Infeasible
		for _, i := range p.index {
			m.tenants[i].want = min(m.tenants[i].want, p.capacity/floor)
		}
	}
	for i := range m.tenants {
		m.tenants[i].lo *= m.tenants[i].want
		m.tenants[i].want = 0
	}
	return status
}

// floor is the part of a pool's capacity that the guarantees use.
func (m *Market) floor(p *offer) (sum float64) {
	for k, i := range p.index {
		sum += p.cost[k] * m.tenants[i].lo
	}
	return sum
}

// shut excludes pools that guarantees fill, unbounded ones and those without tenants. A
// tenant of a full pool gets its guarantee and does not bid anywhere: otherwise the price
// of that pool would rise without bound.
func (m *Market) shut() {
	for r := range m.pools {
		p := &m.pools[r]
		full := m.floor(p) >= p.capacity*(1-rounding) && !math.IsInf(p.capacity, 1)
		p.shut, p.wanted = full || math.IsInf(p.capacity, 1) || len(p.index) == 0, p.capacity == 0
		for _, i := range p.index {
			t := &m.tenants[i]
			p.wanted = p.wanted || full && t.lo < t.hi*(1-rounding)
		}
	}
	for r := range m.pools {
		p := &m.pools[r]
		if !p.shut {
			continue
		}
		p.price = 0
		for _, i := range p.index {
			if !math.IsInf(p.capacity, 1) {
				m.tenants[i].hi = m.tenants[i].lo
			}
		}
	}
}

// subtractBases turns the guarantees into bases and subtracts them from the capacities.
func (m *Market) subtractBases() {
	for r := range m.pools {
		p := &m.pools[r]
		p.capacity = max(0, p.capacity-m.floor(p))
	}
	for i := range m.tenants {
		t := &m.tenants[i]
		t.base, t.lo, t.hi = t.lo, 0, t.hi-t.lo
	}
}
