package drc

import "math"

// PaperParams are the rate constants of the adaptive controller as published.
// Table1 has the paper's values.
type PaperParams struct {
	Enzyme float64 // E0, total enzyme
	K1     float64 // r1: S+E → ES
	K2     float64 // r2: ES → ET + F
	K3     float64 // r3: S+T+E → S+ET
	K4     float64 // r4: ET → E
	K5     float64 // r5: T → ∅; the paper leaves it open. At 0 a node that idled starves
	KF     float64 // r_out: F → out
}

// Table1 returns the paper's parameters for v_max ≈ 1000/s.
func Table1() PaperParams {
	return PaperParams{Enzyme: 1000, K1: 1, K2: 100, K3: 1, K4: 1, KF: 1}
}

// Rate returns v_max = E0·k2·k4/(k2+k4), the capacity. The paper's two values,
// k2·E0 and k4·E0, contradict each other.
// It is 0 where one of them is.
func (p PaperParams) Rate() float64 {
	p = p.normal()
	if p.K2 == 0 || p.K4 == 0 {
		return 0
	}
	return p.Enzyme / (1/p.K2 + 1/p.K4)
}

// normal returns p with every bad number replaced, see the package comment.
func (p PaperParams) normal() PaperParams {
	for _, v := range [...]*float64{&p.Enzyme, &p.K1, &p.K2, &p.K3, &p.K4, &p.K5, &p.KF} {
		*v = clean(*v, maxQuantity)
	}
	return p
}

// Scaled returns the parameters for another volume: v/v_max stays the same in
// units of v_max when k1 goes with 1/E0 and k3 with 1/E0². A factor that is not
// positive counts as 1.
func (p PaperParams) Scaled(factor float64) PaperParams {
	factor = cleanWeight(factor)
	p.Enzyme *= factor
	p.K1 /= factor
	p.K3 /= factor * factor
	return p
}

// Paper is the adaptive controller of Monti & Sifalakis, reactions r1 to r5 and
// the output filter F. It reproduces their figures; it is not for production:
// N of them oscillate from a delay on (124 ms for eleven with Table 1, see package
// reaction), and F delays every request.
type Paper struct {
	p     PaperParams
	state paperState
	by    paperStep
}

// paperState are the amounts.
type paperState struct{ s, e, es, et, t, f float64 }

// paperStep is what a step takes from its length alone.
type paperStep struct {
	h                             float64
	bind, yield, forget           float64 // h·k1, h·k3, 1 + h·k5
	charge, back                  float64 // h·k2, h·k4
	release, recharge, flow, slip float64 // 1/(1+h·k2), 1/(1+h·k4), 1/(1+h·kF), h·k2/(1+h·k2)
}

// NewPaper returns the controller at rest with all enzyme free.
func NewPaper(p PaperParams) Paper {
	p = p.normal()
	c := Paper{p: p, state: paperState{e: p.Enzyme}}
	c.prepare(0)
	return c
}

// Step advances by h seconds with inner requests arriving at rate in and a
// sensed external load of rate ext, and returns the rate that leaves F.
//
// It is one backward Euler step. Given E' every other species follows in closed
// form and stays positive; E' itself is the one root in [0, E0] of the balance
// of E, which rises with it.
func (c *Paper) Step(h, in, ext float64) float64 {
	h, in, ext = clean(h, maxSeconds), clean(in, maxQuantity), clean(ext, maxQuantity)
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

// prepare computes what steps of length h have in common.
func (c *Paper) prepare(h float64) {
	p := &c.p
	c.by = paperStep{h: h, bind: h * p.K1, yield: h * p.K3, forget: 1 + h*p.K5, charge: h * p.K2, back: h * p.K4,
		release: 1 / (1 + h*p.K2), recharge: 1 / (1 + h*p.K4), flow: 1 / (1 + h*p.KF)}
	c.by.slip = c.by.charge * c.by.release
}

// solve finds E' by Newton's method, and by bisection where a step of Newton's leaves
// the bracket, until E is balanced to some 1e-13 of E0. Step then sets E from the sum.
func (c *Paper) solve() {
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
func (c *Paper) at(e float64) (excess, slope float64, n paperState) {
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
func (c *Paper) State() (s, e, es, et, t, f float64) {
	n := &c.state
	return n.s, n.e, n.es, n.et, n.t, n.f
}
