package reaction

import "math"

// split advances by h with each reaction on its own, one after the other, after the
// inputs: the extent n of reaction r, how often it happens, solves
//
//	n = h·k_r·Π (c_i + Ψ_ir·n)^α_ir
//
// It is the last resort where Newton's method for all reactions together fails,
// as at the onset of an autocatalysis. It has order 1, is positive and conserving
// too, and always possible if every reaction uses something up; but a steady
// state is no longer exact. It reports false when a reaction that uses up
// nothing explodes.
func (v *Vessel) split(h float64) bool {
	for i := range v.c {
		v.c[i] += h * v.fed(Species(i))
	}
	m := len(v.k)
	for r := range v.k {
		n, ok := v.extent(r, h)
		if !ok {
			return false
		}
		for i := range v.c {
			v.c[i] = max(v.c[i]+v.net.psi[i*m+r]*n, 0)
		}
	}
	return true
}

// extent finds the least n at which reaction r has happened often enough, by bisection between 0 and the
// exhaustion of its reactants.
func (v *Vessel) extent(r int, h float64) (n float64, ok bool) {
	m, hi := len(v.k), math.Inf(1)
	for i, c := range v.c {
		if nu := v.net.psi[i*m+r]; nu < 0 {
			hi = min(hi, c/-nu)
		}
	}
	if math.IsInf(hi, 1) {
		for hi = 1; v.lacks(r, h, hi); hi *= 2 {
			if hi > largest {
				return 0, false
			}
		}
	}
	lo := 0.0
	for range 100 {
		if mid := (lo + hi) / 2; v.lacks(r, h, mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo, true
}

// lacks reports whether reaction r, having happened n times, would by its rate
// then have had to happen more often.
func (v *Vessel) lacks(r int, h, n float64) bool {
	due, m := h*v.k[r], len(v.k)
	for _, s := range v.net.rules[r].consumes {
		due *= max(v.c[s]+v.net.psi[int(s)*m+r]*n, 0)
	}
	return due > n
}
