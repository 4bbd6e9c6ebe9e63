package pacing_test

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/papers/pacing"
)

// algorithm2 is the paper's Algorithm 2 with its two accumulators, corrected (≤, the
// old rate, nothing dequeued and lost), in exact arithmetic: the slow oracle.
type algorithm2 struct {
	dc, de, rate, gain *big.Rat
}

func exact(v float64) *big.Rat { return new(big.Rat).SetFloat64(v) }

func (a *algorithm2) iterate(dt, rate float64, queue []float64) (sent int) {
	a.dc.Add(a.dc, new(big.Rat).Mul(a.rate, exact(dt)))
	a.rate = exact(rate)
	y := new(big.Rat).Sub(a.dc, a.de)
	y.Mul(y, a.gain)
	sum := new(big.Rat)
	for _, size := range queue {
		with := new(big.Rat).Add(sum, exact(size))
		if with.Cmp(y) > 0 {
			break
		}
		sum, sent = with, sent+1
	}
	a.de.Add(a.de, sum)
	return sent
}

// For any k_r, in bytes (packets of 40 to 1500) and in requests (of cost 1), the sender sends the same packets
// as the oracle. All numbers are dyadic, so that floats are exact here.
func TestSenderIsAlgorithm2(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gain := float64(rapid.IntRange(1, 40).Draw(t, "k_r")) / 16
		bytes := rapid.Bool().Draw(t, "bytes")
		s := pacing.Sender{Gain: gain}
		slow := algorithm2{new(big.Rat), new(big.Rat), new(big.Rat), exact(gain)}
		var queue []float64
		for range rapid.IntRange(1, 60).Draw(t, "iterations") {
			dt := float64(rapid.IntRange(0, 64).Draw(t, "dt")) / 1024
			rate := float64(rapid.IntRange(0, 400).Draw(t, "rate"))
			if bytes {
				rate *= 1500
			}
			for len(queue) < 64 {
				size := 1.0
				if bytes {
					size = float64(rapid.IntRange(40, 1500).Draw(t, "size"))
				}
				queue = append(queue, size)
			}
			want := slow.iterate(dt, rate, queue)
			got, sum := 0, 0.0
			for y := s.Allow(dt, rate); got < len(queue) && sum+queue[got] <= y; got++ {
				sum += queue[got]
			}
			s.Sent(sum)
			owed, _ := new(big.Rat).Sub(slow.dc, slow.de).Float64()
			if got != want || math.Abs(s.Mismatch()-owed) > 1e-6 {
				t.Fatalf("k_r=%v: sent %d, owes %v; oracle %d, %v", gain, got, s.Mismatch(), want, owed)
			}
			queue = queue[got:]
		}
	})
}

// In the long run every stable gain holds the rate, in any unit: the mismatch stays at r·T_s·(1/k_r − 1) within
// packets, and so does not grow.
func TestEveryStableGainHoldsTheRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.Float64Range(.1, 1.9).Draw(t, "k_r")
		size := rapid.SampledFrom([]float64{1, 40, 1500}).Draw(t, "size")
		rate := size * math.Pow(10, rapid.Float64Range(-2, 5).Draw(t, "log packets/s"))
		ts := rapid.Float64Range(.001, .1).Draw(t, "T_s")
		s := pacing.Sender{Gain: k}
		s.Step(0, rate, size)
		for range 3000 {
			s.Step(ts, rate, size)
		}
		lag := rate * ts * (1/k - 1)
		// Whole packets: up to one is kept back per step, through the pole 1 − k_r. A packet is sent once
		// k_r·mismatch covers its size, so up to 1/k_r packets wait.
		if most := size * (1/k + 2/(1-math.Abs(1-k))); math.Abs(s.Mismatch()-lag) > most {
			t.Fatalf("k_r=%v, %v/s in %v: owes %v, want %v within %v", k, rate, size, s.Mismatch(), lag, most)
		}
	})
}

// loop is a send loop under test.
type loop struct {
	pacing.Loop
	name     string
	feedback bool // a late wake-up is made up for
}

// loops are all send loops; the conformance tests run over each.
func loops(granularity, gain float64) []loop {
	return []loop{
		{&pacing.Controlled{Sender: pacing.Sender{Gain: gain}, Period: granularity}, "controlled", true},
		{&pacing.RFC3448Nominal{Granularity: granularity}, "nominal", true},
		{pacing.RFC3448Burst{Granularity: granularity}, "burst", false},
		{pacing.RFC3448NoBurst{Granularity: granularity}, "single", false},
	}
}

// Whatever comes in, a loop sends a finite number of whole packets, sleeps for a
// finite time, and works afterwards.
func TestLoopsSurviveBadNumbers(t *testing.T) {
	bad := []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0, 1e-300, 1, 1e7, math.MaxFloat64}
	number := rapid.SampledFrom(bad)
	rapid.Check(t, func(t *rapid.T) {
		for _, l := range loops(number.Draw(t, "granularity"), number.Draw(t, "gain")) {
			for range rapid.IntRange(1, 20).Draw(t, "wakes") {
				sent, sleep := l.Wake(number.Draw(t, "now"), number.Draw(t, "rate"), number.Draw(t, "size"))
				if !(sent >= 0) || math.IsInf(sent, 1) || !(sleep > 0) || math.IsInf(sleep, 1) {
					t.Fatalf("%s: sent %v, sleeps %v", l.name, sent, sleep)
				}
			}
			l.Wake(0, 0, 1)
			if sent, _ := l.Wake(1, 0, 1); sent != 0 && l.name != "controlled" { // controlled sends its mismatch
				t.Fatalf("%s: sends %v at rate 0", l.name, sent)
			}
		}
		s := pacing.Sender{Gain: number.Draw(t, "k_r")}
		for range 20 {
			sent := s.Step(number.Draw(t, "dt"), number.Draw(t, "r"), number.Draw(t, "c"))
			s.Sent(number.Draw(t, "more"))
			if !(sent >= 0) || math.IsInf(sent, 1) || math.IsNaN(s.Mismatch()) || math.IsInf(s.Mismatch(), 0) {
				t.Fatalf("%+v sent %v", s, sent)
			}
		}
	})
}

// A clock that jumps back neither starves the loops that read it nor lets them burst.
func TestLoopsWithAClockSetBack(t *testing.T) {
	for _, l := range loops(.001, 1) {
		sent := 0.0
		for i := range 2000 {
			now := float64(i) * .001
			if i >= 1000 {
				now -= 500
			}
			n, _ := l.Wake(now, 100, 1)
			sent += n
		}
		if l.feedback && math.Abs(sent-200) > 3 {
			t.Errorf("%s: %v sent in 2 s at 100/s", l.name, sent)
		}
	}
}

// The mismatch after ten million steps equals the mismatch after the first steps.
func TestNoDriftInTenMillionSteps(t *testing.T) {
	const steps, ts, rate = 10_000_000, 1e-3, 33.3
	s, sent := pacing.Sender{Gain: 1}, 0.0
	s.Step(0, rate, 1)
	for range steps {
		sent += s.Step(ts, rate, 1)
	}
	if owed := steps*ts*rate - sent; owed < -1e-3 || owed > 1+1e-3 {
		t.Errorf("owes %v after %d steps", owed, steps)
	}
}

func TestSendersAllocateNothing(t *testing.T) {
	all, now := loops(.001, 1), 0.0
	if n := testing.AllocsPerRun(100, func() {
		now += .001
		for _, l := range all {
			l.Wake(now, 1e5, 1500)
		}
	}); n != 0 {
		t.Errorf("%v allocations per wake", n)
	}
}

func BenchmarkSender(b *testing.B) {
	s := pacing.Sender{Gain: 1}
	b.ReportAllocs()
	for b.Loop() {
		s.Step(.001, 1000, 1)
	}
}

func BenchmarkLoops(b *testing.B) {
	for _, l := range loops(.001, 1) {
		b.Run(l.name, func(b *testing.B) {
			now := 0.0
			b.ReportAllocs()
			for b.Loop() {
				now += .001
				l.Wake(now, 1e6, 1500)
			}
		})
	}
}
