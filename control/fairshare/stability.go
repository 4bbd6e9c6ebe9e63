package fairshare

import "math"

// The distributed law in continuous time, with the gains C_P = A/|Q|w and
// C_I = B/|Q|w, has the open loop F(s) = (A/s + B/s²)·e^(−sτ) (15). In terms of
// U = A·τ and V = B·τ² it is stable (Corollary 1, Theorem 3) for every mix of
// delays up to τ if and only if
//
//	0 < U < π/2,  0 < V < ω₁²·cos ω₁  with  U = ω₁·sin ω₁       (18)
//
// and decays fastest at the triple root s·τ = √2 − 2, where
//
//	U = (2√2 − 2)·e^(√2−2) = .4612,  V = (10√2 − 14)·e^(√2−2) = .0791
//
// The paper's (.5, .1), read off a plot, is 8 % slower for one delay, and the faster for
// a mix of shorter ones: at its 20 to 70 ms it decays by 4.8/s, these by 4.3/s.

// bestRoot is s·τ at the triple root.
var bestRoot = math.Sqrt2 - 2

// BestGains are A (1/s) and B (1/s²) of the fastest decay for delays of up to
// delay seconds. Delay counts all that lies between a computed rate and its
// effect on the queue: the round trip and the spacing of the control packets.
func BestGains(delay float64) (a, b float64) {
	if delay = sane(delay); delay == 0 {
		delay = 1e-6
	}
	s := bestRoot
	u := -(s*s + 2*s) * math.Exp(s)
	v := s * s * (s + 1) * math.Exp(s)
	return u / delay, v / (delay * delay)
}

// StableV is the bound on V for a given U (18); 0 when no V is stable.
func StableV(u float64) float64 {
	if !(u > 0 && u < math.Pi/2) {
		return 0
	}
	lo, hi := 0.0, math.Pi/2
	for range 60 {
		if mid := (lo + hi) / 2; mid*math.Sin(mid) < u {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo * lo * math.Cos(lo)
}

// StableDelay is τᵘ, the delay in seconds below which gains a (1/s) and b (1/s²)
// are stable:
//
//	τᵘ = arccos(B/ω²)/ω,  ω² = (A² + √(A⁴+4B²))/2        (17)
//
// where ω is the frequency at which |F(jω)| = 1; the paper prints F(jω) = 1. It
// is +Inf without gains.
func StableDelay(a, b float64) float64 {
	a, b = min(sane(a), MaxWeight), min(sane(b), MaxWeight)
	w := (a*a + math.Sqrt(a*a*a*a+4*b*b)) / 2
	if w == 0 {
		return math.Inf(1)
	}
	return math.Acos(min(b/w, 1)) / math.Sqrt(w)
}
