package marking

import (
	"math"

	"github.com/titrate/titrate/control/aqm"
)

// VS is the variable-structure law as published. The product uses aqm.VSD, which is
// written in units of delay.
//
//	x1 = q − q_d,  x2 = r − C0,  S = kS·x1 + x2                        (7)
//	b̄  = M̄/τ̄² + r²/(2M̄)                                              (8)
//	p  = M̄/(τ̄²·b̄) + (α·(T1/√2)·kS·|x2/r| + δ)·sign(S)            (9), (10)
//
// with p saturated to [0,1], which the paper leaves out, and the bar on M̄ that
// the first line of (9) lacks. T1 is not given in the paper; 0.44 fits it. Its
// own parameters violate (11) ([Gamma] is .787, δ is .3), and kS = 10 cannot
// slide (kS·τ = 3.2 > π/2): the queue settles into a limit cycle, which is the
// offset of 50 packets in its Remark 3. A smaller kS of 0.5/τ slides on paper but is worse
// with TCP Reno sources: at 2.5/s queues of 3 to 235 packets for 50 to 250 of them, and loss.
//
//	paper   here               paper   here
//	M̄, τ̄    Sessions, Delay    α, δ    Alpha, Delta
//	kS      Slope              q_d     Target
//	T1      MaxDelay           q_max   Buffer
type VS struct {
	Sessions float64 // nominal number of sources, > 0
	Delay    float64 // nominal round trip in seconds, > 0
	MaxDelay float64 // longest round trip in seconds
	Slope    float64 // of the surface, 1/s
	Alpha    float64 // ≥ 1
	Delta    float64 // > Gamma for proven robustness
	Target   float64 // queue, cost units
	Buffer   float64 // most that may wait, cost units; beyond it arrivals drop

	p       float64
	offered aqm.Meter
}

// PaperVS is the law with the parameters of the paper's section 3.1.
func PaperVS() VS {
	return VS{Sessions: 100, Delay: 0.2, MaxDelay: 0.44, Slope: 10, Alpha: 1, Delta: 0.3, Target: 150, Buffer: 500}
}

// Step measures the offered rate since the last step and updates p.
func (v *VS) Step(now, queued, c0, _ float64) {
	if ts := v.offered.Lap(now); ts > 0 {
		v.p = clip(v.Marking(sane(queued), v.offered.Rate(ts), sane(c0)), 0, 1)
	}
}

// Marking is equation (9) before saturation, for queue q, incoming rate r and
// capacity c0.
func (v *VS) Marking(q, r, c0 float64) float64 {
	x2 := r - c0
	nominal := v.Sessions / (v.Delay * v.Delay)
	p := nominal / (nominal + r*r/(2*v.Sessions))
	reach := v.Delta
	if r > 0 {
		reach += v.Alpha * v.MaxDelay / math.Sqrt2 * v.Slope * math.Abs(x2/r)
	} else if x2 != 0 {
		reach = math.Inf(1)
	}
	switch s := v.Slope*(q-v.Target) + x2; {
	case s > 0:
		return p + reach
	case s < 0:
		return p - reach
	default:
		return p
	}
}

// Probability is the marking probability in force.
func (v *VS) Probability() float64 { return v.p }

// Arrive marks with probability p and drops requests that exceed the buffer.
func (v *VS) Arrive(a aqm.Arrival) aqm.Verdict {
	v.offered.Count(a.Cost)
	a.Greedy = false // the paper has one kind of source
	return chosen(aqm.Cooperative, a, v.Buffer, v.p)
}

// Depart accepts: the law acts on arrival.
func (v *VS) Depart(_, _, _ float64) aqm.Verdict { return aqm.Accept }

// Gamma is the bound (11) that δ must exceed for the proof of robustness, for
// between mLow and mHigh sessions and round trips between tLow and tHigh.
func Gamma(mLow, mHigh, tLow, tHigh float64) float64 {
	m, tau := (mLow+mHigh)/2, (tLow+tHigh)/2
	return 0.25 * (m/mLow + tau/tLow) * ((mHigh-mLow)/(mHigh+mLow) + (tHigh-tLow)/(tHigh+tLow))
}
