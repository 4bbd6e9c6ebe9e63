package pacing_test

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/pacing"
)

// Vector R25: 0.001 to 1e6 req/s, random tick lengths below the burst time,
// always a backlog: 0 ≤ owed − sent ≤ 1, with owed summed in exact arithmetic.
func TestOwedMinusSentStaysWithinOneRequest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := math.Pow(10, rapid.Float64Range(-3, 6).Draw(t, "log rate"))
		// Ticks are short against the burst time, or against one request.
		longest := math.Max(0.04, 0.9/r)
		var p pacing.Pacer
		p.Advance(0, r)
		owed, sent := new(big.Rat), 0.0
		for range rapid.IntRange(1, 200).Draw(t, "ticks") {
			dt := rapid.Float64Range(0, longest).Draw(t, "dt")
			owed.Add(owed, new(big.Rat).Mul(new(big.Rat).SetFloat64(dt), new(big.Rat).SetFloat64(r)))
			p.Advance(dt, r)
			for p.Take(1) {
				sent++
			}
			o, _ := owed.Float64()
			if d := o - sent; d < -1e-3 || d > 1+1e-3 {
				t.Fatalf("owed − sent = %v at rate %v", d, r)
			}
		}
	})
}

func TestCreditNeverExceedsItsCeiling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := pacing.Pacer{Burst: rapid.Float64Range(0, 2).Draw(t, "burst")}
		need := 0.0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "op") {
			case 0:
				p.Advance(rapid.Float64Range(0, 100).Draw(t, "dt"), rapid.Float64Range(0, 1e4).Draw(t, "r"))
			case 1:
				p.Add(rapid.Float64Range(0, 100).Draw(t, "credit"))
			case 2:
				if c := rapid.Float64Range(0, 50).Draw(t, "cost"); p.Take(c) {
					need = 0
				} else {
					need = c
				}
				continue // spending does not clamp what is left
			case 3:
				p.Charge(rapid.Float64Range(0, 50).Draw(t, "charge"))
				continue
			default:
				p.Idle()
				need = 0
			}
			if p.Credit() > need+p.Cap() {
				t.Fatalf("credit %v above %v", p.Credit(), need+p.Cap())
			}
		}
	})
}

func TestPacerEdges(t *testing.T) {
	t.Run("old rate pays for the interval that has passed", func(t *testing.T) {
		var p pacing.Pacer
		p.Advance(0, 10)
		p.Advance(0.05, 1e6)
		if got := p.Credit(); math.Abs(got-0.5) > 1e-12 {
			t.Errorf("credit %v, want 0.5", got)
		}
	})
	t.Run("idle keeps one request at a low rate, a burst at a high one", func(t *testing.T) {
		var low, high pacing.Pacer
		for range 100 {
			low.Advance(1, 2)
			high.Advance(1, 1000)
		}
		if low.Credit() != 1 || high.Credit() != 1000*pacing.DefaultBurst {
			t.Errorf("idle credit %v and %v, want 1 and %v", low.Credit(), high.Credit(), 1000*pacing.DefaultBurst)
		}
		high.Advance(0, 10)
		if high.Credit() != 1 {
			t.Errorf("credit %v after the rate fell, want 1", high.Credit())
		}
	})
	t.Run("a stalled backlog gets one burst, not the arrears", func(t *testing.T) {
		var p pacing.Pacer
		p.Advance(0, 1000)
		p.Take(1)
		p.Advance(60, 1000)
		if got, most := p.Credit(), 1+1000*pacing.DefaultBurst; got > most {
			t.Errorf("credit %v after a stall, want ≤ %v", got, most)
		}
	})
	t.Run("a request larger than the cap is served", func(t *testing.T) {
		var p pacing.Pacer
		p.Advance(0, 10)
		ticks := 0
		for !p.Take(50) {
			p.Advance(0.005, 10)
			ticks++
		}
		if ticks < 999 || ticks > 1001 {
			t.Errorf("50 units at 10/s took %d ticks of 5 ms, want 1000", ticks)
		}
	})
	t.Run("debt is repaid first", func(t *testing.T) {
		var p pacing.Pacer
		p.Advance(0, 10)
		p.Charge(5)
		p.Take(1)
		p.Advance(0.5, 10)
		if p.Take(1) {
			t.Error("released while in debt")
		}
		if p.Advance(0.1, 10); !p.Take(1) {
			t.Error("not released 0.1 s later")
		}
	})
	t.Run("a controller's releases pay", func(t *testing.T) {
		var p pacing.Pacer
		for range 10 {
			p.Take(1)
			p.Add(0.1)
		}
		if !p.Take(1) {
			t.Error("ten tenths do not pay for one request")
		}
	})
	t.Run("rate 0 releases nothing", func(t *testing.T) {
		var p pacing.Pacer
		p.Take(1)
		if p.Advance(1e6, 0); p.Take(1) || !p.Take(0) {
			t.Errorf("credit %v at rate 0", p.Credit())
		}
	})
}

func TestPacerBadNumbers(t *testing.T) {
	bad := []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, math.MaxFloat64, 0, 1}
	for _, a := range bad {
		for _, b := range bad {
			p := pacing.Pacer{Burst: a}
			p.Advance(a, b)
			p.Advance(b, a)
			p.Add(a)
			p.Take(b)
			p.Charge(a)
			p.Idle()
			if math.IsNaN(p.Credit()) || p.Rate() < 0 || p.Rate() > pacing.MaxRate {
				t.Fatalf("%v, %v: %+v", a, b, p)
			}
		}
	}
}

// Ten million steps later the pacer owes what it owed after the first ones.
func TestNoDriftInTenMillionSteps(t *testing.T) {
	const steps, ts, rate = 10_000_000, 1e-3, 33.3
	var p pacing.Pacer
	p.Advance(0, rate)
	sent := 0.0
	for range steps {
		p.Advance(ts, rate)
		if p.Take(1) {
			sent++
		}
	}
	if owed := steps*ts*rate - sent; owed < -1e-3 || owed > 1+1e-3 {
		t.Errorf("owes %v after %d steps", owed, steps)
	}
}

func TestPacerAllocatesNothing(t *testing.T) {
	var p pacing.Pacer
	if n := testing.AllocsPerRun(100, func() { p.Advance(0.005, 1000); p.Take(1) }); n != 0 {
		t.Errorf("%v allocations per step", n)
	}
}

func BenchmarkPacer(b *testing.B) {
	var p pacing.Pacer
	b.ReportAllocs()
	for b.Loop() {
		p.Advance(0.001, 1000)
		p.Take(1)
	}
}
