package pricing

import "math"

// Published is the primal-dual law as Ye and MacGregor give it, for one
// destination of capacity C and sources of equal weight W, for study: the
// product solves exactly ([Pool], [Market]).
//
//	x_s += k·(W − x_s·p);   p += (Σx − C)/R,  p ≥ 0       both from old values
//
// With n ≥ 2 sources, κ = k·nW/C and γ = C²/(R·nW), the loop is stable only for
// γ < 1 and κ < 2 (one source alone: κ < 4/(2 − γ)): for the paper's C = 764500 and n = 3 that is R > 1.948e11
// and k < 5.10e5. Fixed (k, R) hold for 2 ≤ n ≤ 15 only, and x winds up when
// nothing is congested: it cannot be used as it is.
type Published struct {
	K        float64   // rate gain k > 0
	R        float64   // price divisor > 0
	Weight   float64   // W > 0
	Capacity float64   // C > 0, units/s
	Rates    []float64 // x_s, units/s, updated in place

	price float64
}

// Price is p.
func (l *Published) Price() float64 { return l.price }

// Step runs one round in Jacobi order. It is O(sources) and allocates nothing.
func (l *Published) Step() {
	gain, weight, sum := limited(l.K), limited(l.Weight), 0.0
	for s, x := range l.Rates {
		x = limited(x)
		sum += x
		l.Rates[s] = limited(x + gain*(weight-x*l.price))
	}
	if r := limited(l.R); r > 0 {
		l.price = limited(l.price + (sum-limited(l.Capacity))/r)
	}
}

// Normalised are the loop's dimensionless gains κ and γ, see the type's comment:
// stable if 0 < κ < 2 and 0 < γ < 1, critically damped at γ = κ/4. Without capacity
// κ is +Inf, without R, weight or sources γ is.
func (l *Published) Normalised() (kappa, gamma float64) {
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

// limited is sane, bounded.
func limited(v float64) float64 { return min(sane(v), unbounded) }
