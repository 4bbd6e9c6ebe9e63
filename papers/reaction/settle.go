package reaction

import (
	"fmt"
	"math"
)

// Settle moves the vessel to the steady state that its present amounts lead to (L2: production equals
// consumption of every species). Backward Euler steps of growing length come close to it, then Newton's method
// for Ψ·v = 0 together with the conserved sums finishes. If there is none, such as under an overload whose
// backlog grows without bound, the vessel stays as it was and the error names a species that keeps changing.
func (v *Vessel) Settle() error {
	start := append([]float64(nil), v.c...)
	h := 1e-3
	for range 60 {
		if v.euler(h) {
			h = min(4*h, 1e9)
		} else {
			h /= 8
		}
	}
	if !v.polish(start) {
		s, worst := v.imbalance()
		copy(v.c, start)
		return fmt.Errorf("reaction: no steady state: %s still changes by %g of its flow", v.net.species[s], worst)
	}
	return nil
}

// polish solves Ψ·v(x) = 0 for x ≥ 0. The balance of one species per conserved
// sum follows from the others and gives way to the sum, as it was at the start.
func (v *Vessel) polish(start []float64) bool {
	w, n := &v.work, len(v.c)
	copy(w.x, v.c)
	last := math.Inf(1)
	for range 2 * maxNewton {
		v.balances()
		clear(w.jac)
		v.jacobian(w.jac, w.x, 1)
		for l, p := range v.net.pivots {
			v.restore(v.net.laws[l*n:(l+1)*n], p, start)
		}
		if !w.newton(w.x) {
			return false
		}
		clear(w.gross) // amounts must converge to their own size here
		worst := w.correct()
		if converged(worst, last) {
			copy(v.c, w.x)
			return true
		}
		last = worst
	}
	return false
}

// balances writes Ψ·v(x) and the gross flows.
func (v *Vessel) balances() {
	w, m := &v.work, len(v.k)
	for i := range w.x {
		w.f[i] = v.fed(Species(i))
		w.gross[i] = w.f[i]
		for r := range v.k {
			flow := v.net.psi[i*m+r] * v.flux(r, w.x)
			w.f[i] += flow
			w.gross[i] += math.Abs(flow)
		}
	}
}

// restore puts the equation law·x = law·start into row p.
func (v *Vessel) restore(law []float64, p int, start []float64) {
	w, n := &v.work, len(v.c)
	copy(w.jac[p*n:(p+1)*n], law)
	w.f[p], w.gross[p] = 0, 0
	for i, c := range law {
		w.f[p] += c * (w.x[i] - start[i])
		w.gross[p] += math.Abs(c) * (w.x[i] + start[i])
	}
}

// imbalance returns the species whose net flow is the largest part of its
// gross flow, and that part.
func (v *Vessel) imbalance() (at Species, worst float64) {
	w := &v.work
	copy(w.x, v.c)
	v.balances()
	for i, net := range w.f {
		if g := w.gross[i]; g > 0 && math.Abs(net)/g > worst {
			at, worst = Species(i), math.Abs(net)/g
		}
	}
	return at, worst
}
