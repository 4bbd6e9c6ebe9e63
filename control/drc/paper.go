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
	p                  PaperParams
	s, e, es, et, t, f float64
}

// NewPaper returns the controller at rest with all enzyme free.
func NewPaper(p PaperParams) Paper {
	p = p.normal()
	return Paper{p: p, e: p.Enzyme}
}

// Step advances by h seconds with inner requests arriving at rate in and a
// sensed external load of rate ext, and returns the rate that leaves F.
//
// It is one backward Euler step. Given E' every other species follows in closed
// form and stays positive; E' itself is the one root in [0, E0] of the balance
// of E, which rises with it.
func (c *Paper) Step(h, in, ext float64) float64 {
	h, in, ext = clean(h, maxSeconds), clean(in, maxQuantity), clean(ext, maxQuantity)
	*c = c.solve(h, in, ext)
	if over := (c.es + c.et) / c.p.Enzyme; over > 1 { // rounding of a stiff step
		c.es, c.et = c.es/over, c.et/over
	}
	c.e = max(0, c.p.Enzyme-c.es-c.et)
	return c.p.KF * c.f
}

// solve finds E' by Newton's method, and by bisection where a step of Newton's leaves
// the bracket, until E is balanced to some 1e-13 of E0. Step then sets E from the sum.
func (c *Paper) solve(h, in, ext float64) (next Paper) {
	lo, hi, e := 0.0, c.p.Enzyme, c.e
	for range 100 {
		n, excess, slope := c.at(e, h, in, ext)
		if excess > 0 {
			hi = e
		} else {
			lo = e
		}
		if math.Abs(excess) <= 1e-13*c.p.Enzyme || !(hi > lo) {
			return n
		}
		step := e - excess/slope
		if !(step > lo && step < hi) {
			step = lo + (hi-lo)/2
		}
		if next = n; step == e {
			return n
		}
		e = step
	}
	return next
}

// at returns the state after h if E' were e, by how much E is then out of balance, and
// the slope of the latter over e, which is positive.
func (c *Paper) at(e, h, in, ext float64) (n Paper, excess, slope float64) {
	p := &c.p
	n = *c
	n.e = e
	bound, yield := 1/(1+h*p.K1*e), h*p.K3
	s0, t0, forget := c.s+h*in, c.t+h*ext, 1+h*p.K5
	n.s = s0 * bound
	n1, dn1 := h*p.K1*n.s*e, h*p.K1*n.s*bound
	left := 1 / (forget + yield*n.s*e)
	n.t = t0 * left
	n3, dn3 := yield*n.s*n.t*e, yield*n.s*bound*n.t*forget*left
	release := 1 / (1 + h*p.K2)
	n.es = (c.es + n1) * release
	n2, dn2 := h*p.K2*n.es, h*p.K2*release*dn1
	recharge := 1 / (1 + h*p.K4)
	n.et = (c.et + n2 + n3) * recharge
	n.f = (c.f + n2) / (1 + h*p.KF)
	excess = e - c.e + n1 + n3 - h*p.K4*n.et
	return n, excess, 1 + dn1 + dn3 - h*p.K4*recharge*(dn2+dn3)
}

// State returns the amounts of S, E, ES, ET, T and F.
func (c *Paper) State() (s, e, es, et, t, f float64) { return c.s, c.e, c.es, c.et, c.t, c.f }
