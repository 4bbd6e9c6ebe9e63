package marking

import "github.com/titrate/titrate/control/aqm"

// PIE is the proportional integral controller enhanced (RFC 8033).
//
//	D  = q/C0
//	p += s·(α·(D − D*)·Ts/T + β·(D − Dold)),  p ≤ old + .02 once p ≥ .1
//	p *= .98^(Ts/T)                           while D = Dold = 0
//
// where s is 1 for p ≥ .1 and falls with p (1/2, 1/8, 1/32, 1/128, 1/512,
// 1/2048 per decade), so that small probabilities move in small steps. No hit
// while the burst allowance lasts, while Dold < D*/2 and p < .2, and with two
// requests or less in the queue. Marks become drops above p = .1.
//
//	source            here       source          here
//	QDELAY_REF = D*   Delay      T_UPDATE = T    15 ms
//	α, β              .125, 1.25 (1/s)           MAX_BURST  Burst
//
// The rate C0 is known here, so the source's rate measurement is left out. Its optional derandomisation is left
// out too. The factor Ts/T makes any spacing of the steps equivalent. Bad numbers: as in package aqm.
type PIE struct {
	// Delay is D* in seconds, > 0; the source has .015.
	Delay float64
	// Burst is the time of congestion that passes without marks after a calm time, seconds, ≥ 0; the source has
	// .15.
	Burst float64
	// Buffer is the most that may wait, cost units; beyond it arrivals drop.
	Buffer float64
	// Mode selects whether a hit marks or drops.
	Mode aqm.Mode

	p, delay  float64
	allowance float64
	started   bool
	clock     aqm.Meter
}

const (
	pieUpdate = 0.015 // T, s
	pieAlpha  = 0.125
	pieBeta   = 1.25
)

// DefaultPIE has the source's parameters.
func DefaultPIE(buffer float64) PIE { return PIE{Delay: 0.015, Burst: 0.15, Buffer: buffer} }

// Step updates p by the delay that the queue stands for.
func (l *PIE) Step(now, queued, c0, _ float64) {
	if !l.started {
		l.started, l.allowance = true, sane(l.Burst)
	}
	ts := l.clock.Lap(now)
	if ts == 0 {
		return
	}
	delay, rounds := delayOf(sane(queued), sane(c0)), min(ts, 1)/pieUpdate
	change := pieScale(l.p) * (pieAlpha*(delay-sane(l.Delay))*rounds + pieBeta*(delay-l.delay))
	if l.p >= 0.1 {
		change = min(change, 0.02*rounds)
	}
	l.p = clip(l.p+change, 0, 1)
	if delay == 0 && l.delay == 0 {
		l.p *= max(0, 1-0.02*min(rounds, 50))
	}
	l.allowance = max(0, l.allowance-ts)
	if calm := sane(l.Delay) / 2; l.p < 1e-12 && delay < calm && l.delay < calm {
		l.p, l.allowance = 0, sane(l.Burst)
	}
	l.delay = delay
}

// delayOf is the time in seconds that a queue takes at rate c0, at most 1000 s.
func delayOf(queued, c0 float64) float64 {
	if queued == 0 {
		return 0
	}
	return clip(queued/max(c0, 1e-15), 0, 1000)
}

// pieScale is s: smaller by two to four with every decade of p below .1.
func pieScale(p float64) float64 {
	switch {
	case p < 1e-6:
		return 1. / 2048
	case p < 1e-5:
		return 1. / 512
	case p < 1e-4:
		return 1. / 128
	case p < 1e-3:
		return 1. / 32
	case p < 1e-2:
		return 1. / 8
	case p < 0.1:
		return 1. / 2
	default:
		return 1
	}
}

// Probability is p, in [0,1].
func (l *PIE) Probability() float64 { return l.p }

// Arrive gives the verdict on an arrival, see the type's comment.
func (l *PIE) Arrive(a aqm.Arrival) aqm.Verdict {
	calm := l.allowance > 0 || l.delay < sane(l.Delay)/2 && l.p < 0.2 || sane(a.Queued) <= 2
	if calm {
		return chosen(l.Mode, a, l.Buffer, 0)
	}
	if l.p > 0.1 {
		return chosen(aqm.DropMode, a, l.Buffer, l.p)
	}
	return chosen(l.Mode, a, l.Buffer, l.p)
}

// Depart accepts: the law acts on arrival.
func (l *PIE) Depart(_, _, _ float64) aqm.Verdict { return aqm.Accept }
