// Package pacing reproduces De Cicco & Mascolo, "A Mismatch Controller for Implementing
// High-Speed Rate-based Transport Protocols". It has the send loops ([Sender], [Loop]) on a model
// of the two kernels that the paper used, and on the kernel at hand.
//
// The model of Linux 2.6.19 is its timer tick: a sleep of d ends at the (⌈d/tick⌉+1)-th tick
// from now. With HZ = 100 a sleep of 1 ms, or less, takes 20 ms. Linux 2.6.28 has high
// resolution timers. Sleeps are exact, but none is shorter than 114 µs, or 171 µs while other
// processes use the CPU. These two numbers are fitted to the paper's figure 9b (105 and 70
// Mbit/s); everything else follows.
package pacing

import (
	"math"
	"math/rand/v2"
)

const (
	packet  = 1500. // bytes
	granule = 1e-3  // s, t_g that the loops are configured with
)

// kernel is a model of when a sleeping process runs again.
type kernel struct {
	name string
	// tick is the timer tick, s; 0: high resolution timers.
	tick float64
	// shortest and loaded are the shortest sleeps, s, without and with load.
	shortest, loaded float64
}

var (
	old = kernel{name: "2.6.19, HZ = 100", tick: .01}
	now = kernel{name: "2.6.28, HZ = 100", shortest: 114e-6, loaded: 171e-6}
)

// wake returns when a process runs again that sleeps for d from t. Under load the process also waits for the
// CPU, up to 2 ms.
func (k kernel) wake(t, d float64, load bool, rng *rand.Rand) float64 {
	least := k.shortest
	if load {
		least = k.loaded
	}
	at := t + math.Max(d, least)
	if k.tick > 0 {
		at = (math.Floor(t/k.tick+1e-9) + math.Ceil(d/k.tick-1e-9) + 1) * k.tick
		if load {
			at += .002 * rng.Float64()
		}
	}
	return at
}

// command is the rate over time, bytes/s.
type command func(t float64) float64

// constant is a rate in Mbit/s.
func constant(mbit float64) command { return func(float64) float64 { return mbit * 1e6 / 8 } }

// drive runs a loop for span seconds. Other processes load the CPU from a third to two thirds of the span. It
// calls see at each wake-up with the bytes that the loop sends.
func drive(l Loop, k kernel, c command, span float64, load bool, see func(t, bytes float64)) (mean float64) {
	rng := rand.New(rand.NewPCG(9, 9))
	sum, t := 0., 0.
	for t < span {
		sent, sleep := l.Wake(t, c(t), packet)
		sum += sent
		if see != nil {
			see(t, sent)
		}
		busy := load && t > span/3 && t < 2*span/3
		t = k.wake(t, sleep, busy, rng)
	}
	return sum / t
}

// named is a send loop of the paper's comparison.
type named struct {
	name string
	make func(k kernel) Loop
}

var loops = []named{
	{"RFC 3448 (no bursts)", func(kernel) Loop { return RFC3448NoBurst{Granularity: 1e-6} }},
	{"RFC 3448 (bursts)", func(kernel) Loop { return RFC3448Burst{Granularity: granule} }},
	{"RMC", func(kernel) Loop { return controlled(1) }},
	{"RFC 3448 §4.6, nominal time", func(kernel) Loop { return &RFC3448Nominal{Granularity: granule} }},
}

// controlled is the paper's loop with a gain, every 10 ms.
func controlled(gain float64) Loop {
	return &Controlled{Sender: Sender{Gain: gain}, Period: .01}
}
