package marking

import (
	"math"

	"github.com/titrate/titrate/control/aqm"
)

// RED is random early detection (Floyd and Jacobson 1993) in its "gentle" form
// (Floyd 2000).
//
//	avg  = (1 − w)·avg + w·q                        on every arrival
//	avg  = (1 − w)^m·avg,  m = C0·idle              first, after an idle time
//	pb   = maxp·(avg − min)/(max − min)             min ≤ avg < max
//	pb   = maxp + (1 − maxp)·(avg − max)/max        max ≤ avg < 2·max, gentle
//	pa   = pb/(1 − n·pb)                            n arrivals since the last mark
//
// pa spreads the marks evenly: gaps are uniform on 1…1/pb instead of geometric.
//
//	source          here              source        here
//	min_th, max_th  Min, Max          w_q           Weight
//	max_p           MaxP              avg           average
//
// It marks by the average queue alone, without a target for it: the queue that
// it settles at rises with the load.
//
// Bad numbers: as in package aqm; a queue counts as at most Buffer, as
// nothing beyond it is ever accepted.
type RED struct {
	// Min and Max are the thresholds in cost units, 0 < Min < Max. Below Min
	// nothing is marked; wider apart means smoother and slower.
	Min, Max float64
	// MaxP is the probability at Max, in (0,1]; usually 0.1.
	MaxP float64
	// Weight is w in (0,1], usually 0.002. Larger follows bursts.
	Weight float64
	// Buffer is the most that may wait, cost units; beyond it arrivals drop.
	Buffer float64
	// Mode selects whether a hit marks or drops.
	Mode aqm.Mode

	average   float64
	c0        float64
	since     float64 // arrivals since the last mark
	idleFrom  float64
	idle      bool
	lastKnown float64 // time of the last finite now
}

// DefaultRED has the thresholds of a queue that may hold buffer cost units: Min is a sixth of buffer, Max three
// times Min (Floyd's recommendation).
func DefaultRED(buffer float64) RED {
	b := sane(buffer)
	return RED{Min: b / 6, Max: b / 2, MaxP: 0.1, Weight: 0.002, Buffer: b}
}

// Step sets the service rate and records since when the queue is empty.
func (r *RED) Step(now, queued, c0, _ float64) {
	r.c0 = sane(c0)
	r.watch(now, sane(queued))
}

// watch keeps the time since which the queue is idle.
func (r *RED) watch(now, queued float64) {
	if math.IsNaN(now) || math.IsInf(now, 0) {
		return
	}
	if r.lastKnown = now; queued > 0 {
		r.idle = false
	} else if !r.idle {
		r.idle, r.idleFrom = true, now
	}
}

// Probability is pb for the present average, before the spacing of the marks.
func (r *RED) Probability() float64 {
	low, high := sane(r.Min), sane(r.Max)
	switch {
	case r.average < low:
		return 0
	case r.average < high:
		return clip(r.MaxP*(r.average-low)/(high-low), 0, 1)
	case high > 0 && r.average < 2*high:
		return clip(r.MaxP+(1-r.MaxP)*(r.average-high)/high, 0, 1)
	default:
		return 1
	}
}

// Arrive updates the average and marks by it.
func (r *RED) Arrive(a aqm.Arrival) aqm.Verdict {
	queued, weight := min(sane(a.Queued), sane(r.Buffer)), clip(r.Weight, 0, 1)
	r.watch(a.Now, queued)
	if r.idle {
		r.average *= math.Pow(1-weight, r.c0*sane(r.lastKnown-r.idleFrom))
		r.idle = false
	}
	r.average += weight * (queued - r.average)
	if overflows(a, r.Buffer) {
		r.since = 0
		return aqm.Drop
	}
	pb := r.Probability()
	if pb == 0 {
		r.since = 0
		return aqm.Accept
	}
	pa := 1.0
	if rest := 1 - r.since*pb; rest > pb {
		pa = pb / rest
	}
	r.since++
	if a.Rand < pa {
		r.since = 0
		return hit(r.Mode, a.Greedy)
	}
	return aqm.Accept
}

// Depart accepts: the law acts on arrival.
func (r *RED) Depart(_, _, _ float64) aqm.Verdict { return aqm.Accept }
