package aqm

import "math"

// Mode says what the clients of a queue do when they are marked.
type Mode uint8

const (
	// Cooperative clients slow down when marked: the law marks.
	Cooperative Mode = iota
	// DropMode is for clients that do not: the law drops, and its
	// probability settles at 1 − 1/ρ for offered load ρ.
	DropMode
)

// VSD marks so that the wait in a queue stays near a target. It is the variable-structure
// law of Yan, Gao and Özbay with three changes. The sliding surface S is written in units
// of delay instead of packets, so that one set of gains serves every rate. The sign of S is
// replaced by a boundary layer with an integral term, so that the queue comes to rest at
// the target instead of oscillating around it. p is kept within [0, 1]. Numbers in
// parentheses are the paper's equations.
//
//	rr += w_f·(enq/Ts − rr)                      enqueued rate, smoothed
//	S   = kS·(q/C0 − dT) + (rr − C0)/C0          surface, (7) in delay form
//	s   = clip(S/φ, −1, 1)                       boundary layer for sign(S)
//	p   = clip(z + δ·s, 0, 1)                    (9), saturated
//	z   = clip(z + Ts·ki·s, 0, 1)                equivalent control
//
//	           kS          δ    φ    ki
//	Cooperative 0.5/τ_eff   0.3  1    0.3·kS     τ_eff = max(τ_client, M/C0) + dT
//	DropMode    0.5/dT      0.5  0.5  0.3·kS
//
// The rate must be the *enqueued* rate: with the offered rate the queue rests off
// its target. On arrival: q ≥ 3·C0·dT → Drop; Rand < p → Mark, or Drop in DropMode and for
// a greedy client. Below C0·dT = 5, where the target is a queue of fewer than five requests,
// the law is [DropTail].
//
//	symbol          here
//	q, C0, M        queued, c0, clients (arguments of Step): queue, service rate, clients
//	dT, τ_client    Delay, ClientDelay
//	rr, z, p        rate, z, p; w_f is smoothing, kS, δ and φ are gains
//	enq, Ts         cost enqueued since the last step, seconds since then
type VSD struct {
	// Delay is the target d_T in seconds, range > 0 (product default 0.05).
	// Larger keeps the share busier under bursty load; everybody waits longer.
	Delay float64
	// ClientDelay is τ_client in seconds: how long clients take to react to a
	// mark (round trip and think time). Too small makes the law oscillate.
	ClientDelay float64
	// Mode says whether clients slow down when marked.
	Mode Mode
	// Deadline discards a request at departure that waited longer, in
	// seconds; 0 keeps all. With it goodput stays when clients retry.
	Deadline float64

	rate, z, p float64
	c0         float64
	enqueued   Meter
}

// Step updates the marking probability. A call that does not advance time
// only sets c0.
func (v *VSD) Step(now, queued, c0, clients float64) {
	first := !v.enqueued.started
	v.c0 = sane(c0)
	ts := v.enqueued.Lap(now)
	if ts == 0 {
		if first {
			v.rate = v.c0
		}
		return
	}
	v.rate += v.smoothing(ts) * (v.enqueued.Rate(ts) - v.rate)
	if v.tailed() {
		v.z, v.p = 0, 0
		return
	}
	kS, delta, phi := v.gains(sane(clients))
	surface := kS*(sane(queued)/v.c0-v.Delay) + (v.rate-v.c0)/v.c0
	s := clip(surface/phi, -1, 1)
	v.p = clip(v.z+delta*s, 0, 1)
	// A long gap is one look at the queue, not many: integrate at most 1 s.
	v.z = clip(v.z+min(ts, 1)*0.3*kS*s, 0, 1)
}

// Probability is the marking probability p in force, in [0,1].
func (v *VSD) Probability() float64 { return v.p }

// Arrive gives the verdict on an arrival, see the type's comment.
func (v *VSD) Arrive(a Arrival) Verdict {
	verdict := v.judge(a)
	if verdict != Drop {
		v.enqueued.Count(a.Cost)
	}
	return verdict
}

// judge decides on an arrival without counting it.
func (v *VSD) judge(a Arrival) Verdict {
	queued := sane(a.Queued)
	switch {
	case v.tailed():
		return tail(queued, sane(a.Cost), tailLimit(v.c0, v.Delay))
	case queued >= 3*v.c0*v.Delay:
		return Drop
	case !(a.Rand < v.p):
		return Accept
	case v.Mode == DropMode || a.Greedy:
		return Drop
	default:
		return Mark
	}
}

// Depart drops what waited longer than Deadline.
func (v *VSD) Depart(_, _, sojourn float64) Verdict { return stale(sojourn, v.Deadline) }

// tailed reports whether the share is too small for a law with a probability.
func (v *VSD) tailed() bool { return !(v.c0*v.Delay >= 5) }

// gains are kS (1/s), δ and φ of the mode.
func (v *VSD) gains(clients float64) (kS, delta, phi float64) {
	if v.Mode == DropMode {
		return 0.5 / v.Delay, 0.5, 0.5
	}
	return 0.5 / (max(sane(v.ClientDelay), clients/v.c0) + v.Delay), 0.3, 1
}

// smoothing is w_f for a step of ts seconds: a time constant of half the delay
// target, fast against the queue and slow against single arrivals.
func (v *VSD) smoothing(ts float64) float64 {
	tau := sane(v.Delay) / 2
	if tau <= 0 {
		return 1
	}
	return -math.Expm1(-ts / tau)
}
