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
// N of them are unstable above (N−1)·kF·τ ≈ 1.6, and F delays every request.
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

// solve finds E' by false position (Illinois), every third step a bisection, until
// the moiety is right to rounding.
func (c *Paper) solve(h, in, ext float64) (next Paper) {
	lo, hi := 0.0, c.p.Enzyme
	_, below := c.at(lo, h, in, ext)
	next, above := c.at(hi, h, in, ext)
	for i := 0; i < 200 && below < 0 && above > 0; i++ {
		mid := lo - below*((hi-lo)/(above-below))
		if i%3 == 2 || !(mid > lo && mid < hi) {
			mid = lo + (hi-lo)/2
		}
		n, excess := c.at(mid, h, in, ext)
		if next = n; math.Abs(excess) <= 1e-15*c.p.Enzyme || mid == lo || mid == hi {
			break
		}
		if excess > 0 {
			hi, above, below = mid, excess, below/2
		} else {
			lo, below, above = mid, excess, above/2
		}
	}
	return next
}

// at returns the state after h if E' were e, and by how much E is then out of
// balance; the latter rises with e.
func (c *Paper) at(e, h, in, ext float64) (Paper, float64) {
	p, n := c.p, *c
	n.e = e
	n.s = (c.s + h*in) / (1 + h*p.K1*e)
	n1 := h * p.K1 * n.s * e
	n.t = (c.t + h*ext) / (1 + h*p.K3*n.s*e + h*p.K5)
	n3 := h * p.K3 * n.s * n.t * e
	n.es = (c.es + n1) / (1 + h*p.K2)
	n2 := h * p.K2 * n.es
	n.et = (c.et + n2 + n3) / (1 + h*p.K4)
	n.f = (c.f + n2) / (1 + h*p.KF)
	return n, e - c.e + n1 + n3 - h*p.K4*n.et
}

// State returns the amounts of S, E, ES, ET, T and F.
func (c *Paper) State() (s, e, es, et, t, f float64) { return c.s, c.e, c.es, c.et, c.t, c.f }
