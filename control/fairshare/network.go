package fairshare

import (
	"container/heap"
	"fmt"
	"math"
)

// Use says that each unit of a tenant's share costs Cost units of a pool.
type Use struct {
	Tenant, Pool int
	Cost         float64 // in [MinCost, MaxCost]
}

// What limits a tenant when no pool does, see [Allocation.Bottleneck].
const (
	ByCap       = -1 // its demand or maximum
	ByGuarantee = -2 // its guarantee is all it gets
)

// Allocation is the outcome of Network.Solve. Its slices belong to the caller
// and are reused if long enough.
type Allocation struct {
	Shares     []float64 // per tenant, units/s of the tenant's own unit
	Bottleneck []int     // per tenant: the pool that limits it, ByCap or ByGuarantee
	FairRate   []float64 // per pool: f_r, +Inf where it does not bind
	Used       []float64 // per pool: Σ cost·share
	Status     Status    // Infeasible if guarantees had to be scaled somewhere
}

// Network shares several pools among tenants that may use more than one, by
// weighted max-min fairness: no share can rise without lowering one whose
// share per weight is no larger. Build it once per topology with [NewNetwork];
// it holds the working memory, so Solve allocates nothing. Not safe for
// concurrent use.
//
//	f_r for every pool from a fill of its tenants; heap by f_r
//	pop the smallest: if dirty, fill it again on its unfrozen tenants from f_r,
//	                  else freeze its tenants at their share at f_r
//	                       and mark their other pools dirty
//
// f_r never decreases: a tenant is frozen at the smallest f of its pools, so its other
// pools have at least what they counted on for the rest. Each pool freezes once, and is
// filled again only when it comes first in the heap. The work is O(Σ uses · passes) where
// no pool is filled twice, and a few times that in practice.
//
// A pool whose guarantees do not fit scales them by μ_r/Σc·m'; a tenant's guarantee is
// scaled by the smallest factor of its pools.
type Network struct {
	pools []pool
	// Per tenant, in compressed rows: the pools it uses.
	first []int32
	where []int32

	demands []Demand // sanitised, guarantees scaled
	frozen  []bool
	shares  []float64
	order   []int32 // the heap
}

// pool is the working state of one pool.
type pool struct {
	index, liveIndex []int32 // its tenants; those not frozen yet
	cost, liveCost   []float64
	left             float64 // capacity that frozen tenants do not use
	f                float64
	dirty, done      bool
}

// NewNetwork builds the network of the given numbers of pools and tenants. It
// fails if a use names an unknown tenant or pool, repeats a pair, or has a cost
// outside [MinCost, MaxCost].
func NewNetwork(pools, tenants int, uses []Use) (*Network, error) {
	n := &Network{pools: make([]pool, pools), first: make([]int32, tenants+1), where: make([]int32, len(uses)),
		demands: make([]Demand, tenants), frozen: make([]bool, tenants), shares: make([]float64, tenants)}
	for i, u := range uses {
		if u.Tenant < 0 || u.Tenant >= tenants || u.Pool < 0 || u.Pool >= pools {
			return nil, fmt.Errorf("fairshare: use %d: tenant %d of %d, pool %d of %d: no such tenant or pool", i,
				u.Tenant,
				tenants, u.Pool, pools)
		}
		if !(u.Cost >= MinCost && u.Cost <= MaxCost) {
			return nil, fmt.Errorf("fairshare: use %d (tenant %d, pool %d): cost %v, want %g to %g", i, u.Tenant,
				u.Pool, u.Cost,
				MinCost, MaxCost)
		}
		n.first[u.Tenant+1]++
		p := &n.pools[u.Pool]
		p.index, p.cost = append(p.index, int32(u.Tenant)), append(p.cost, u.Cost)
	}
	for i := range tenants {
		n.first[i+1] += n.first[i]
	}
	at := append([]int32(nil), n.first...)
	for i, u := range uses {
		for _, seen := range n.where[n.first[u.Tenant]:at[u.Tenant]] {
			if int(seen) == u.Pool {
				return nil, fmt.Errorf("fairshare: use %d: tenant %d uses pool %d twice", i, u.Tenant, u.Pool)
			}
		}
		n.where[at[u.Tenant]] = int32(u.Pool)
		at[u.Tenant]++
	}
	for r := range n.pools {
		p := &n.pools[r]
		p.liveIndex, p.liveCost = make([]int32, 0, len(p.index)), make([]float64, 0, len(p.index))
		n.order = append(n.order, int32(r))
	}
	return n, nil
}

// Solve shares the capacities (one per pool) among the demands (one per
// tenant). warm holds last round's fair rates, or is nil. It panics if a
// length does not match the network.
func (n *Network) Solve(capacity []float64, demands []Demand, g Guarantee, warm []float64, out *Allocation) {
	if len(capacity) != len(n.pools) || len(demands) != len(n.demands) || warm != nil && len(warm) != len(n.pools) {
		panic(fmt.Sprintf("fairshare: Solve got %d capacities, %d demands, %d warm rates for %d pools, %d tenants",
			len(capacity), len(demands), len(warm), len(n.pools), len(n.demands)))
	}
	n.reset(capacity, demands, out)
	if n.scaleGuarantees(g, out) {
		out.Status = Infeasible
	}
	for r := range n.pools {
		guess := 0.0
		if warm != nil {
			guess = warm[r]
		}
		n.pools[r].f = n.fill(r, g, guess)
	}
	heap.Init((*byFairRate)(n))
	for len(n.order) > 0 {
		r := int(n.order[0])
		p := &n.pools[r]
		switch {
		case p.done:
			n.finish(capacity, g, out)
			return
		case p.dirty:
			n.shed(p)
			p.f = max(p.f, n.fill(r, g, p.f))
		default:
			n.freeze(r, g, out)
		}
		heap.Fix((*byFairRate)(n), 0)
	}
	n.finish(capacity, g, out)
}

// reset starts a round: nothing frozen, all of each capacity left.
func (n *Network) reset(capacity []float64, demands []Demand, out *Allocation) {
	copy(n.demands, demands)
	clear(n.frozen)
	for r := range n.pools {
		p := &n.pools[r]
		p.liveIndex, p.liveCost = append(p.liveIndex[:0], p.index...), append(p.liveCost[:0], p.cost...)
		p.left, p.dirty, p.done = usable(capacity[r]), false, false
		for k, i := range p.index {
			if demands[i].Guaranteed > unbounded { // all that its tightest pool has
				n.demands[i].Guaranteed = min(n.demands[i].Guaranteed, p.left/p.cost[k])
			}
		}
	}
	out.Status = OK
	out.Shares, out.Bottleneck = sized(out.Shares, len(demands)), sized(out.Bottleneck, len(demands))
	out.FairRate, out.Used = sized(out.FairRate, len(capacity)), sized(out.Used, len(capacity))
}

// sized is s with length n, reallocated only if too short.
func sized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// scaleGuarantees makes the guarantees fit every pool and reports whether it
// had to change one.
func (n *Network) scaleGuarantees(g Guarantee, out *Allocation) bool {
	scaled := false
	for i := range out.Shares {
		out.Shares[i] = 1
	}
	for r := range n.pools {
		p := &n.pools[r]
		s := n.solver(p, g)
		if e := s.extent(); e.floor > p.left*(1+rounding) {
			scaled = true
			for _, i := range p.index {
				out.Shares[i] = min(out.Shares[i], p.left/e.floor)
			}
		}
	}
	for i, factor := range out.Shares {
		if d := &n.demands[i]; factor < 1 {
			shape := g.shape(d, unbounded)
			d.Guaranteed = shape.lo * factor
		}
	}
	return scaled
}

// solver is the fill of a pool on its live tenants.
func (n *Network) solver(p *pool, g Guarantee) solver {
	return solver{tenants: n.demands, index: p.liveIndex, cost: p.liveCost, guarantee: g, capacity: p.left}
}

// fill is the fair rate of pool r on its live tenants.
func (n *Network) fill(r int, g Guarantee, warm float64) float64 {
	s := n.solver(&n.pools[r], g)
	return s.solve(warm).FairRate
}

// shed subtracts what frozen tenants use from a dirty pool.
func (n *Network) shed(p *pool) {
	kept := 0
	for k, i := range p.liveIndex {
		if n.frozen[i] {
			if !math.IsInf(p.left, 1) {
				p.left -= p.liveCost[k] * n.shares[i]
			}
			continue
		}
		p.liveIndex[kept], p.liveCost[kept] = i, p.liveCost[k]
		kept++
	}
	p.liveIndex, p.liveCost = p.liveIndex[:kept], p.liveCost[:kept]
	p.left, p.dirty = max(0, p.left), false
}

// freeze fixes the shares of the live tenants of pool r at its fair rate.
func (n *Network) freeze(r int, g Guarantee, out *Allocation) {
	p := &n.pools[r]
	p.done = true
	for _, i := range p.liveIndex {
		shape := g.shape(&n.demands[i], p.left)
		n.frozen[i], n.shares[i] = true, shape.at(p.f)
		out.Bottleneck[i] = r
		switch shape.bound(p.f) {
		case BoundCap:
			out.Bottleneck[i] = ByCap
		case BoundGuarantee:
			out.Bottleneck[i] = ByGuarantee
		}
		for _, other := range n.where[n.first[i]:n.first[i+1]] {
			n.pools[other].dirty = !n.pools[other].done
		}
	}
}

// finish fixes the shares of tenants that use no pool and writes the pools' figures.
func (n *Network) finish(capacity []float64, g Guarantee, out *Allocation) {
	for i := range n.demands {
		if n.first[i] == n.first[i+1] {
			shape := g.shape(&n.demands[i], math.Inf(1))
			n.shares[i], out.Bottleneck[i] = shape.hi, ByCap
		}
		out.Shares[i] = n.shares[i]
	}
	for r := range n.pools {
		p := &n.pools[r]
		out.FairRate[r], out.Used[r] = p.f, 0
		for k, i := range p.index {
			out.Used[r] += p.cost[k] * n.shares[i]
		}
	}
}

// byFairRate orders the pools for container/heap: frozen ones last, then by
// fair rate, then by number. Only Init and Fix are used.
type byFairRate Network

func (h *byFairRate) Len() int      { return len(h.order) }
func (h *byFairRate) Swap(i, j int) { h.order[i], h.order[j] = h.order[j], h.order[i] }
func (h *byFairRate) Push(any)      {}
func (h *byFairRate) Pop() any      { return nil }
func (h *byFairRate) Less(i, j int) bool {
	a, b := &h.pools[h.order[i]], &h.pools[h.order[j]]
	switch {
	case a.done != b.done:
		return b.done
	case a.f != b.f:
		return a.f < b.f
	default:
		return h.order[i] < h.order[j]
	}
}
