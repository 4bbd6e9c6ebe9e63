package marking

import (
	"math"

	"github.com/titrate/titrate/control/aqm"
)

// PI is the proportional-integral law of Hollot, Misra, Towsley and Gong
// (2001).
//
//	p_k = p_(k−1) + a·(q_k − q*) − b·(q_(k−1) − q*)         every 1/fs
//	    = p_(k−1) + b·(q_k − q_(k−1)) + (a − b)·(q_k − q*)·fs·Ts
//
// The code computes the second line: it equals the first at Ts = 1/fs, and is the same controller at any other
// spacing. p is saturated to [0,1] at every step, which also keeps the integral from winding up.
//
//	source      here            source   here
//	a, b        A, B            q*       Target
//	fs          Frequency
//
// Its gains hold for one load. With more clients the law reacts slowly; the variable-structure law improves on
// this.
type PI struct {
	// A and B are the gains per cost unit, A > B > 0; see TunePI.
	A, B float64
	// Frequency is fs in 1/s.
	Frequency float64
	// Target is q* in cost units, ≥ 0.
	Target float64
	// Buffer is the most that may wait, cost units; beyond it arrivals drop.
	Buffer float64
	// Mode selects whether a hit marks or drops.
	Mode aqm.Mode

	p, queued float64
	clock     aqm.Meter
}

// HollotPI has the source's gains, at 160 Hz.
func HollotPI(target, buffer float64) PI {
	return PI{A: 1.822e-5, B: 1.816e-5, Frequency: 160, Target: target, Buffer: buffer}
}

// TunePI gives the gains for a capacity c0 (units/s), at least clients clients and round
// trips of at most rtt seconds, sampled at frequency (1/s). The zero cancels the slow pole
// of the clients' window, and the loop has gain 1 there.
//
//	z = 2N/(R²·C0);  K = z·|jz·R + 1|·4N²/(R·C0)³;  a, b = K·(1/z ± 1/(2·fs))
func TunePI(c0, clients, rtt, frequency float64) (a, b float64) {
	z := 2 * clients / (rtt * rtt * c0)
	k := z * math.Hypot(z*rtt, 1) * 4 * clients * clients / math.Pow(rtt*c0, 3)
	return k * (1/z + 0.5/frequency), k * (1/z - 0.5/frequency)
}

// Step updates p by the queue.
func (l *PI) Step(now, queued, _, _ float64) {
	q := min(sane(queued), sane(l.Buffer))
	if ts := l.clock.Lap(now); ts > 0 {
		a, b := sane(l.A), sane(l.B)
		l.p = clip(l.p+b*(q-l.queued)+(a-b)*(q-sane(l.Target))*sane(l.Frequency)*min(ts, 1), 0, 1)
	}
	l.queued = q
}

// Probability is p, in [0,1].
func (l *PI) Probability() float64 { return l.p }

// Arrive marks with probability p.
func (l *PI) Arrive(a aqm.Arrival) aqm.Verdict { return chosen(l.Mode, a, l.Buffer, l.p) }

// Depart accepts: the law acts on arrival.
func (l *PI) Depart(_, _, _ float64) aqm.Verdict { return aqm.Accept }
