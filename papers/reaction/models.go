package reaction

import "fmt"

// Bucket is the enzymatic token bucket of this project: the paper's figure 2 with the spent token ET, so that
// the recharge has its own rate.
//
//	r1: S + E → ES   K1     a queued request binds a token: it is released
//	r2: ES → ET      K2
//	r4: ET → E       K4     sets the rate
//	r0: S → ∅        Kd     a policer's virtual backlog drains; 0 with a queue
//
// E + ES + ET is conserved. Package drc steps it in closed form (drc.Enzyme)
// and, with the rate in force, as the inner loop of drc.Controller.
type Bucket struct {
	*Network
	S, E, ES, ET                   Species
	Bind, Release, Recharge, Drain Reaction
	Arrivals                       Input
}

const (
	epsilon = 0.01 // ε = k4/k2, as in drc.Enzyme
	kappa1  = 1e5  // κ1 = k1·B, 1/s, as in drc.Enzyme
)

// NewBucket builds the network. Its rate constants are 0 until Fill and
// Regulate set them in a vessel.
func NewBucket() Bucket {
	var k Kit
	b := Bucket{S: k.Species("S"), E: k.Species("E"), ES: k.Species("ES"), ET: k.Species("ET")}
	b.Bind = k.React("r1", 0, []Species{b.S, b.E}, []Species{b.ES})
	b.Release = k.React("r2", 0, []Species{b.ES}, []Species{b.ET})
	b.Recharge = k.React("r4", 0, []Species{b.ET}, []Species{b.E})
	b.Drain = k.React("r0", 0, []Species{b.S}, nil)
	b.Arrivals = k.Input("arrivals", b.S)
	b.Network, _ = k.Build() // cannot fail: nothing in it comes from outside
	return b
}

// Fill puts a bucket of the given depth (cost units), all free, into v.
func (b Bucket) Fill(v *Vessel, depth float64) {
	v.SetAmount(b.E, depth)
	v.SetAmount(b.ES, 0)
	v.SetAmount(b.ET, 0)
	v.SetRate(b.Bind, kappa1/depth)
}

// Regulate sets the rate (cost units/s) of a bucket of the given depth:
// k4 = (1+ε)·rate/B, k2 = k4/ε. No mass moves.
func (b Bucket) Regulate(v *Vessel, depth, rate float64) {
	k4 := (1 + epsilon) * rate / depth
	v.SetRate(b.Recharge, k4)
	v.SetRate(b.Release, k4/epsilon)
}

// Constants are the rate constants of the paper's adaptive controller and its
// total enzyme, in cost units and seconds. Table1 has the paper's values.
type Constants struct {
	Enzyme float64 // E0, total enzyme
	K1     float64 // r1: S + E → ES
	K2     float64 // r2: ES → ET + F
	K3     float64 // r3: S + T + E → S + ET
	K4     float64 // r4: ET → E
	K5     float64 // r5: T → ∅; the paper leaves it open. At 0 a node that idled starves
	KF     float64 // rout: F → out
}

// Table1 returns the paper's constants for a capacity of about 1000/s.
func Table1() Constants {
	return Constants{Enzyme: 1000, K1: 1, K2: 100, K3: 1, K4: 1, KF: 1}
}

// Rate returns the capacity v_max = E0·k2·k4/(k2+k4), cost units/s: 0 where k2
// or k4 is 0. The paper's two values, k2·E0 and k4·E0, contradict each other.
func (c Constants) Rate() float64 {
	c = c.Clean()
	if c.K2 == 0 || c.K4 == 0 {
		return 0
	}
	return c.Enzyme / (1/c.K2 + 1/c.K4)
}

// Clean returns c with every bad number replaced, see the package comment; a
// constant below 1e-15 counts as 0.
func (c Constants) Clean() Constants {
	for _, v := range [...]*float64{&c.Enzyme, &c.K1, &c.K2, &c.K3, &c.K4, &c.K5, &c.KF} {
		if *v = clean(*v); *v < smallest {
			*v = 0
		}
	}
	return c
}

// Scaled returns the constants for another volume: k1 goes with 1/E0 and k3
// with 1/E0², so that the output in units of the capacity stays the same. A
// factor that is not positive counts as 1.
func (c Constants) Scaled(factor float64) Constants {
	if factor = clean(factor); factor < smallest {
		factor = 1
	}
	c.Enzyme *= factor
	c.K1 /= factor
	c.K3 /= factor * factor
	return c
}

// Adaptive is the paper's adaptive controller (figure 3):
//
//	r1: S + E → ES        K1        r4: ET → E     K4
//	r2: ES → ET + F       K2        r5: T → ∅      K5
//	r3: S + T + E → S+ET  K3        rout: F → out  KF
//
// Package chemical steps it in closed form as chemical.Controller.
type Adaptive struct {
	*Network
	S, E, ES, ET, T, F                     Species
	Bind, Release, Yield, Recharge, Forget Reaction
	Out                                    Reaction
	Int, Ext                               Input
}

// NewAdaptive builds the network with the given constants.
func NewAdaptive(c Constants) (Adaptive, error) {
	var k Kit
	a := Adaptive{S: k.Species("S"), E: k.Species("E"), ES: k.Species("ES"), ET: k.Species("ET"), T: k.Species("T"),
		F: k.Species("F")}
	a.Bind = k.React("r1", c.K1, []Species{a.S, a.E}, []Species{a.ES})
	a.Release = k.React("r2", c.K2, []Species{a.ES}, []Species{a.ET, a.F})
	a.Yield = k.React("r3", c.K3, []Species{a.S, a.T, a.E}, []Species{a.S, a.ET})
	a.Recharge = k.React("r4", c.K4, []Species{a.ET}, []Species{a.E})
	a.Forget = k.React("r5", c.K5, []Species{a.T}, nil)
	a.Out = k.React("rout", c.KF, []Species{a.F}, nil)
	a.Int, a.Ext = k.Input("v_int", a.S), k.Input("v_ext", a.T)
	n, err := k.Build()
	if err != nil {
		return Adaptive{}, fmt.Errorf("adaptive controller: %w", err)
	}
	a.Network = n
	return a, nil
}

// NewVessel returns a vessel at rest with all enzyme free.
func (a Adaptive) NewVessel(c Constants) *Vessel {
	v := NewVessel(a.Network)
	v.SetAmount(a.E, c.Enzyme)
	return v
}
