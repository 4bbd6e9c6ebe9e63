package pricing

import (
	"fmt"
	"math"

	"github.com/titrate/titrate/control/fairshare"
)

// Market shares several pools α-fairly, exactly, for a coordinator that knows
// the demands. It cycles over the pools and gives each the price at which its
// load meets its capacity, the other prices fixed: coordinate ascent on the
// dual, which converges because utilities are strictly concave. Build it once
// per topology; Solve allocates nothing. Not safe for concurrent use.
//
//	x_i(q) = clip((W_i/q)^(1/α), lo_i, cap_i)        q_i = Σ_r a_ri·p_r
//	p_r    : Σ_i a_ri·x_i = C_r, or p_r = 0 if the load at 0 fits
//
// The price equation is solved by Newton's method in the logarithms of load
// and price, in which a pool alone is a straight line, within a bracket.
// One cycle costs O(uses · steps), about 4 steps; cycles grow with the coupling
// of the pools (1 for separate ones, tens for a chain).
type Market struct {
	pools   []offer
	tenants []bidder
}

// offer is one pool and its uses.
type offer struct {
	index    []int32
	cost     []float64
	capacity float64
	price    float64
	closed   bool // capacity 0: its tenants get nothing
}

// bidder is one tenant's utility, bounds and the price of its path.
type bidder struct{ weight, lo, hi, path, share float64 }

// Outcome tells how a Solve went.
type Outcome struct {
	Cycles    int
	Converged bool             // every pool within Tolerance
	Status    fairshare.Status // Infeasible if guarantees were scaled
}

// unbounded is the guarantee, in units/s, beyond which a tenant asks for all
// that its pools have.
const unbounded = 1e100

const (
	// Tolerance is the relative error of a pool's load at which Solve stops.
	Tolerance = 1e-10
	// MaxCycles bounds the work of a Solve.
	MaxCycles = 5000
)

// NewMarket builds the market of the given numbers of pools and tenants. It
// fails if a use names an unknown pool or tenant or its cost is out of range.
func NewMarket(pools, tenants int, uses []fairshare.Use) (*Market, error) {
	m := &Market{pools: make([]offer, pools), tenants: make([]bidder, tenants)}
	if _, err := fairshare.NewNetwork(pools, tenants, uses); err != nil {
		return nil, fmt.Errorf("pricing: bad topology: %w", err)
	}
	for _, u := range uses {
		p := &m.pools[u.Pool]
		p.index, p.cost = append(p.index, int32(u.Tenant)), append(p.cost, u.Cost)
	}
	return m, nil
}

// Solve shares the capacities among the demands, whose Guaranteed is a floor.
// prices holds a guess (0 = none) and receives the prices, one per pool, +Inf
// for a pool without capacity; shares receives the shares, one per tenant. It
// panics if a length does not match.
func (m *Market) Solve(capacity []float64, demands []fairshare.Demand, alpha float64, prices, shares []float64) (o Outcome) {
	if len(capacity) != len(m.pools) || len(prices) != len(m.pools) || len(demands) != len(m.tenants) || len(shares) != len(m.tenants) {
		panic(fmt.Sprintf("pricing: Solve got %d capacities, %d prices, %d demands, %d shares for %d pools, %d tenants",
			len(capacity), len(prices), len(demands), len(shares), len(m.pools), len(m.tenants)))
	}
	alpha = Exponent(alpha)
	m.reset(capacity, demands, prices)
	if m.scaleGuarantees() {
		o.Status = fairshare.Infeasible
	}
	for o.Cycles < MaxCycles && !o.Converged {
		o.Cycles++
		m.reprice()
		for r := range m.pools {
			m.clear(&m.pools[r], alpha)
		}
		o.Converged = m.settled(alpha)
	}
	for r := range m.pools {
		if prices[r] = m.pools[r].price; m.pools[r].closed {
			prices[r] = math.Inf(1)
		}
	}
	for i := range m.tenants {
		shares[i] = m.tenants[i].share
	}
	return o
}

// reset takes over the problem.
func (m *Market) reset(capacity []float64, demands []fairshare.Demand, prices []float64) {
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
		if p.closed = p.capacity == 0; p.closed {
			p.price = 0
			for _, i := range p.index {
				m.tenants[i].lo, m.tenants[i].hi = 0, 0
			}
		}
	}
}

// scaleGuarantees makes the floors fit every pool and reports whether it had
// to: a tenant takes the smallest factor of its pools.
func (m *Market) scaleGuarantees() (scaled bool) {
	for i := range m.tenants {
		m.tenants[i].share = 1
	}
	for r := range m.pools {
		p, floor := &m.pools[r], 0.0
		for k, i := range p.index {
			floor += p.cost[k] * m.tenants[i].lo
		}
		if floor <= p.capacity*(1+1e-12) {
			continue
		}
		scaled = true
		for _, i := range p.index {
			m.tenants[i].share = min(m.tenants[i].share, p.capacity/floor)
		}
	}
	for i := range m.tenants {
		t := &m.tenants[i]
		t.lo *= t.share
		if t.weight == 0 {
			t.hi = t.lo
		}
	}
	return scaled
}

// reprice sums every tenant's path price afresh, so that rounding does not
// pile up.
func (m *Market) reprice() {
	for i := range m.tenants {
		m.tenants[i].path = 0
	}
	for r := range m.pools {
		p := &m.pools[r]
		for k, i := range p.index {
			m.tenants[i].path += p.cost[k] * p.price
		}
	}
}

// settled writes the shares at the present prices and reports whether every
// pool is within Tolerance of capacity, or below it at price 0.
func (m *Market) settled(alpha float64) bool {
	m.reprice()
	for i := range m.tenants {
		t := &m.tenants[i]
		t.share = t.want(t.path, alpha)
	}
	for r := range m.pools {
		p, load := &m.pools[r], 0.0
		for k, i := range p.index {
			load += p.cost[k] * m.tenants[i].share
		}
		excess := load - p.capacity
		if excess > Tolerance*p.capacity || p.price > 0 && excess < -Tolerance*p.capacity {
			return false
		}
	}
	return true
}

// want is the tenant's share at path price q.
func (t *bidder) want(q, alpha float64) float64 {
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
