package aqm_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/titrate/titrate/control/aqm"
)

// outcome holds the statistics of a simulated queue over the measured part of a run.
type outcome struct {
	delay, p               float64 // means: wait in s, probability
	offered, served        float64
	marks, drops, peakWait float64
}

// prober is a law whose probability can be read.
type prober interface {
	aqm.Law
	Probability() float64
}

// clients is the load on a queue: rate now, and what a verdict does to it.
type clients interface {
	rate(now float64) float64
	hear(now float64, v aqm.Verdict)
	count() float64
}

// run drives a law in front of a server of c0 requests/s with Poisson arrivals
// from the clients for duration seconds and measures the second half.
func run(law prober, c0, duration float64, load clients, seed uint64) (o outcome) {
	rng := rand.New(rand.NewPCG(seed, 1))
	var queue []float64 // arrival times
	const dt = 1e-3
	credit, next, samples := 0.0, 0.0, 0.0
	for now := 0.0; now < duration; now += dt {
		measured := now > duration/2
		if now >= next {
			law.Step(now, float64(len(queue)), c0, load.count())
			next = now + aqm.Interval(c0)
			if measured {
				o.p, samples = o.p+law.Probability(), samples+1
			}
		}
		for n := poisson(rng, load.rate(now)*dt); n > 0; n-- {
			v := law.Arrive(aqm.Arrival{Now: now, Cost: 1, Queued: float64(len(queue)), Rand: rng.Float64()})
			load.hear(now, v)
			if v != aqm.Drop {
				queue = append(queue, now)
			}
			if measured {
				o.offered++
				switch v {
				case aqm.Mark:
					o.marks++
				case aqm.Drop:
					o.drops++
				}
			}
		}
		credit = math.Min(credit+c0*dt, 1+c0*dt)
		for ; credit >= 1 && len(queue) > 0; queue = queue[1:] {
			wait := now - queue[0]
			if law.Depart(now, float64(len(queue)-1), wait) == aqm.Drop {
				if measured {
					o.drops++
				}
				continue
			}
			credit--
			if measured {
				o.served, o.delay = o.served+1, o.delay+wait
				o.peakWait = math.Max(o.peakWait, wait)
			}
		}
	}
	o.delay, o.p = o.delay/o.served, o.p/samples
	o.served /= c0 * duration / 2 // utilisation
	return o
}

func poisson(rng *rand.Rand, mean float64) (n int) {
	for limit, p := math.Exp(-mean), rng.Float64(); p > limit; p *= rng.Float64() {
		n++
	}
	return n
}

// steady is an open loop: it offers the same rate whatever happens.
type steady struct{ offered float64 }

func (s steady) rate(float64) float64      { return s.offered }
func (s steady) hear(float64, aqm.Verdict) {}
func (s steady) count() float64            { return 10 }

// aimd is m cooperative clients in aggregate: each raises its rate by gain per
// second and halves it, at most once per reaction time, when marked or dropped.
type aimd struct {
	m, gain, reaction float64
	each              float64
	last              float64
	pending           []float64
}

func (c *aimd) count() float64 { return c.m }

func (c *aimd) rate(now float64) float64 {
	for len(c.pending) > 0 && now >= c.pending[0] { // one of m clients backs off
		c.each *= 1 - 0.5/c.m
		c.pending = c.pending[1:]
	}
	c.each += c.gain * (now - c.last)
	c.last = now
	return c.m * c.each
}

func (c *aimd) hear(now float64, v aqm.Verdict) {
	if v != aqm.Accept {
		c.pending = append(c.pending, now+c.reaction)
	}
}

// Open-loop overload: the probability settles at 1 − 1/ρ, the wait at its
// target, the share stays used.
func TestDropModeHoldsTheTarget(t *testing.T) {
	for _, c0 := range []float64{150, 500, 2000} {
		for _, rho := range []float64{1.2, 1.5, 2, 3} {
			law := &aqm.VSD{Delay: 0.05, Mode: aqm.DropMode}
			o := run(law, c0, 60, steady{rho * c0}, 1)
			t.Logf("C0=%v ρ=%v: wait %.1f ms (peak %.0f), p %.3f (1−1/ρ = %.3f), use %.3f", c0, rho, 1e3*o.delay,
				1e3*o.peakWait,
				o.p, 1-1/rho, o.served)
			if math.Abs(o.delay-0.05) > 0.015 || math.Abs(o.p-(1-1/rho)) > 0.05 || o.served < 0.98 {
				t.Errorf("C0=%v ρ=%v: %+v", c0, rho, o)
			}
			if o.peakWait > 3*0.05+2/c0 {
				t.Errorf("C0=%v ρ=%v: peak wait %v beyond 3·dT", c0, rho, o.peakWait)
			}
		}
	}
}

// Cooperative clients are marked, hardly ever refused, and wait about dT at
// most. Few clients that halve leave some of the share unused, as AIMD does.
func TestCooperativeClientsAreNotRefused(t *testing.T) {
	for m, use := range map[float64]float64{5: 0.8, 20: 0.95, 60: 0.98} {
		law := &aqm.VSD{Delay: 0.1, ClientDelay: 0.1}
		load := &aimd{m: m, gain: 5, reaction: 0.1, each: 1}
		o := run(law, 500, 120, load, 2)
		t.Logf("M=%v: wait %.1f ms (peak %.0f), p %.3f, use %.3f, marks %.3f, drops %.4f", m, 1e3*o.delay,
			1e3*o.peakWait,
			o.p, o.served, o.marks/o.offered, o.drops/o.offered)
		if o.drops/o.offered > 1e-3 || o.served < use || o.delay > 0.15 {
			t.Errorf("M=%v: %+v", m, o)
		}
	}
}

// Below the share nothing is marked or refused and nobody waits for the law.
func TestNoLoadNoMarks(t *testing.T) {
	for _, mode := range []aqm.Mode{aqm.Cooperative, aqm.DropMode} {
		o := run(&aqm.VSD{Delay: 0.05, Mode: mode}, 500, 30, steady{300}, 3)
		if o.marks+o.drops > 1e-3*o.offered {
			t.Errorf("%v: %v marks, %v drops of %v", mode, o.marks, o.drops, o.offered)
		}
	}
}
