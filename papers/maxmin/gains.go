package maxmin

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
// The paper's (.5, .1), read off a plot, decays 8 % more slowly for one delay. For the
// paper's mix of 20 to 70 ms it is the faster one: disturbances decay by 4.8/s, with the
// gains above by 4.3/s. Both use the longest delay only. Gains for all delays of the mix
// (MixGains) decay by 11.8/s.

// bestRoot is s·τ at the triple root.
var bestRoot = math.Sqrt2 - 2

// BestGains returns A (1/s) and B (1/s²) of the fastest decay for delays of up to delay seconds. Delay is the
// whole time between a computed rate and its effect on the queue: the round trip and the spacing of the control
// packets.
func BestGains(delay float64) (a, b float64) {
	if delay = sane(delay); delay == 0 {
		delay = 1e-6
	}
	s := bestRoot
	u := -(s*s + 2*s) * math.Exp(s)
	v := s * s * (s + 1) * math.Exp(s)
	return u / delay, v / (delay * delay)
}

// Delay is the delay after which the rates of some of a link's sources take effect.
type Delay struct {
	Seconds float64 // as in BestGains
	Weight  float64 // sum of the weights of the sources with this delay, > 0
}

// mixMargin is the safety margin of MixGains: the gains are stable even if all sources have
// mixMargin times the longest delay.
const mixMargin = 1.25

// MixGains returns A (1/s) and B (1/s²) for sources with several delays. Unlike BestGains of the longest delay,
// it uses all delays by weight. With the parts ρ of the weight, s² + (A·s + B)·D(s) = 0 for D(s) = Σρ·e^(−τs)
// has a triple root at s = −x, where
//
//	2 − 4·x·m + x²·(m² − v) = 0,  A = (2x − x²·m)/D,  B = x²·(1 − x·m)/D
//
// and m and v are the mean and the variance of the delays weighted by ρ·e^(τx), D = D(−x). If the loop is not
// stable with every source at mixMargin times the longest delay, the gains are slowed down until it is. By
// Theorem 3 the loop is then stable for any other mix of these delays too. A delay without weight is ignored; a
// delay above 1e6 s counts as 1e6 s. MixGains is O(n) and does not allocate. Without delays it returns
// BestGains(0).
func MixGains(delays []Delay) (a, b float64) {
	longest, weight, mean := 0.0, 0.0, 0.0
	for _, d := range delays {
		if late, w := d.clean(); w > 0 {
			longest = max(longest, late)
			weight += w
			mean += w * late
		}
	}
	if mean == 0 {
		return BestGains(0)
	}
	lo, hi := 0.0, weight/mean // x·m = 1 is at or below hi
	for range 60 {
		x := lo + (hi-lo)/2
		if _, m, v := tilted(delays, weight, x); x*m < 1 && 2-4*x*m+x*x*(m*m-v) > 0 {
			lo = x
		} else {
			hi = x
		}
	}
	x := lo
	d, m, _ := tilted(delays, weight, x)
	a, b = (2*x-x*x*m)/d, x*x*(1-x*m)/d
	if slower := mixMargin * longest / StableDelay(a, b); slower > 1 {
		a, b = a/slower, b/(slower*slower)
	}
	return a, b
}

// clean is d without bad numbers.
func (d Delay) clean() (late, weight float64) {
	return min(sane(d.Seconds), 1e6), min(sane(d.Weight), largest)
}

// tilted is D(−x), and the mean and the variance of the delays weighted by ρ·e^(τx).
func tilted(delays []Delay, weight, x float64) (d, mean, variance float64) {
	square := 0.0
	for _, e := range delays {
		if late, w := e.clean(); w > 0 {
			part := w / weight * math.Exp(late*x)
			d += part
			mean += part * late
			square += part * late * late
		}
	}
	mean /= d
	return d, mean, max(0, square/d-mean*mean)
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
	a, b = min(sane(a), largest), min(sane(b), largest)
	w := (a*a + math.Sqrt(a*a*a*a+4*b*b)) / 2
	if w == 0 {
		return math.Inf(1)
	}
	return math.Acos(min(b/w, 1)) / math.Sqrt(w)
}
