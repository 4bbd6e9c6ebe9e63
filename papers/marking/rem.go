package marking

import (
	"math"

	"github.com/titrate/titrate/control/aqm"
)

// REM is random exponential marking (Athuraliya, Low, Li and Yin 2001).
//
//	μ = max(0, μ + γ·(α·(q − q*)·Ts/T + (r − C0)·Ts))     every Ts
//	p = 1 − φ^(−μ)
//
// The price μ separates congestion from the queue: at rest r = C0 and q = q*
// whatever the load. As the exponents add, marks along a path show the sum of
// its prices: Π(1−p) = φ^(−Σμ).
//
//	source   here            source   here
//	μ        price           γ, α     Gamma, Alpha
//	b, b*    queued, Target  φ        Phi
//	x, c     r, C0           T        Period
//
// The source adds once per period T; the factor Ts/T makes any spacing of the steps equivalent. r is the
// enqueued rate: with marks it equals the source's input rate; with drops it is the only rate that can match
// C0. Correction: p stays at most .999; otherwise a price that rose during a blockage would take hours to come
// down. Bad numbers: as in package aqm; φ ≤ 1 never marks.
type REM struct {
	// Target is q* in cost units, ≥ 0.
	Target float64
	// Gamma is the step size γ > 0 per cost unit; larger is faster and less stable.
	Gamma float64
	// Alpha weighs the queue against the rate, > 0; larger restores q* faster.
	Alpha float64
	// Phi is the base φ > 1 of the marking.
	Phi float64
	// Period is T in seconds, > 0.
	Period float64
	// Buffer is the most that may wait, cost units; beyond it arrivals drop.
	Buffer float64
	// Mode selects whether a hit marks or drops.
	Mode aqm.Mode

	price    float64
	enqueued aqm.Meter
}

// DefaultREM has the source's parameters, every 10 ms, for a target queue.
func DefaultREM(target, buffer float64) REM {
	return REM{Target: target, Gamma: 0.001, Alpha: 0.1, Phi: 1.001, Period: 0.01, Buffer: buffer}
}

// Step moves the price by the mismatch of queue and rate.
func (r *REM) Step(now, queued, c0, _ float64) {
	ts := r.enqueued.Lap(now)
	if ts == 0 {
		return
	}
	mismatch := (r.enqueued.Rate(ts) - sane(c0)) * ts
	if t := sane(r.Period); t > 0 {
		mismatch += sane(r.Alpha) * (sane(queued) - sane(r.Target)) * min(ts, 1) / t
	}
	r.price = clip(r.price+sane(r.Gamma)*mismatch, 0, r.dearest())
}

// dearest is the price at which p = .999.
func (r *REM) dearest() float64 {
	if !(r.Phi > 1) {
		return 0
	}
	return math.Log(1000) / math.Log(r.Phi)
}

// Price is μ.
func (r *REM) Price() float64 { return r.price }

// Probability is p, in [0, .999].
func (r *REM) Probability() float64 {
	if !(r.Phi > 1) {
		return 0
	}
	return clip(-math.Expm1(-r.price*math.Log(r.Phi)), 0, 1)
}

// Arrive marks with probability p and counts the queued cost.
func (r *REM) Arrive(a aqm.Arrival) aqm.Verdict {
	verdict := chosen(r.Mode, a, r.Buffer, r.Probability())
	if verdict != aqm.Drop {
		r.enqueued.Count(a.Cost)
	}
	return verdict
}

// Depart accepts: the law acts on arrival.
func (r *REM) Depart(_, _, _ float64) aqm.Verdict { return aqm.Accept }
