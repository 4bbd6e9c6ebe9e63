package maxmin_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/capacity"
	"github.com/titrate/titrate/papers/maxmin"
)

const period = 0.25 // seconds

// upstream is a fluid server of rate mu with a queue.
type upstream struct{ mu, queue float64 }

// round offers a rate for one period and returns the served cost.
func (u *upstream) round(rate float64) float64 {
	in := u.queue + rate*period
	served := math.Min(in, u.mu*period)
	u.queue = in - served
	return served
}

// The upstream loses half of its rate, and no message says so. The measured service finds the new rate with
// less backlog and sooner than the PI law around the old rate.
func TestMeasuredBeatsPIWhereTheRateIsUnknown(t *testing.T) {
	const d, fall = 1, 40
	ms, pi := capacity.Measured{Period: period, Delay: d, Max: 1000}, maxmin.CapacityPI{Period: period, Delay: d,
		Nominal: 1000, Target: 20}
	ms.Start(1000)
	run := func(law func(served, queued float64) float64) (backlog float64, settled int) {
		server, pending := upstream{}, []float64{1000, 1000}
		for k := range 300 {
			if server.mu = 1000; k >= fall {
				server.mu = 500
			}
			served := server.round(pending[0])
			pending = append(pending[1:], law(served, server.queue))
			if k >= fall {
				backlog = math.Max(backlog, server.queue)
				if server.queue > 60 || served < .98*500*period {
					settled = k - fall + 1
				}
			}
		}
		return backlog, settled
	}
	measured, soon := run(func(served, q float64) float64 {
		return ms.Step(capacity.Observation{Served: served, Queued: q, Binding: true}, 0)
	})
	proportional, late := run(func(_, q float64) float64 { return pi.Step(q, 0) })
	t.Logf("backlog at most %.0f against %.0f, settled after %d rounds against %d", measured, proportional, soon, late)
	if measured >= proportional || soon >= late {
		t.Errorf("measured: %v, %d rounds; PI: %v, %d rounds", measured, soon, proportional, late)
	}
}

// With μ known the PI law holds the queue at its target.
func TestPIHoldsTheQueue(t *testing.T) {
	for d := range 3 {
		law := maxmin.CapacityPI{Period: period, Delay: d, Nominal: 1000, Target: 20}
		server, pending := upstream{mu: 1000}, make([]float64, d)
		for i := range pending {
			pending[i] = 1000
		}
		for range 300 {
			pending = append(pending, law.Step(server.queue, 0))
			server.round(pending[0])
			pending = pending[1:]
		}
		if math.Abs(server.queue-20) > 0.5 {
			t.Errorf("d=%d: queue %v, want 20", d, server.queue)
		}
	}
}

// Whatever comes in, the capacity stays between the floor and 1.2 times the nominal one.
func TestCapacityPIInvariants(t *testing.T) {
	number := func(t *rapid.T, label string) float64 {
		if rapid.Bool().Draw(t, label+" bad") {
			return rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), -5, 0}).Draw(t, label)
		}
		return rapid.Float64Range(0, 1e4).Draw(t, label)
	}
	rapid.Check(t, func(t *rapid.T) {
		law := maxmin.CapacityPI{Period: number(t, "T"), Delay: rapid.IntRange(-1, 4).Draw(t, "d"), Nominal: 1000,
			Target: number(t, "qT")}
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			floor := math.Min(number(t, "floor"), 1000)
			low := math.Max(floor, 0)
			if math.IsNaN(floor) {
				low = 0
			}
			if c := law.Step(number(t, "queued"), floor); !(c >= low*(1-1e-12) && c <= 1200*(1+1e-12)) {
				t.Fatalf("capacity %v outside [%v, 1200]", c, low)
			}
		}
	})
}

// A pool without capacity is given none; a large one stays finite.
func TestCapacityPIEdges(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(-1), -1, 0} {
		law := maxmin.CapacityPI{Period: period, Nominal: bad}
		for range 5 {
			if c := law.Step(0, 50); c != 0 {
				t.Errorf("%v: capacity %v", bad, c)
			}
		}
	}
	law := maxmin.CapacityPI{Nominal: math.Inf(1)}
	if c := law.Step(1e7, 0); !(c <= 1.2e15) {
		t.Errorf("capacity %v without bound", c)
	}
	small := maxmin.CapacityPI{Period: period, Nominal: 1000, Delay: 1}
	if n := testing.AllocsPerRun(100, func() { small.Step(30, 0) }); n != 0 {
		t.Errorf("%v allocations per step", n)
	}
}

func BenchmarkCapacityPI(b *testing.B) {
	pi := maxmin.CapacityPI{Period: period, Nominal: 1000, Delay: 1}
	b.ReportAllocs()
	for b.Loop() {
		pi.Step(30, 0)
	}
}
