package utility

import (
	"math"

	"github.com/titrate/titrate/control/fairshare"
	"github.com/titrate/titrate/control/pricing"
)

// Quote is the price of one pool in the scale-free form of Ye and MacGregor's
// primal-dual law, for pools and tenants that only see each other's price and
// load. A coordinator that knows the demands solves exactly: pricing.Pool, pricing.Market.
//
//	x_i  = clip((W_i/q_i)^(1/α), lo_i, cap_i),  q_i = Σ_r a_ri·p_r     [Buy]
//	p_r *= exp(γ·α·clip((y_r − C_r)/C_r, −1, 1)),  p_r ≥ p_min         Step
//
// The excess is clipped before the gain is applied, so that a pool at many times its
// capacity moves the price by exp(γ·α) per round at most. Clipping γ·excess instead would
// allow exp(α) whatever γ is.
//
// [PrimalDual] adds (y − C)/R to the price: its gain depends on capacity, weights
// and the number of sources, and none fits all. Here the price moves by a ratio,
// by the relative excess, and the exponent α undoes that of the demand. What
// the loop then sees is
//
//	∂ln y_r/∂ln p_s = −(1/α)·Σ_i (a_ri·x_i/y_r)·(a_si·p_s/q_i)
//
// a matrix −M/α whose rows sum to 1 at most and which is similar to a symmetric positive
// one. The eigenvalues of M are in [0,1] for any topology, cost, weight and capacity.
// With loads that are D rounds old every mode is e[k+1] = e[k] − γ·λ·e[k−D], λ ≤ 1, hence
// stable for
//
//	γ < 2·sin(π/(2·(2D+1)))          [StableGain]
//	γ = D^D/(D+1)^(D+1)              [BestGain]: fastest without overshoot at λ = 1
//
// The source's rate update x += κ(D(q) − x) has κ = 1 here: a tenant buys at
// once, and a smaller κ is only more delay. Modes with small λ, pools that share
// nearly all of their tenants, settle slowly: after 1/(γλ) rounds.
//
// The floor p_min keeps a slack pool's price from vanishing, from where no ratio
// brings it back: it takes ln(p/p_min)/(γ·α) rounds at twice the capacity. While
// it holds, tenants are asked p_min although the pool is slack; choose it so that
// their caps bind, such as 1e-3 of the usual price. Then Step reports 0.
//
// Bad numbers: a load that is NaN or negative counts as 0, a pool without
// capacity as fully overloaded; γ outside (0, 4] counts as 1/4, the best for a
// delay of one round.
type Quote struct {
	// Gain is γ; see StableGain. Larger is faster and survives less delay.
	Gain float64
	// Alpha is α > 0, the same for all tenants; see pricing.Exponent.
	Alpha float64
	// Floor is p_min > 0, utility per unit of rate; not positive counts as
	// 1e-9. A price that Start did not set starts there.
	Floor float64

	price float64
}

// Start sets the price, such as the last one known, not below Floor.
func (q *Quote) Start(price float64) { q.price = max(sane(price), q.floor()) }

// Price is p_r as tenants are to be asked it.
func (q *Quote) Price() float64 { return max(q.price, q.floor()) }

// Step moves the price by a load (Σ a_ri·x_i) and the capacity, both in units of the pool
// per second, and returns the price to report. It is 0 when the pool is slack at the floor.
func (q *Quote) Step(load, capacity float64) float64 {
	load, capacity = sane(load), sane(capacity)
	excess := 1.0
	switch {
	case math.IsInf(capacity, 1):
		excess = -1
	case capacity > 0:
		excess = min(load/capacity-1, 1)
	case load == 0:
		excess = 0
	}
	next := q.Price() * math.Exp(q.gain()*pricing.Exponent(q.Alpha)*excess)
	q.price = min(max(next, q.floor()), math.MaxFloat64)
	if q.price == q.floor() && excess < 0 {
		return 0
	}
	return q.price
}

func (q *Quote) floor() float64 {
	if f := sane(q.Floor); f > 0 && !math.IsInf(f, 1) {
		return f
	}
	return 1e-9
}

func (q *Quote) gain() float64 {
	if q.Gain > 0 && q.Gain <= 4 {
		return q.Gain
	}
	return BestGain(1)
}

// Buy returns the rate that a tenant takes at path price q = Σ_r a_ri·p_r. Its Guaranteed is lo, its Cap the
// upper bound; at price 0 it takes the whole Cap. A tenant of weight 0 takes its guarantee.
func Buy(d fairshare.Demand, q, alpha float64) float64 {
	weight, most := min(sane(d.Weight), fairshare.MaxWeight), sane(d.Cap)
	least := min(sane(d.Guaranteed), most)
	switch {
	case weight == 0:
		return least
	case !(q > 0):
		return most
	}
	x := math.Pow(weight/q, 1/pricing.Exponent(alpha))
	return min(max(x, least), most)
}

// StableGain is the least γ that is not stable for every topology when loads
// are delay ≥ 0 rounds old.
func StableGain(delay int) float64 {
	return 2 * math.Sin(math.Pi/(2*(2*float64(max(delay, 0))+1)))
}

// BestGain is the γ at which the fastest mode has a double real root.
func BestGain(delay int) float64 {
	d := float64(max(delay, 0))
	return math.Pow(d, d) / math.Pow(d+1, d+1)
}
