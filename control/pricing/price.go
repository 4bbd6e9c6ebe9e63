// Package pricing gives a pool's capacity a price and shares it by utility.
//
// # Model (Ye and MacGregor; Kelly; Mo and Walrand)
//
// Tenant i values a rate x by W·x^(1−α)/(1−α) (W·ln x at α = 1). Maximising
// the sum within the capacities C_r gives every pool a price p_r ≥ 0, and
//
//	x_i = clip((W_i/q_i)^(1/α), lo_i, cap_i),   q_i = Σ_r a_ri·p_r    MINIMUM
//	x_i = min(lo_i + (W_i/q_i)^(1/α), cap_i)                          ADDITIVE
//	p_r·(C_r − Σ a_ri·x_i) = 0                  (complementary slackness)
//
// α = 1 is proportional fairness, α → ∞ is max-min. On one pool of capacity μ
// with cost c per request every α is a fill with weight (W/c)^(1/α) and
// p = f^(−α): see [Pool]. Several pools are solved by exact prices in turn and
// Newton steps for all: see [Market]. A price is reported in either mode of sharing;
// for max-min it is 1/f: see [MaxMin]. The paper's own iteration is for study and
// outside of control/, in papers/utility.
//
// # Rules for bad numbers
//
// NaN and negative weights, bounds and capacities count as 0; α must be
// positive and finite, anything else counts as 1.
package pricing

import (
	"math"

	"github.com/titrate/titrate/control/fairshare"
)

// MaxMin is the price of a pool shared by max-min fairness at fair rate f (units/s per
// weight). It is 1/f when saturated, 0 when slack (f = +Inf), +Inf when the guarantees
// alone use it up (f = 0).
func MaxMin(f float64) float64 {
	if math.IsInf(f, 1) {
		return 0
	}
	if !(f > 0) {
		return math.Inf(1)
	}
	return 1 / f
}

// Pool shares one pool α-fairly, exactly: a fill with the effective weights
// W^(1/α). A tenant's Guaranteed means what g says, as in [Market]: a floor, or a
// base on top of which utility counts. Shares go to shares (one per tenant) and effective
// weights to scratch (same length, overwritten; may be nil when α = 1); warm is the last
// round's FairRate. The result's Price is f^(−α), in utility per unit of rate; its FairRate
// is f.
func Pool(capacity float64, tenants []fairshare.Demand, g fairshare.Guarantee, alpha, warm float64,
	scratch []fairshare.Demand, shares []float64) fairshare.Result {
	alpha = Exponent(alpha)
	weighted := tenants
	if alpha != 1 {
		weighted = scratch[:len(tenants)]
		for i, t := range tenants {
			if t.Weight > 0 {
				t.Weight = max(math.Pow(t.Weight, 1/alpha), fairshare.MinWeight)
			}
			weighted[i] = t
		}
	}
	r := fairshare.Fill(capacity, weighted, g, warm, shares)
	r.Price = math.Pow(r.FairRate, -alpha)
	return r
}

// Exponent is α as it is used: 1 unless positive and finite.
func Exponent(alpha float64) float64 {
	if !(alpha > 0) || math.IsInf(alpha, 1) {
		return 1
	}
	return alpha
}
