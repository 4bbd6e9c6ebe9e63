package reaction

import (
	"math"
	"math/cmplx"
)

// Coupled returns the critical delays in seconds of n equal controllers whose input is the
// sum of the others' outputs, delay s late. Each has the transfer function h. The coupling
// has two modes:
//
//	total      1 − (n−1)·H·e^(−sτ) = 0     all move together
//	fairness   1 +       H·e^(−sτ) = 0     they move against each other
//
// A controller that yields to others has H = −G, which gives the forms
// 1+(n−1)·G·e^(−sτ) and 1−G·e^(−sτ).
func Coupled(h Transfer, n int) (total, fairness float64) {
	total, _ = h.CriticalDelay(float64(n - 1))
	fairness, _ = h.CriticalDelay(-1)
	return total, fairness
}

// CriticalDelay returns the smallest τ ≥ 0 in seconds at which the loop 1 −
// gain·H(s)·e^(−sτ) = 0 has a root on the imaginary axis, and its angular frequency ω in
// 1/s. There |gain·H(jω)| = 1 and the phase is a full turn. The loop is stable for all
// shorter delays. It is +Inf if no delay harms, 0 if the loop is unstable without any.
func (t Transfer) CriticalDelay(gain float64) (tau, omega float64) {
	for _, p := range eigenvalues(t.closed(gain), len(t.b)) {
		if !(real(p) < 0) {
			return 0, math.Abs(imag(p))
		}
	}
	loop := func(w float64) complex128 { return complex(gain, 0) * t.At(complex(0, w)) }
	tau = math.Inf(1)
	low, high := t.band(gain)
	const perDecade = 200
	step := math.Pow(10, 1./perDecade)
	for w := low; w < high; w *= step {
		a, b := w, w*step
		if (cmplx.Abs(loop(a)) > 1) == (cmplx.Abs(loop(b)) > 1) {
			continue
		}
		cross := crossing(loop, a, b)
		phase := math.Mod(cmplx.Phase(loop(cross))+2*math.Pi, 2*math.Pi)
		if d := phase / cross; d < tau {
			tau, omega = d, cross
		}
	}
	return tau, omega
}

// crossing narrows down where |loop| passes 1 between a and b.
func crossing(loop func(float64) complex128, a, b float64) float64 {
	above := cmplx.Abs(loop(a)) > 1
	for range 80 {
		mid := math.Sqrt(a * b)
		if (cmplx.Abs(loop(mid)) > 1) == above {
			a = mid
		} else {
			b = mid
		}
	}
	return math.Sqrt(a * b)
}

// band returns frequencies between which all crossings are: from far below the slowest pole to where the gain
// has surely fallen below 1.
func (t Transfer) band(gain float64) (low, high float64) {
	slow, fast := math.Inf(1), 0.0
	for _, p := range t.Poles() {
		if m := cmplx.Abs(p); m > 0 {
			slow, fast = min(slow, m), max(fast, m)
		}
	}
	reach := 0.0
	for i := range t.b {
		reach += math.Abs(t.b[i]) * math.Abs(t.c[i])
	}
	if math.IsInf(slow, 1) {
		slow, fast = 1, 1
	}
	return 1e-4 * slow, 1e2 * max(fast, math.Abs(gain)*reach)
}
