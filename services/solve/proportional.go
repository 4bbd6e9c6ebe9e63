package solve

import (
	"fmt"
	"math"

	"github.com/titrate/titrate/control/fairshare"
	"github.com/titrate/titrate/control/pricing"
)

// proportional runs the α-fair law. A guarantee is the floor that the market knows.
// An additive one is taken off the top: the market shares what the guarantees leave
// by the utility of what comes on top of them, so that x = m + (w/q)^(1/α).
func (p *Problem) proportional(s *standing) (*outcome, error) {
	capacity, uses := p.topology()
	market, err := pricing.NewMarket(len(capacity), len(p.Tenants), uses)
	if err != nil {
		return nil, fmt.Errorf("solve: %w", err)
	}
	base := make([]float64, len(p.Tenants))
	if p.Guarantee == Additive {
		base = s.floor
		for r, load := range p.load(base) {
			capacity[r] = math.Max(0, capacity[r]-load)
		}
	}
	o := &outcome{shares: make([]float64, len(p.Tenants)), price: make([]float64, len(capacity))}
	if err := p.trade(market, capacity, p.bids(s, base), len(uses), o); err != nil {
		return nil, err
	}
	for r, price := range o.price {
		if math.IsInf(price, 1) { // nothing left, see standing.full for whether it matters
			o.price[r] = 0
		}
		o.fairRate = append(o.fairRate, math.Pow(o.price[r], -1/p.Alpha))
	}
	for i := range p.Tenants {
		o.shares[i] += base[i]
		o.holder = append(o.holder, dearest(&p.Tenants[i], o.price))
	}
	return o, nil
}

// bids are the tenants' wishes above their base. Where guarantees fill a pool its
// tenants have nothing to bid for, and without them no price runs to infinity.
func (p *Problem) bids(s *standing, base []float64) []fairshare.Demand {
	bids := p.demands()
	for i := range bids {
		b := &bids[i]
		for _, u := range p.Tenants[i].Uses {
			if s.full[u.Pool] {
				b.Cap = s.floor[i]
			}
		}
		if b.Weight == 0 {
			b.Cap = math.Min(b.Cap, s.floor[i])
		}
		b.Guaranteed = math.Max(0, s.floor[i]-base[i])
		b.Cap = math.Max(b.Guaranteed, b.Cap-base[i])
	}
	return bids
}

const (
	// mostSolves and mostWork bound the search for prices, in runs of the market and
	// in uses that they look at: seconds at most.
	mostSolves = 100
	mostWork   = 3e8
	// goodEnough is how far a pool's load may then be from its capacity. Shares are
	// always what their prices say, so they are the optimum of capacities that are
	// off by so little.
	goodEnough = 1e-7
)

// trade finds the prices. The market stops within pricing.Tolerance of a full pool,
// or after pricing.MaxCycles when pools are coupled tightly: when nearly the same
// tenants use them at nearly the same cost, or by a heavy tenant at a small alpha. A
// leap from there brings it near, so the two take turns until the digits that are
// shown are at rest.
func (p *Problem) trade(m *pricing.Market, capacity []float64, bids []fairshare.Demand, uses int, o *outcome) error {
	before, cycles := make([]float64, len(o.shares)), 0
	for run := 0; run < mostSolves && float64(cycles)*float64(uses) < mostWork; run++ {
		if run > 0 {
			p.leap(capacity, bids, o)
		}
		copy(before, o.shares)
		got := m.Solve(capacity, bids, p.Alpha, o.price, o.shares)
		if got.Converged && same(before, o.shares) {
			return nil
		}
		cycles += got.Cycles
	}
	for r, load := range p.load(o.shares) {
		excess := load - capacity[r]
		if excess > goodEnough*capacity[r] || o.price[r] > 0 && excess < -goodEnough*capacity[r] {
			return fmt.Errorf("solve: prices did not settle in %d cycles: pool %s would carry %g of %g; its tenants are coupled too tightly to another pool at alpha %g: try an alpha nearer 1, or MAX_MIN",
				cycles, p.Pools[r].Name, load, capacity[r], p.Alpha)
		}
	}
	return nil
}

// same tells whether no share moved by more than rounding.
func same(a, b []float64) bool {
	for i := range a {
		if math.Abs(a[i]-b[i]) > rounding/10*b[i] {
			return false
		}
	}
	return true
}

// dearest is the pool that takes most of the price of the tenant's path, the first
// of equals: the one that holds it.
func dearest(t *Tenant, price []float64) (pool int) {
	const equal = 1e-9
	most := -1.0
	for _, u := range t.Uses {
		if cost := u.Cost * price[u.Pool]; cost > most*(1+equal) {
			pool, most = u.Pool, cost
		}
	}
	return pool
}
