package fairshare

import "math"

// solver finds the fair rate at which the tenants use up the capacity.
//
//	F(f) = Σ c·clip(off + w·f, lo, hi) = μ
//
// F is continuous, piecewise linear and non-decreasing. The step is Newton's: on the
// linear piece that contains f, with A the tenants whose share changes with f there,
//
//	f' = (μ − Σ_{∉A} c·x − Σ_A c·off) / Σ_A c·w
//
// On the last piece f' is the exact root, and the next pass gives the same f' bit for
// bit: the iteration stops. ADDITIVE pieces are concave, so the iteration rises from the
// left and never overshoots. MINIMUM pieces are neither convex nor concave: a step that
// leaves the bracket is replaced by a bisection. Where F is flat at μ, f is the
// largest such value, so that f is continuous in μ from above.
//
//	symbol  here
//	mu      capacity          base   lo (MINIMUM), lo = off (ADDITIVE)
//	A       moving in tally   f0     warm
type solver struct {
	tenants   []Demand
	index     []int32   // the tenants that count; nil = all
	cost      []float64 // cost per entry of index; nil = 1
	guarantee Guarantee
	capacity  float64
}

// rounding is the relative error that a sum over many tenants may carry.
const rounding = 1e-12

// extent holds the sums that do not depend on the fair rate: Σ c·lo, Σ c·hi, Σ c·w.
type extent struct{ floor, cap, weight float64 }

// tally is one pass over the tenants at a fair rate.
type tally struct {
	fixed float64 // Σ c·x of tenants that do not move with f, + Σ_A c·off
	slope float64 // Σ_A c·w
}

// entry is tenant k of the pool and its cost.
func (s *solver) entry(k int) (*Demand, float64) {
	if s.index == nil {
		return &s.tenants[k], 1
	}
	return &s.tenants[s.index[k]], s.cost[k]
}

func (s *solver) len() int {
	if s.index == nil {
		return len(s.tenants)
	}
	return len(s.index)
}

// solve finds the fair rate from the guess warm.
func (s *solver) solve(warm float64) Result {
	r := Result{guarantee: s.guarantee, capacity: s.capacity, scale: 1, Passes: 1}
	e := s.extent()
	switch {
	case e.floor > s.capacity*(1+rounding):
		r.Status, r.Price, r.scale = Infeasible, math.Inf(1), s.capacity/e.floor
	case e.cap <= s.capacity || e.weight == 0:
		r.FairRate = math.Inf(1)
	default:
		r.FairRate = s.root(e, warm, &r.Passes)
		r.Price = 1 / r.FairRate
	}
	return r
}

// extent sums what does not depend on the fair rate.
func (s *solver) extent() (e extent) {
	for k := range s.len() {
		t, c := s.entry(k)
		p := s.guarantee.shape(t, s.capacity)
		e.floor += c * p.lo
		e.cap += c * p.hi
		if p.hi > p.lo {
			e.weight += c * p.slope
		}
	}
	return e
}

// tally sums the pieces at fair rate f, with the slope to the right of f.
func (s *solver) tally(f float64) (t tally) {
	for k := range s.len() {
		d, c := s.entry(k)
		p := s.guarantee.shape(d, s.capacity)
		switch v := p.off + p.slope*f; {
		case v >= p.hi:
			t.fixed += c * p.hi
		case v < p.lo:
			t.fixed += c * p.lo
		default:
			t.fixed += c * p.off
			t.slope += c * p.slope
		}
	}
	return t
}

// root finds f with F(f) = μ, given F(0) ≤ μ < F(∞). A pass either ends it or
// tightens the bracket; it ends at the latest when the bracket holds no float.
func (s *solver) root(e extent, warm float64, passes *int) float64 {
	lo, hi := max(0, (s.capacity-e.floor)/e.weight), math.Inf(1) // F(f) ≤ F(0) + f·Σc·w
	f, triedLo := lo, true
	if warm > lo && !math.IsInf(warm, 1) {
		f, triedLo = warm, false
	}
	for {
		t := s.tally(f)
		*passes++
		excess := t.fixed + t.slope*f - s.capacity
		next := s.step(f, excess, t, passes)
		if next == f || t.slope > 0 && math.Abs(excess) <= 1e-15*s.capacity {
			return f // not next: it may lie beyond a breakpoint, on a steeper piece
		}
		if excess <= 0 {
			lo = max(lo, f)
		} else {
			hi = min(hi, f)
		}
		if next < lo || next >= hi || next == lo && triedLo {
			if next = middle(lo, hi); next <= lo || next >= hi {
				return lo
			}
		}
		triedLo = triedLo || next == lo // lo may be the root, as 0 is of a pool without capacity
		f = next
	}
}

// step is the Newton step from f, or the nearest breakpoint where F is flat.
func (s *solver) step(f, excess float64, t tally, passes *int) float64 {
	if t.slope > 0 {
		return max(0, (s.capacity-t.fixed)/t.slope)
	}
	*passes++
	return s.breakpoint(f, excess <= 0)
}

// breakpoint is the nearest point above (or below) f where a tenant starts or
// stops moving; f itself if there is none.
func (s *solver) breakpoint(f float64, above bool) float64 {
	nearest, found := 0.0, false
	for k := range s.len() {
		d, _ := s.entry(k)
		p := s.guarantee.shape(d, s.capacity)
		if p.slope == 0 {
			continue
		}
		for _, b := range [2]float64{(p.lo - p.off) / p.slope, (p.hi - p.off) / p.slope} {
			if above && b > f && (!found || b < nearest) || !above && b < f && (!found || b > nearest) {
				nearest, found = b, true
			}
		}
	}
	if !found {
		return f
	}
	return nearest
}

// middle splits the bracket, by ratio where that is the wider view.
func middle(lo, hi float64) float64 {
	switch {
	case math.IsInf(hi, 1):
		return 2*lo + 1
	case lo > 0 && hi > 4*lo:
		return math.Sqrt(lo) * math.Sqrt(hi)
	default:
		return lo + (hi-lo)/2
	}
}
