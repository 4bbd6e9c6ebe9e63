package reaction

import (
	"fmt"
	"math"
)

const (
	maxNewton   = 30 // iterations before another start is tried
	maxLeads    = 12 // other starts before a step is halved
	maxHalvings = 4  // halvings before the reactions are advanced one by one
)

// Step advances the vessel by h seconds with one backward Euler step. If Newton's method does not find its
// positive solution the step is halved, up to four times, and in the end made reaction by reaction. A reaction
// that uses up nothing and makes more of its reactant (X → 2X) may explode within h: Step then leaves the
// vessel as it was and returns an error.
func (v *Vessel) Step(h float64) error {
	if h = clean(h); h == 0 {
		return nil
	}
	copy(v.work.before, v.c)
	if !v.halve(h, 0) {
		copy(v.c, v.work.before)
		return fmt.Errorf("reaction: no positive state %g s ahead: the network explodes, take a smaller step", h)
	}
	return nil
}

// halve advances by h in one step, or in two steps of half the length.
func (v *Vessel) halve(h float64, depth int) bool {
	if v.euler(h) {
		return true
	}
	if depth == maxHalvings {
		return v.split(h)
	}
	first := v.halve(h/2, depth+1)
	return first && v.halve(h/2, depth+1)
}

// euler solves F(x) = x − c − h·Ψ·v(x) = 0 for x ≥ 0, sets c to x and reports whether
// it could. Where Newton's method fails for h, it is applied to shorter steps first:
// the solution for each starts the search for the next longer one.
func (v *Vessel) euler(h float64) bool {
	w := &v.work
	copy(w.c0, v.c)
	v.patankar(h)
	if !v.converge(h) {
		copy(w.guess, v.c)
		for done, stride, tries := 0.0, h/4, 0; done < h; tries++ {
			copy(w.x, w.guess)
			to := min(done+stride, h)
			switch {
			case v.converge(to):
				copy(w.guess, w.x)
				done, stride = to, 2*stride
			case tries < maxLeads:
				stride /= 4
			default:
				return false
			}
		}
	}
	copy(v.c, w.x)
	v.repair(w.c0)
	return true
}

// repair subtracts rounding errors of each conserved sum from the largest amount in the sum: flows may be many
// orders larger than the remaining amounts.
func (v *Vessel) repair(before []float64) {
	n := len(v.c)
	for range 8 { // sums that share a species disturb each other, each time less
		for l := range v.net.pivots {
			law, excess, at := v.net.laws[l*n:(l+1)*n], 0.0, 0
			for i, c := range law {
				excess += c * (v.c[i] - before[i])
				if c != 0 && (law[at] == 0 || v.c[i] > v.c[at]) {
					at = i
				}
			}
			v.c[at] = max(v.c[at]-excess/law[at], 0)
		}
	}
}

// converge runs Newton's method on F from x. Every step keeps the conserved
// sums exactly, as w·Ψ = 0 makes w·F linear; only the clamp at 0 disturbs them,
// and the next full step restores them.
func (v *Vessel) converge(h float64) bool {
	w, last := &v.work, math.Inf(1)
	for range maxNewton {
		v.residual(h)
		clear(w.jac)
		v.jacobian(w.jac, w.x, -h)
		for i := range w.x {
			w.jac[i*len(w.x)+i]++
		}
		if !w.newton(w.gross) {
			return false
		}
		worst := w.correct()
		if converged(worst, last) {
			return true
		}
		last = worst
	}
	return false
}

// converged judges by two successive corrections, relative to the amounts.
// Convergence is quadratic: a correction of 1e-10 leaves an error of 1e-20.
// Close to a limit, where amounts are ill conditioned, a solution is as good as
// it gets when corrections, small already, stop shrinking.
func converged(worst, last float64) bool {
	return worst <= 1e-10 || worst <= 1e-5 && worst >= last
}

// patankar writes the start of the iteration: production as of now, losses in
// proportion to the unknown, x = (c + h·P)/(1 + h·L). It is positive.
func (v *Vessel) patankar(h float64) {
	w, m := &v.work, len(v.k)
	for i, c := range w.c0 {
		gain, loss := 0.0, 0.0
		for r := range v.k {
			switch nu := v.net.psi[i*m+r]; {
			case nu > 0:
				gain += nu * v.flux(r, w.c0)
			case nu < 0 && c > 0:
				loss -= nu * v.flux(r, w.c0) / c
			}
		}
		w.x[i] = (c + h*(gain+v.fed(Species(i)))) / (1 + h*loss)
	}
}

// fed is the sum of the inputs into a species.
func (v *Vessel) fed(s Species) (sum float64) {
	for j, f := range v.net.feeds {
		if f.into == s {
			sum += v.p[j]
		}
	}
	return sum
}

// residual writes F(x), the extents h·v(x) and the gross flow through each
// amount, against which its rounding is to be measured.
func (v *Vessel) residual(h float64) {
	w, m := &v.work, len(v.k)
	for r := range v.k {
		w.extent[r] = h * v.flux(r, w.x)
	}
	for i, x := range w.x {
		in := h * v.fed(Species(i))
		sum, gross := x-w.c0[i]-in, x+w.c0[i]+in
		for r, e := range w.extent {
			sum -= v.net.psi[i*m+r] * e
			gross += math.Abs(v.net.psi[i*m+r]) * e
		}
		w.f[i], w.gross[i] = sum, gross
	}
}

// newton solves jac·d = f for the correction d, in place of f, with amount j in
// units of size[j] and every equation in units of its largest term. Without
// that the rounding of a large amount swamps a small one in the elimination.
func (w *workspace) newton(size []float64) bool {
	n := len(w.x)
	for i := range n {
		row, largest := w.jac[i*n:(i+1)*n], 0.0
		for j := range row {
			row[j] *= unit(size[j])
			largest = max(largest, math.Abs(row[j]))
		}
		largest = unit(largest)
		for j := range row {
			row[j] /= largest
		}
		w.f[i] /= largest
	}
	if !solve(w.jac, w.f, math.Abs) {
		return false
	}
	for j := range w.f {
		w.f[j] *= unit(size[j])
	}
	return true
}

// unit is a usable scale: 1 where nothing flows.
func unit(v float64) float64 {
	if v > 0 {
		return v
	}
	return 1
}

// correct applies the Newton step −f, but lets no amount fall below a tenth of itself, and
// returns the largest correction relative to its amount. That is +Inf if an amount was
// limited, from below or above. Rounding of the flows through an amount does not count.
func (w *workspace) correct() (worst float64) {
	for i, d := range w.f {
		lost := max(1e-15*w.gross[i], 1e-200)
		next := w.x[i] - d
		switch {
		case next > largest: // beyond it all is rounding, which would pass for a solution
			w.x[i], worst = largest, math.Inf(1)
		case next >= 0.1*w.x[i]:
			w.x[i] = next
		case math.Abs(d) <= lost:
			w.x[i] = max(next, 0)
		default:
			w.x[i], worst = 0.1*w.x[i], math.Inf(1)
		}
		if !(math.Abs(d) <= lost) {
			worst = max(worst, math.Abs(d)/w.x[i]) // NaN stays NaN: no convergence
		}
	}
	return worst
}

// Advance lets span seconds pass in steps. Their local error, estimated by comparing one
// step with two halves, stays within tolerance (such as 1e-3) of each amount, or of 1e-6 of
// the largest one. It keeps the two halves: their extrapolation would be of order 2 and
// could be negative. It returns the number of steps taken.
func (v *Vessel) Advance(span, tolerance float64) (steps int, err error) {
	span, tolerance = clean(span), max(clean(tolerance), 1e-9)
	w := &v.work
	for h := span / 64; span > 0; steps++ {
		h = min(h, span)
		copy(w.start, v.c)
		if err := v.Step(h); err != nil {
			return steps, err
		}
		copy(w.coarse, v.c)
		copy(v.c, w.start)
		for range 2 {
			if err := v.Step(h / 2); err != nil {
				return steps, err
			}
		}
		miss := apart(w.coarse, v.c) / tolerance
		if miss <= 1 || h < 1e-12 {
			span -= h
		} else {
			copy(v.c, w.start)
		}
		h *= min(max(0.9/math.Sqrt(max(miss, 1e-9)), 0.2), 4)
	}
	return steps, nil
}

// apart is the largest difference relative to the amounts, or to 1e-6 of the
// largest one where an amount is less.
func apart(a, b []float64) (worst float64) {
	floor := 1e-300
	for _, c := range b {
		floor = max(floor, 1e-6*c)
	}
	for i := range a {
		worst = max(worst, math.Abs(a[i]-b[i])/max(b[i], floor))
	}
	return worst
}
