// Package maxmin reproduces Ryu, Cho & Chong, "Stabilized Edge-to-Edge Aggregate Flow
// Control". It has the link and source laws of control/fairshare with the parameters of the
// paper's Table 1, with TCP inside the aggregates (package packets), and the stability of
// the loop.
//
// Differences to the paper: control packets are clocked by time, every 10 ms (its 30 virtual
// packets take 7 to 38 ms at the rates of Table 2). Rates are multiples of packets of 1000
// bytes: 256 Kbytes are 256 packets.
package maxmin

import (
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"

	"github.com/titrate/titrate/papers/experiment"
)

// loop is the open loop (15): (A/s + B/s²)·Σρ_i·e^(−τ_i·s).
type loop struct {
	a, b     float64
	rho, tau []float64
}

// at is the characteristic function s² + (A·s + B)·Σρ_i·e^(−τ_i·s), and its derivative.
func (l loop) at(s complex128) (h, slope complex128) {
	var sum, down complex128
	for i, rho := range l.rho {
		e := complex(rho, 0) * cmplx.Exp(-s*complex(l.tau[i], 0))
		sum += e
		down -= complex(l.tau[i], 0) * e
	}
	gain := complex(l.a, 0)*s + complex(l.b, 0)
	return s*s + gain*sum, 2*s + complex(l.a, 0)*sum + gain*down
}

// decay returns the decay rate of the slowest mode, 1/s: minus the real part of the rightmost root, found by
// Newton's method from a grid.
func (l loop) decay() float64 {
	scale := l.tau[0]
	for _, t := range l.tau {
		scale = math.Max(scale, t)
	}
	rightmost := math.Inf(-1)
	for re := -1.5; re <= 1; re += .25 {
		for im := 0.; im <= 4; im += .25 {
			s := complex(re/scale, im/scale)
			for range 40 {
				h, slope := l.at(s)
				s -= h / slope
			}
			if h, _ := l.at(s); cmplx.Abs(h)*scale*scale < 1e-9 {
				rightmost = math.Max(rightmost, real(s))
			}
		}
	}
	return -rightmost
}

// stable is Mikhailov's criterion: along the positive imaginary axis the argument of the
// characteristic function, of degree two, turns by π in all.
func (l loop) stable() bool {
	turned, last := 0., 0.
	top := 20 * (l.a + math.Sqrt(l.b))
	for k := 0; k <= 20000; k++ {
		x := float64(k) / 20000
		h, _ := l.at(complex(0, top*x*x))
		arg := cmplx.Phase(h)
		if k > 0 {
			turned += math.Remainder(arg-last, 2*math.Pi)
		}
		last = arg
	}
	return math.Abs(turned-math.Pi) < .5
}

// single is the loop with one delay of 1 s and gains U, V.
func single(u, v float64) loop { return loop{u, v, []float64{1}, []float64{1}} }

func fig3a(short bool) *experiment.Result {
	r := &experiment.Result{}
	c := r.Chart("agg-fig3a", "Fig 3a: gains (U, V) for which the loop is stable", "U = A·τ", "V = B·τ²")
	edge, inside, outside := c.Line("paper: boundary (18)", experiment.FromPaper),
		c.Line("stable by the roots", experiment.Dots), c.Line("not stable", experiment.Dots)
	for u := .005; u < math.Pi/2; u += .01 {
		edge.Add(u, StableV(u))
	}
	grid := .05
	if short {
		grid = .1
	}
	wrong, n := 0, 0
	for u := grid; u < 1.75; u += grid {
		for v := grid / 2; v < .8; v += grid {
			stable := single(u, v).stable()
			if stable {
				inside.Add(u, v)
			} else {
				outside.Add(u, v)
			}
			if bound := StableV(u); math.Abs(v-bound) > .01 {
				n++
				if stable != (v < bound) {
					wrong++
				}
			}
		}
	}
	r.Near(fmt.Sprintf("points of %d at which the roots and (18) disagree", n), 0, float64(wrong), 0)
	best, at := 0., 0.
	for u := .01; u < math.Pi/2; u += .001 {
		if v := StableV(u); v > best {
			best, at = v, u
		}
	}
	r.Note("largest stable V (at U)", fmt.Sprintf("%.3f (%.2f)", best, at))
	return r
}

func fig3b(short bool) *experiment.Result {
	r := &experiment.Result{}
	c := r.Chart("agg-fig3b", "Fig 3b: decay of the slowest mode by gains, one delay", "U = A·τ",
		"decay per delay, α·τ")
	grid := .02
	if short {
		grid = .04
	}
	var best, bestU, bestV float64
	for v := .02; v < .2; v += grid / 2 {
		var l *experiment.Line
		if k := math.Round(v * 1000); math.Mod(k, 40) == 0 || k == 20 {
			l = c.Line(fmt.Sprintf("V = %.2f", v), experiment.Solid)
		}
		for u := .2; u < 1.2; u += grid {
			d := single(u, v).decay()
			if l != nil {
				l.Add(u, d)
			}
			if d > best {
				best, bestU, bestV = d, u, v
			}
		}
	}
	paper, ours := single(.5, .1).decay(), single(gains(1)).decay()
	c.Line("paper: (0.5, 0.1)", experiment.PaperDots).Add(.5, paper)
	r.Near("U of the fastest decay", .5, bestU, .06)
	r.Near("V of the fastest decay", .1, bestV, .03)
	r.Note("decay per delay at (0.5, 0.1) and at the exact optimum (0.461, 0.079)",
		fmt.Sprintf("%.3f; %.3f", paper, ours)).
		Because("The optimum is a triple root, found in closed form; the paper's point is 8 % slower for one delay.")
	tau, rho := []float64{.02, .03, .04, .05, .06, .07}, []float64{1. / 6, 1. / 6, 1. / 6, 1. / 6, 1. / 6, 1. / 6}
	a, b := gains(.07)
	wide, narrow := loop{.5 / .07, .1 / (.07 * .07), rho, tau}.decay(), loop{a, b, rho, tau}.decay()
	r.Note("decay with the paper's six delays of 20 to 70 ms, 1/s: (0.5, 0.1); (0.461, 0.079)",
		fmt.Sprintf("%.2f; %.2f", wide, narrow)).
		Because("With delays shorter than the longest the paper's gains are the faster. The optimum for one delay " +
			"is then too timid.")
	var delays []Delay
	for i := range tau {
		delays = append(delays, Delay{Seconds: tau[i], Weight: rho[i]})
	}
	a, b = MixGains(delays)
	r.Note("ours, with gains for these six delays: decay, 1/s; U, V of the longest",
		fmt.Sprintf("%.2f; %.2f, %.2f", loop{a, b, rho, tau}.decay(), a*.07, b*.07*.07)).
		Because("From maxmin.MixGains. They give the triple root of the loop with all its delays. The gains stay " +
			"stable for any mix of delays up to 1.25 times the longest.")
	return r
}

// gains returns the gains of the fastest decay for one delay.
func gains(tau float64) (a, b float64) { return BestGains(tau) }

func theorem3(short bool) *experiment.Result {
	r := &experiment.Result{}
	c := r.Chart("agg-theorem3", "Theorem 3: random delays up to τ, random weights", "U = A·τ", "V = B·τ²")
	ok, bad := c.Line("stable", experiment.Dots), c.Line("not stable", experiment.Dots)
	edge := c.Line("paper: boundary (18)", experiment.FromPaper)
	for u := .005; u < math.Pi/2; u += .01 {
		edge.Add(u, StableV(u))
	}
	rng, n := rand.New(rand.NewPCG(3, 3)), 600
	if short {
		n = 100
	}
	unstable, single := 0, 0
	for range n {
		u := .02 + 1.5*rng.Float64()
		v := 1.3 * StableV(u) * rng.Float64()
		l := loop{a: u, b: v}
		left := 1.
		for range 1 + rng.IntN(8) {
			part := left * rng.Float64()
			l.rho, l.tau = append(l.rho, part), append(l.tau, rng.Float64())
			left -= part
		}
		if v > .98*StableV(u) {
			if v > 1.02*StableV(u) { // one delay of τ with all the weight must not be stable
				if (loop{u, v, []float64{1}, []float64{1}}).stable() {
					single++
				}
			}
			continue
		}
		if l.stable() {
			ok.Add(u, v)
		} else {
			unstable++
			bad.Add(u, v)
		}
	}
	if bad.Len() == 0 {
		c.Lines = append(c.Lines[:1], c.Lines[2:]...)
	}
	r.Near("inside of (18): random mixes of delays that are not stable", 0, float64(unstable), 0)
	r.Near("outside of (18): points at which the single delay is stable", 0, float64(single), 0)
	return r
}
