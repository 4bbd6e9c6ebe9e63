package reaction

// Vessel is one running instance of a network. Not safe for concurrent use.
//
//	paper        here
//	c, k, p      c, k, p     amounts, rate constants, input rates
//	v(c, p)      Flux
type Vessel struct {
	net     *Network
	c, k, p []float64
	work    workspace
}

// workspace is the solver's memory, allocated once.
type workspace struct {
	c0, before, start, coarse, guess, x, f, gross, jac, extent []float64
}

// NewVessel returns a vessel without any molecules, with the rate constants of
// the kit and all inputs closed.
func NewVessel(n *Network) *Vessel {
	s, m := len(n.species), len(n.rules)
	v := &Vessel{net: n, c: make([]float64, s), k: make([]float64, m), p: make([]float64, len(n.feeds))}
	for r, rule := range n.rules {
		v.k[r] = rule.rate
	}
	w := &v.work
	for _, p := range []*[]float64{&w.c0, &w.before, &w.start, &w.coarse, &w.guess, &w.x, &w.f, &w.gross} {
		*p = make([]float64, s)
	}
	w.jac, w.extent = make([]float64, s*s), make([]float64, m)
	return v
}

// Network returns the network that runs here.
func (v *Vessel) Network() *Network { return v.net }

// Amount returns how much there is of s.
func (v *Vessel) Amount(s Species) float64 { return v.c[s] }

// SetAmount sets the amount of s.
func (v *Vessel) SetAmount(s Species, amount float64) { v.c[s] = clean(amount) }

// Rate returns the rate constant of r.
func (v *Vessel) Rate(r Reaction) float64 { return v.k[r] }

// SetRate changes the rate constant of r in this vessel.
func (v *Vessel) SetRate(r Reaction, k float64) { v.k[r] = clean(k) }

// SetInput opens an input to rate p, molecules/s.
func (v *Vessel) SetInput(in Input, p float64) { v.p[in] = clean(p) }

// Flux returns v_r, how often reaction r happens per second at the present
// amounts.
func (v *Vessel) Flux(r Reaction) float64 { return v.flux(int(r), v.c) }

func (v *Vessel) flux(r int, c []float64) float64 {
	f := v.k[r]
	for _, s := range v.net.rules[r].consumes {
		f *= c[s]
	}
	return f
}

// slope is ∂v_r/∂c_i. The reactant lists are short, so the product is formed
// afresh; dividing by c_i would fail at 0.
func (v *Vessel) slope(r int, i Species, c []float64) float64 {
	sum := 0.0
	list := v.net.rules[r].consumes
	for skip, s := range list {
		if s != i {
			continue
		}
		term := v.k[r]
		for j, other := range list {
			if j != skip {
				term *= c[other]
			}
		}
		sum += term
	}
	return sum
}

// jacobian adds scale·Ψ·∂v/∂c at c to a.
func (v *Vessel) jacobian(a, c []float64, scale float64) {
	n, m := len(v.c), len(v.k)
	for r := range v.k {
		list := v.net.rules[r].consumes
		for j, s := range list {
			if repeated(list[:j], s) {
				continue
			}
			d := scale * v.slope(r, s, c)
			for i := range n {
				a[i*n+int(s)] += v.net.psi[i*m+r] * d
			}
		}
	}
}

func repeated(list []Species, s Species) bool {
	for _, t := range list {
		if t == s {
			return true
		}
	}
	return false
}
