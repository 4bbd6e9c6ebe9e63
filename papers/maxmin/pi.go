package maxmin

import "math"

// Tuning holds the gains of the discrete PI law
//
//	e[k+1] = e[k] + u[k−d];   u = −(a·e + b·Σe)
//
// for a loop whose command takes effect d rounds late.
type Tuning struct {
	A, B   float64
	Radius float64 // of the triple root: the error shrinks by it per round
}

// Tune gives the gains that put a triple real root of the closed loop
// (z−1)²z^d + a(z−1) + bz at the largest decay a delay of d ≥ 0 rounds
// allows. It corrects the paper's (U,V) = (.5,.1), which for one delay is
// 8 % slower than the triple root at (.4612, .0791).
//
//	z = (d(d+1) + √(2d(d+1))) / ((d+1)(d+2)),  h = (z−1)²z^d
//	c = −(2(z−1)z^d + d(z−1)²z^(d−1)),  a = h + c·z,  b = c − a
func Tune(d int) Tuning {
	if d <= 0 {
		return Tuning{A: 1, B: 1}
	}
	n := float64(d)
	z := (n*(n+1) + math.Sqrt(2*n*(n+1))) / ((n + 1) * (n + 2))
	power := math.Pow(z, n)
	h := (z - 1) * (z - 1) * power
	c := -(2*(z-1)*power + n*(z-1)*(z-1)*power/z)
	a := h + c*z
	return Tuning{A: a, B: c - a, Radius: z}
}

// PI is the discrete PI law with a clamp. While the command is at a clamp the
// integral does not move further into it, or an idle link would wind up
// without bound. The zero clamp (Min = Max = 0) means none.
//
// Bad numbers: an error or a gain that is NaN counts as 0, one beyond ±1e15 as that;
// a NaN clamp is none, and Max wins over a Min above it. The integral stays within
// ±1e30.
type PI struct {
	Tuning
	Min, Max float64

	sum float64
}

// Step is the command for error e. It is O(1) and allocates nothing.
func (p *PI) Step(e float64) float64 {
	e = within(e, largest)
	sum := within(p.sum+e, largest*largest)
	u := -(within(p.A, largest)*e + within(p.B, largest)*sum)
	bounded := u
	if p.Min != 0 || p.Max != 0 {
		if u < p.Min {
			bounded = p.Min
		}
		if bounded > p.Max {
			bounded = p.Max
		}
	}
	if u == bounded || (u > bounded) == (e > 0) { // this error leads back from the clamp
		p.sum = sum
	}
	return bounded
}

// within brings v into ±limit; NaN becomes 0.
func within(v, limit float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return min(max(v, -limit), limit)
}
