// Package solve answers what-if questions about sharing: given pools, tenants and their demands, how much does
// each tenant get, and what bounds it? It is the calculator behind `titrate-lab solve`, and runs the same laws as
// the coordinator.
//
// # Format
//
// Pools, tenants and quotas are the documents that `titrate apply` takes. The demands are one document of the
// kind Demand:
//
//	apiVersion: titrate.dev/v1alpha1
//	kind: Demand
//	spec:
//	  flows:
//	    - {tenant: web, pool: api, demand: 50}
//	    - {tenant: acme, uses: {api: 1, db: 2}}
//
// A flow is a tenant's demand for a pool, or for several pools at once. Its rates are in units of the flow per
// second; a unit takes cost a_ri (uses; 1 with pool) of pool r. Absent demand means unbounded. Without a Demand
// each tenant asks for all that it can get of each pool. A flow through several pools has the smallest
// guarantee and max that the tenant has in them, as units of the flow. It has no guarantee if one of them has
// none. Weight 0 (of a quota) has its guarantee and nothing more.
//
// # Model
//
//	cap_i = min(max_i, demand_i)       m_i = min(guaranteed_i, cap_i)
//	MAX_MIN       x_i = clip(w_i·f, m_i, cap_i), or min(m_i + w_i·f, cap_i);
//	              f the smallest fair rate of the tenant's pools   (fairshare.Network)
//	PROPORTIONAL  x_i = clip((w_i/q_i)^(1/α), m_i, cap_i), or m_i plus that;
//	              q_i = Σ_r a_ri·p_r the price of its path         (pricing.Market)
//
// Guarantees that do not fit are scaled: in pool r by C_r/Σ a_ri·m_i, a tenant by
// the smallest factor of its pools; the status says so. A pool that guarantees fill
// to the last unit has fair rate 0 and no price: no finite one buys anything.
//
// The fair rate of a pool is the rate of a tenant of weight 1 and cost 1 that uses only this pool: f_r, or
// p_r^(−1/α). The price is 1/f_r for MAX_MIN and the multiplier p_r for PROPORTIONAL; both are 0 where the pool
// does not bind.
//
// # Invariants
//
//   - Σ a_ri·x_i ≤ C_r (1e-9; 1e-7 where PROPORTIONAL settles slowly, which is between
//     pools that are nearly alike), 0 ≤ x_i ≤ cap_i, x_i ≥ m_i unless infeasible.
//   - Pareto: a tenant below its cap is of weight 0 or uses a pool that is full.
//   - Every number of a result is finite, rounded to 12 significant digits.
//   - Parse never panics, refuses what it does not understand, and says where.
//
// # Complexity
//
// Reading is linear. MAX_MIN is a few passes over the uses, PROPORTIONAL a few
// tens for coupled pools.
package solve

import "math"

// The values of boundBy that are not a pool's name, which has no capitals.
const (
	ByDemand    = "DEMAND"    // it has all that it asks for
	ByMax       = "MAX"       // it has its maximum
	ByGuarantee = "GUARANTEE" // it has only its guarantee, perhaps scaled
)

// Sharing is the law that divides a pool.
type Sharing string

// The kinds of sharing.
const (
	MaxMin       Sharing = "MAX_MIN"      // weighted max-min fairness
	Proportional Sharing = "PROPORTIONAL" // α-fair utility pricing
)

// Guarantee is the meaning of a guaranteed rate m in relation to the fair share.
type Guarantee string

// The meanings of a guarantee.
const (
	Minimum  Guarantee = "MINIMUM"  // a floor under the fair share
	Additive Guarantee = "ADDITIVE" // a base below it
)

// Problem is a set of pools shared by one law. Parse returns valid problems; Solve relies on that.
type Problem struct {
	Sharing   Sharing
	Alpha     float64 // α of Proportional, resource.MinAlpha to resource.MaxAlpha
	Guarantee Guarantee
	Pools     []Pool
	Tenants   []Tenant
}

// Pool is something of limited capacity.
type Pool struct {
	Name     string
	Capacity float64 // cost units/s, > 0
}

// Tenant is a flow, which gets a share.
type Tenant struct {
	Name       string
	Weight     float64 // ≥ 0; 0 = only the guarantee
	Guaranteed float64 // units/s, ≥ 0
	Max        float64 // units/s, ≥ 0; +Inf = unbounded
	Demand     float64 // units/s, ≥ 0; +Inf = unbounded
	Uses       []Use   // in the order of the file
}

// Use is a use of a pool: a unit of the tenant's share takes Cost of Pools[Pool].
type Use struct {
	Pool int
	Cost float64 // > 0
}

// limit is the most that the tenant can use: the smaller of max and demand.
func (t *Tenant) limit() float64 { return math.Min(t.Max, t.Demand) }
