package solve

import (
	"fmt"
	"math"

	"github.com/titrate/titrate/control/pricing"
	"github.com/titrate/titrate/services/wording"
)

// goodEnough is the relative difference between a pool's load and its capacity that is accepted where prices do
// not come to rest. Shares always follow from their prices, so they are the optimum for capacities that differ
// by this much.
const goodEnough = 1e-7

// proportional runs the α-fair law.
func (p *Problem) proportional() (*outcome, error) {
	capacity, uses := p.topology()
	market, err := pricing.NewMarket(len(capacity), len(p.Tenants), uses)
	if err != nil {
		return nil, fmt.Errorf("solve: %w", err)
	}
	o := &outcome{shares: make([]float64, len(p.Tenants)), price: make([]float64, len(capacity))}
	got := market.Solve(capacity, p.demands(), p.meaning(), p.Alpha, o.price, o.shares)
	if !(got.Excess <= goodEnough) {
		return nil, p.unsettled(o, got)
	}
	for r, price := range o.price {
		if math.IsInf(price, 1) { // nothing left, see standing.full for whether it matters
			o.price[r] = 0
		}
		o.fairRate = append(o.fairRate, math.Pow(o.price[r], -1/p.Alpha))
	}
	for i := range p.Tenants {
		o.holder = append(o.holder, dearest(&p.Tenants[i], o.price))
	}
	return o, nil
}

// unsettled names the pool that did not clear.
func (p *Problem) unsettled(o *outcome, got pricing.Outcome) error {
	worst, by := 0, 0.0
	load := p.load(o.shares)
	for r, pool := range p.Pools {
		if off := math.Abs(load[r]/pool.Capacity - 1); off > by && (o.price[r] > 0 || load[r] > pool.Capacity) {
			worst, by = r, off
		}
	}
	return fmt.Errorf("solve: prices did not settle in %d cycles: pool %s would carry %s of %s; its tenants are "+
		"coupled too tightly to another pool at alpha %g: try an alpha nearer 1, or MAX_MIN",
		got.Cycles, p.Pools[worst].Name, wording.Rough(load[worst], 3), wording.Number(p.Pools[worst].Capacity),
		p.Alpha)
}

// dearest returns the pool with the largest part of the price of the tenant's path, the first of equals: this
// pool bounds the tenant.
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
