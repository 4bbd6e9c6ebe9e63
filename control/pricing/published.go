package pricing

// Published is the primal-dual law as Ye and MacGregor give it, for one
// destination of capacity C and sources of equal weight W, for study: the
// product solves exactly ([Pool], [Market]).
//
//	x_s += k·(W − x_s·p);   p += (Σx − C)/R,  p ≥ 0       both from old values
//
// With n sources, κ = k·nW/C and γ = C²/(R·nW), the loop is stable only for
// γ < 1 and κ < 2: for the paper's C = 764500 and n = 3 that is R > 1.948e11
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

// Step runs one round in Jacobi order.
func (l *Published) Step() {
	sum := 0.0
	for s, x := range l.Rates {
		sum += x
		l.Rates[s] = max(0, x+l.K*(l.Weight-x*l.price))
	}
	l.price = max(0, l.price+(sum-l.Capacity)/l.R)
}

// Normalised are the loop's dimensionless gains κ and γ, see the type's
// comment: stable if 0 < κ < 2 and 0 < γ < 1, critically damped at γ = κ/4.
func (l *Published) Normalised() (kappa, gamma float64) {
	total := l.Weight * float64(len(l.Rates))
	return l.K * total / l.Capacity, l.Capacity * l.Capacity / (l.R * total)
}
