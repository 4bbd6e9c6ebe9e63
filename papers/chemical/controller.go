package chemical

import (
	"math"

	"github.com/titrate/titrate/papers/reaction"
)

// Controller is the published adaptive controller in closed form:
//
//	r1: S + E → ES        k1    a queued request S binds a free token E
//	r2: ES → ET + F       k2    it is released into F; the token is spent, ET
//	r3: S + T + E → S+ET  k3    what others reported to send, T, uses up tokens
//	r4: ET → E            k4    tokens recharge
//	r5: T → ∅             k5    T decays
//	rout: F → out         kF    the output filter
//
// The rate of a reaction is its constant times the product of its reactants. [reaction.Adaptive] is the same
// network, stepped by the general solver.
//
// It is for study. N controllers oscillate above a critical delay (124 ms for eleven with Table 1, see package
// reaction), and F delays every request. The product uses drc.Controller.
type Controller struct {
	p     reaction.Constants
	state amounts
	by    factors
}

// amounts are the amounts of the six species.
type amounts struct{ s, e, es, et, t, f float64 }

// factors are the constants of a step that depend only on its length h.
type factors struct {
	h                             float64
	bind, yield, forget           float64 // h·k1, h·k3, 1 + h·k5
	charge, back                  float64 // h·k2, h·k4
	release, recharge, flow, slip float64 // 1/(1+h·k2), 1/(1+h·k4), 1/(1+h·kF), h·k2/(1+h·k2)
}

// NewController returns the controller at rest with all enzyme free.
func NewController(p reaction.Constants) Controller {
	p = p.Clean()
	c := Controller{p: p, state: amounts{e: p.Enzyme}}
	c.prepare(0)
	return c
}

// Step advances by h seconds with requests arriving at rate in and an external
// load of rate ext sensed, both in 1/s, and returns the rate that leaves F, 1/s.
// A time or a rate that is NaN, negative or below 1e-15 counts as 0; a time above
// 1e9 s and a rate above 1e15/s count as that.
//
// It is one backward Euler step. Given E' every other species follows in closed
// form and stays positive; E' itself is the one root in [0, E0] of the balance
// of E, which rises with it.
func (c *Controller) Step(h, in, ext float64) float64 {
	h, in, ext = clean(h, 1e9), clean(in, 1e15), clean(ext, 1e15)
	if h != c.by.h {
		c.prepare(h)
	}
	c.state.s += h * in
	c.state.t += h * ext
	c.solve()
	n := &c.state
	if over := n.es + n.et; over > c.p.Enzyme { // rounding of a stiff step
		n.es, n.et = n.es/over*c.p.Enzyme, n.et/over*c.p.Enzyme
	}
	n.e = max(0, c.p.Enzyme-n.es-n.et)
	return c.p.KF * n.f
}

// prepare computes the common factors of steps of length h.
func (c *Controller) prepare(h float64) {
	p := &c.p
	c.by = factors{h: h, bind: h * p.K1, yield: h * p.K3, forget: 1 + h*p.K5, charge: h * p.K2, back: h * p.K4,
		release: 1 / (1 + h*p.K2), recharge: 1 / (1 + h*p.K4), flow: 1 / (1 + h*p.KF)}
	c.by.slip = c.by.charge * c.by.release
}

// solve finds E' by Newton's method, and by bisection where a step of Newton's leaves
// the bracket, until E is balanced to some 1e-13 of E0. Step then sets E from the sum.
func (c *Controller) solve() {
	lo, hi, e := 0.0, c.p.Enzyme, c.state.e
	for range 100 {
		excess, slope, next := c.at(e)
		if excess > 0 {
			hi = e
		} else {
			lo = e
		}
		step := e
		if math.Abs(excess) > 1e-13*c.p.Enzyme && hi > lo {
			if step = e - excess/slope; !(step > lo && step < hi) {
				step = lo + (hi-lo)/2
			}
		}
		if step == e {
			c.state = next
			return
		}
		e = step
	}
	_, _, c.state = c.at(e)
}

// at returns by how much E is out of balance if E' is e after the step, the slope of that over
// e, which is positive, and the state then. S and T already have what came in.
func (c *Controller) at(e float64) (excess, slope float64, n amounts) {
	q, was := &c.by, &c.state
	bound := 1 / (1 + q.bind*e)
	n.s = was.s * bound
	n1, dn1 := q.bind*n.s*e, q.bind*n.s*bound
	left := 1 / (q.forget + q.yield*n.s*e)
	n.t = was.t * left
	n3, dn3 := q.yield*n.s*n.t*e, q.yield*n.s*bound*n.t*q.forget*left
	n.es = (was.es + n1) * q.release
	n2, dn2 := q.charge*n.es, q.slip*dn1
	n.et = (was.et + n2 + n3) * q.recharge
	n.f = (was.f + n2) * q.flow
	excess = e - was.e + n1 + n3 - q.back*n.et
	return excess, 1 + dn1 + dn3 - q.back*q.recharge*(dn2+dn3), n
}

// State returns the amounts of S, E, ES, ET, T and F.
func (c *Controller) State() (s, e, es, et, t, f float64) {
	n := &c.state
	return n.s, n.e, n.es, n.et, n.t, n.f
}

// clean maps v into [0, hi]; NaN, negative and vanishing values become 0.
func clean(v, hi float64) float64 {
	if !(v >= 1e-15) {
		return 0
	}
	return min(v, hi)
}
