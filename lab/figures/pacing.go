package main

import (
	"math"
	"math/rand/v2"

	"github.com/titrate/titrate/control/rmc"
)

// pacing draws the error of the send loops over the rate: packets of 1500 bytes, a timer
// of 1 ms, wake-ups up to 8 ms late in the middle third.
func pacing() []figure {
	const granularity = 1e-3
	f := figure{name: "pacing-error", title: "Error of the send loops, 60 s each, the CPU loaded for a third of it", x: "rate (Mbit/s)", y: "relative error", log: true}
	for _, c := range []struct {
		name string
		loop func() rmc.Loop
	}{
		{"RFC 3448 as the paper has it, no burst", func() rmc.Loop { return rmc.RFC3448NoBurst{Granularity: granularity} }},
		{"RFC 3448 as the paper has it, bursts", func() rmc.Loop { return rmc.RFC3448Burst{Granularity: granularity} }},
		{"rate mismatch controller", func() rmc.Loop { return &rmc.Controlled{Sender: rmc.Sender{Gain: 1}, Period: 5e-3} }},
		{"RFC 3448 §4.6, nominal time", func() rmc.Loop { return &rmc.RFC3448Nominal{Granularity: granularity} }},
	} {
		l := line{name: c.name}
		for _, rate := range []float64{1, 2, 5, 10, 20, 50, 100, 200, 400, 600} {
			l.add(rate, max(1e-6, drive(c.loop(), rate*1e6/8, granularity)))
		}
		f.lines = append(f.lines, l)
	}
	return []figure{f}
}

// drive runs a loop for a minute and returns how far its mean rate is off.
func drive(l rmc.Loop, rate, granularity float64) float64 {
	const size, span, late = 1500.0, 60.0, 8e-3
	rng := rand.New(rand.NewPCG(3, 4))
	sent, now := 0.0, 0.0
	for now < span {
		n, sleep := l.Wake(now, rate, size)
		sent += n
		wake := math.Ceil((now+sleep)/granularity-1e-9) * granularity
		if now > span/3 && now < 2*span/3 {
			wake += late * rng.Float64()
		}
		now = wake
	}
	return math.Abs(rate-sent/now) / rate
}
