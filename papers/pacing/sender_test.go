package pacing_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/titrate/titrate/papers/pacing"
)

// drive runs a loop for duration seconds under an operating system whose timer has
// granularity tg and wakes late by up to load. It returns the average relative error of the
// rate, signed: (r_c − r_e)/r_c.
func drive(l pacing.Loop, rate, size, duration, tg, load float64) float64 {
	rng := rand.New(rand.NewPCG(3, 4))
	sent, now := 0.0, 0.0
	for now < duration {
		s, sleep := l.Wake(now, rate, size)
		sent += s
		wake := math.Ceil((now+sleep)/tg-1e-9) * tg // next timer interrupt
		if now > duration/3 && now < 2*duration/3 { // the paper's loaded interval
			wake += load * rng.Float64()
		}
		now = wake
	}
	return (rate - sent/now) / rate
}

// The paper's experiment (section V-A): rates 1…600 Mbit/s, packets of 1500
// bytes, HZ=1000, CPU load in the middle third.
func TestRateErrorOfTheLoops(t *testing.T) {
	const size, duration, tg, load = 1500.0, 60.0, 1e-3, 8e-3
	worst := map[string]float64{}
	for _, mbps := range []float64{1, 10, 100, 200, 400, 500, 600} {
		rate := mbps * 1e6 / 8
		for name, l := range map[string]pacing.Loop{
			"rmc":     &pacing.Controlled{Sender: pacing.Sender{Gain: 1}, Period: 5e-3},
			"nominal": &pacing.RFC3448Nominal{Granularity: tg},
			"burst":   pacing.RFC3448Burst{Granularity: tg},
			"single":  pacing.RFC3448NoBurst{Granularity: tg},
		} {
			e := drive(l, rate, size, duration, tg, load)
			worst[name] = math.Max(worst[name], math.Abs(e))
		}
	}
	t.Logf("worst relative error: %v", worst)
	if worst["rmc"] > 0.0006 {
		t.Errorf("RMC errs by %.3f %%, the paper has < 0.06 %%", 100*worst["rmc"])
	}
	if worst["nominal"] > 0.0006 {
		t.Errorf("nominal time errs by %.3f %%", 100*worst["nominal"])
	}
	if worst["burst"] < 0.02 || worst["single"] < 0.5 {
		t.Errorf("the RFC loops without feedback err by only %.3f and %.3f", worst["burst"], worst["single"])
	}
}

// Proposition 1: the pole is 1 − k_r. In steady state the output lags by r·T_s·(1/k_r − 1); at and beyond k_r =
// 2 it diverges.
func TestGain(t *testing.T) {
	const rate, ts = 1e6, 0.01
	for _, k := range []float64{0.1, 0.5, 1, 1.5, 1.9} {
		s := pacing.Sender{Gain: k}
		s.Step(0, rate, 1)
		for range 2000 {
			s.Step(ts, rate, 1)
		}
		if lag, want := s.Mismatch(),
			rate*ts*(1/k-1); math.Abs(lag-want) > 2/(1-math.Abs(1-k)) { // rounding to whole packets, through the pole
			t.Errorf("k_r=%v: lag %v, want %v", k, lag, want)
		}
	}
	s, largest := pacing.Sender{Gain: 2.1}, 0.0
	s.Step(0, rate, 1)
	for range 200 {
		largest = math.Max(largest, s.Step(ts, rate, 1))
	}
	if largest < 2*rate*ts {
		t.Errorf("k_r=2.1 stays bounded (largest burst %v)", largest)
	}
}

// k_r = 1 is dead-beat: after a step of the rate the next tick sends the new
// amount exactly.
func TestUnitGainIsDeadBeat(t *testing.T) {
	s := pacing.Sender{Gain: 1}
	s.Step(0, 100, 1)
	s.Step(0.1, 1000, 1)
	if got := s.Step(0.1, 1000, 1); got != 100 {
		t.Errorf("sent %v in the tick after the step, want 100", got)
	}
}
