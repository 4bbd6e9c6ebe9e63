package utility

import "math"

// PrimalDual is the law as Ye and MacGregor give it, (9) and (10), for one destination of
// capacity C and sources of equal weight W. A source moves its rate x_s by the price p, and
// the price moves by the load.
//
//	x_s += k·(W − x_s·p);   p += (Σ min(x_s, o_s) − C)/R,  p ≥ 0      both from old values
//
// where o_s is the demand of source s. It is for study; the product solves for the prices exactly
// (pricing.Pool, pricing.Market).
//
// With n ≥ 2 sources, κ = k·nW/C and γ = C²/(R·nW), the loop is stable only for γ < 1 and κ < 2 (one source
// alone: κ < 4/(2 − γ)). For the paper's C = 764500 and n = 3 that is R > 1.948e11 and k < 5.10e5. Fixed (k, R)
// hold for 2 ≤ n ≤ 15 only, and x winds up when nothing is congested: the law cannot be used unchanged.
type PrimalDual struct {
	K        float64   // rate gain k > 0
	R        float64   // price divisor > 0
	Weight   float64   // W > 0
	Capacity float64   // C > 0, units/s
	Rates    []float64 // x_s, units/s, updated in place
	Offered  []float64 // o_s, units/s; nil: all sources are greedy

	price float64
}

// Price is p.
func (l *PrimalDual) Price() float64 { return l.price }

// Sent returns the rate of source s, units/s: x_s, at most its demand.
func (l *PrimalDual) Sent(s int) float64 {
	x := limited(l.Rates[s])
	if l.Offered != nil {
		x = min(x, limited(l.Offered[s]))
	}
	return x
}

// Total returns the sum of all sources' rates, units/s.
func (l *PrimalDual) Total() (sum float64) {
	for s := range l.Rates {
		sum += l.Sent(s)
	}
	return sum
}

// Step runs one round in Jacobi order. It is O(sources) and allocates nothing.
func (l *PrimalDual) Step() {
	gain, weight, sum := limited(l.K), limited(l.Weight), l.Total()
	for s, x := range l.Rates {
		x = limited(x)
		l.Rates[s] = limited(x + gain*(weight-x*l.price))
	}
	if r := limited(l.R); r > 0 {
		l.price = limited(l.price + (sum-limited(l.Capacity))/r)
	}
}

// Normalised are the loop's dimensionless gains κ and γ, see the type's comment:
// stable if 0 < κ < 2 and 0 < γ < 1, critically damped at γ = κ/4. Without capacity
// κ is +Inf, without R, weight or sources γ is.
func (l *PrimalDual) Normalised() (kappa, gamma float64) {
	total, c := limited(l.Weight)*float64(len(l.Rates)), limited(l.Capacity)
	kappa, gamma = math.Inf(1), math.Inf(1)
	if c > 0 {
		kappa = limited(l.K) * total / c
	}
	if r := limited(l.R) * total; r > 0 {
		gamma = c * c / r
	}
	return kappa, gamma
}

// limited is sane, at most 1e100.
func limited(v float64) float64 { return min(sane(v), 1e100) }

// sane maps NaN and negative numbers to 0.
func sane(v float64) float64 {
	if !(v > 0) {
		return 0
	}
	return v
}
