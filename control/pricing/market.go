package pricing

import (
	"fmt"
	"math"

	"github.com/titrate/titrate/control/fairshare"
)

// Market shares several pools α-fairly, exactly, for a coordinator that knows
// the demands. Build it once per topology; Solve allocates nothing. Not safe
// for concurrent use.
//
//	x_i(q) = m_i + clip((W_i/q)^(1/α), lo_i − m_i, cap_i − m_i),  q_i = Σ_r a_ri·p_r
//	p_r    : Σ_i a_ri·x_i = C_r, or p_r = 0 if the load at 0 fits
//
// with m_i = 0 where guarantees are floors ([fairshare.Minimum]) and m_i = lo_i where
// they are bases ([fairshare.Additive]). The market then shares what the guarantees
// leave, by the utility of what comes on top.
//
// Two kinds of steps alternate; both descend the convex dual problem.
//
//   - A cycle sets the price of each pool in turn so that its load equals its capacity, the
//     other prices fixed. It uses Newton's method in the logarithms of load and price, in
//     which a pool alone is a straight line, within a bracket. A cycle never fails. Cycles
//     converge slowly where two pools have nearly the same tenants, or a heavy tenant with
//     a small α uses both.
//   - A leap changes all prices by Newton's step for all loads at once, which converges
//     fast for such pools: see leap.
//
// A cycle costs O(uses · steps), about 4 steps; a leap O(Σ_i (uses of i)² +
// pools³). Separate pools take one cycle and no leap, coupled ones 3 to 20 of
// each: see BenchmarkMarket.
type Market struct {
	pools   []offer
	tenants []bidder
	uses    []use   // of all tenants, in rows
	first   []int32 // where the row of a tenant begins
	coupled bool    // some tenant uses two pools
	newton  newton
}

// offer is one pool and its uses.
type offer struct {
	index    []int32
	cost     []float64
	capacity float64 // less the guarantees that are bases
	price    float64
	shut     bool // it has no price to find: guarantees fill it, or it is unbounded
	wanted   bool // it is shut, and a tenant wants more of it
}

// bidder is one tenant's utility, bounds and the price of its path. Bounds and
// want are on top of base.
type bidder struct{ weight, base, lo, hi, path, want float64 }

// use is one entry of a tenant's row.
type use struct {
	pool int32
	cost float64
}

// Outcome reports how well a Solve converged.
type Outcome struct {
	Cycles, Leaps int
	// Converged: every pool is within Tolerance of its capacity, or below it at
	// price 0, and the shares no longer change.
	Converged bool
	// Excess is the largest distance of a pool's load from its capacity, relative to the
	// capacity. The shares always follow from the prices: they are the optimum for
	// capacities that differ by that much.
	Excess float64
	Status fairshare.Status // Infeasible if guarantees were scaled
}

const (
	// Tolerance is the relative error of a pool's load at which Solve stops.
	Tolerance = 1e-10
	// MaxCycles bounds the work of a Solve.
	MaxCycles = 1000

	// unbounded is the guarantee, in units/s, beyond which a tenant asks for all
	// that its pools have.
	unbounded = 1e100
	// rounding is the relative error that a sum over many tenants may carry.
	rounding = 1e-12
)

// NewMarket builds the market of the given numbers of pools and tenants. It
// fails if a use names an unknown pool or tenant or its cost is out of range.
func NewMarket(pools, tenants int, uses []fairshare.Use) (*Market, error) {
	if _, err := fairshare.NewNetwork(pools, tenants, uses); err != nil {
		return nil, fmt.Errorf("pricing: bad topology: %w", err)
	}
	m := &Market{pools: make([]offer, pools), tenants: make([]bidder, tenants),
		uses: make([]use, len(uses)), first: make([]int32, tenants+1)}
	for _, u := range uses {
		p := &m.pools[u.Pool]
		p.index, p.cost = append(p.index, int32(u.Tenant)), append(p.cost, u.Cost)
		m.first[u.Tenant+1]++
	}
	for i := range tenants {
		m.coupled = m.coupled || m.first[i+1] > 1
		m.first[i+1] += m.first[i]
	}
	at := append([]int32(nil), m.first...)
	for _, u := range uses {
		m.uses[at[u.Tenant]] = use{int32(u.Pool), u.Cost}
		at[u.Tenant]++
	}
	if m.coupled {
		m.newton.size(pools)
	}
	return m, nil
}

// Solve shares the capacities among the demands, whose Guaranteed means what g says. prices
// holds a guess (0 = none) and receives the prices, one per pool. A price is +Inf if
// nothing of the pool is for sale because guarantees fill it or it has no capacity. shares
// receives the shares, one per tenant. It panics if a length does not match.
func (m *Market) Solve(capacity []float64, demands []fairshare.Demand, g fairshare.Guarantee, alpha float64,
	prices, shares []float64) (o Outcome) {
	if len(capacity) != len(m.pools) || len(prices) != len(m.pools) || len(demands) != len(m.tenants) ||
		len(shares) != len(m.tenants) {
		panic(fmt.Sprintf("pricing: Solve got %d capacities, %d prices, %d demands, %d shares for %d pools, %d tenants",
			len(capacity), len(prices), len(demands), len(shares), len(m.pools), len(m.tenants)))
	}
	alpha = Exponent(alpha)
	o.Status = m.reset(capacity, demands, g, prices)
	m.trade(alpha, &o)
	for r := range m.pools {
		if prices[r] = m.pools[r].price; m.pools[r].wanted {
			prices[r] = math.Inf(1)
		}
	}
	for i := range m.tenants {
		shares[i] = m.tenants[i].base + m.tenants[i].want
	}
	return o
}

// trade changes the prices until every pool's load fits and the shares no longer change.
// The loads alone are not enough: those of pools with nearly the same tenants are right
// long before the shares are. The shares are final when another leap and cycle no longer
// halve their change.
func (m *Market) trade(alpha float64, o *Outcome) {
	last := math.Inf(1)
	for o.Cycles < MaxCycles {
		o.Cycles++
		m.reprice()
		for r := range m.pools {
			m.clear(&m.pools[r], alpha)
		}
		moved := m.bid(alpha)
		if o.Excess = m.excess(); o.Excess <= Tolerance {
			if !m.coupled || moved <= rounding || o.Leaps > 0 && moved > last/2 {
				o.Converged = true
				return
			}
			last = moved
		}
		if m.coupled && m.leap(alpha) {
			o.Leaps++
		}
	}
}

// reprice recomputes every tenant's path price, so that rounding errors do not
// accumulate.
func (m *Market) reprice() {
	for i := range m.tenants {
		m.tenants[i].path = m.path(i)
	}
}

// path is q_i, the price of what a unit of tenant i's share uses.
func (m *Market) path(i int) (q float64) {
	for _, u := range m.row(i) {
		q += u.cost * m.pools[u.pool].price
	}
	return q
}

// row returns the uses of tenant i.
func (m *Market) row(i int) []use { return m.uses[m.first[i]:m.first[i+1]] }

// bid computes what every tenant wants at the present prices, and returns the largest
// change, relative to the tenant's share.
func (m *Market) bid(alpha float64) (moved float64) {
	m.reprice()
	for i := range m.tenants {
		t := &m.tenants[i]
		before := t.want
		if t.want = t.at(t.path, alpha); t.want != before {
			moved = max(moved, math.Abs(t.want-before)/max(t.base+t.want, before))
		}
	}
	return moved
}

// excess is the largest distance of a pool from its condition: load equal to the capacity,
// or below it at price 0.
func (m *Market) excess() (worst float64) {
	for r := range m.pools {
		p, load := &m.pools[r], 0.0
		if p.shut {
			continue
		}
		for k, i := range p.index {
			load += p.cost[k] * m.tenants[i].want
		}
		e := load/p.capacity - 1
		if p.price > 0 {
			e = math.Abs(e)
		}
		worst = max(worst, e)
	}
	return worst
}

// at returns the rate that the tenant wants on top of its base at path price q.
func (t *bidder) at(q, alpha float64) float64 {
	if !(q > 0) || t.hi <= t.lo {
		return t.hi
	}
	x := t.weight / q
	switch alpha {
	case 1:
	case 2:
		x = math.Sqrt(x)
	default:
		x = math.Pow(x, 1/alpha)
	}
	return min(max(x, t.lo), t.hi)
}

// sane maps NaN and negative numbers to 0.
func sane(v float64) float64 {
	if !(v > 0) {
		return 0
	}
	return v
}
