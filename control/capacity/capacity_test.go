package capacity_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/capacity"
)

const period = 0.25

// upstream is a fluid server of rate mu with a queue; it serves what it is
// given, demand permitting.
type upstream struct{ mu, queue float64 }

// round offers a rate for one period and returns what was served.
func (u *upstream) round(rate float64) float64 {
	in := u.queue + rate*period
	served := math.Min(in, u.mu*period)
	u.queue = in - served
	return served
}

// follow runs the measured loop, with a capacity in force d rounds late,
// against a server whose rate is mu(k), and returns per-round use and queue.
func follow(d, rounds int, start float64, mu func(k int) float64, demand float64) (use, queue []float64) {
	loop := capacity.Measured{Period: period, Delay: d, Max: 5000}
	loop.Start(start)
	server, pending := upstream{}, make([]float64, d+1)
	for i := range pending {
		pending[i] = start
	}
	for k := range rounds {
		server.mu = mu(k)
		given := math.Min(pending[0], demand)
		served := server.round(given)
		pending = append(pending[1:], loop.Step(capacity.Observation{Served: served, Queued: server.queue,
			Binding: pending[0] < demand}, 0))
		use, queue = append(use, served/(server.mu*period)), append(queue, server.queue)
	}
	return use, queue
}

func mean(xs []float64) float64 {
	s := 0.0
	for _, x := range xs {
		s += x
	}
	return s / float64(len(xs))
}

func peak(xs []float64) float64 {
	m := 0.0
	for _, x := range xs {
		m = math.Max(m, x)
	}
	return m
}

// An unknown capacity is found from above and from below, its fall is followed
// with a bounded backlog, its rise by growing 3 % a round.
func TestMeasuredFollowsTheServer(t *testing.T) {
	for d := range 3 {
		for _, start := range []float64{300, 1000, 3000} {
			use, queue := follow(d, 400, start, func(k int) float64 {
				if k >= 200 && k < 300 {
					return 500
				}
				return 1000
			}, 1e5)
			t.Logf("d=%d from %v: use %.3f, queue %.0f; after the fall: use %.3f, peak %.0f; after the rise: use %.3f",
				d, start, mean(use[100:200]), peak(queue[100:200]), mean(use[220:300]), peak(queue[200:300]),
				mean(use[350:]))
			if mean(use[100:200]) < 0.98 || mean(use[220:300]) < 0.98 || mean(use[350:]) < 0.98 {
				t.Errorf("d=%d from %v: the server is not kept busy", d, start)
			}
			if q := peak(queue[100:200]); q > 120 {
				t.Errorf("d=%d from %v: a standing queue of %v", d, start, q)
			}
			if q := peak(queue[200:300]); q > 500*period*float64(d+3) {
				t.Errorf("d=%d from %v: the fall leaves a backlog of %v", d, start, q)
			}
		}
	}
}

// Load below the capacity teaches nothing: the estimate must not move.
func TestMeasuredKeepsItsEstimateWhenIdle(t *testing.T) {
	loop := capacity.Measured{Period: period, Max: 5000}
	loop.Start(1000)
	for range 1000 {
		loop.Step(capacity.Observation{Served: 10}, 0)
	}
	if loop.Estimate() != 1000 {
		t.Errorf("estimate %v after idleness, want 1000", loop.Estimate())
	}
}

// A server that stops for a while is found again.
func TestMeasuredRecoversFromAStop(t *testing.T) {
	use, _ := follow(1, 400, 1000, func(k int) float64 {
		if k >= 50 && k < 90 {
			return 1e-9
		}
		return 1000
	}, 1e5)
	if u := mean(use[300:]); u < 0.98 {
		t.Errorf("use %v long after the stop", u)
	}
}

func TestMeasuredInvariants(t *testing.T) {
	any := func(t *rapid.T, label string) float64 {
		if rapid.Bool().Draw(t, label+" bad") {
			return rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), -5, 0}).Draw(t, label)
		}
		return rapid.Float64Range(0, 1e4).Draw(t, label)
	}
	rapid.Check(t, func(t *rapid.T) {
		ms := capacity.Measured{Period: any(t, "T"), Delay: rapid.IntRange(-1, 4).Draw(t, "d"), Max: 1000,
			Gain: any(t, "gain")}
		ms.Start(any(t, "start"))
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			o := capacity.Observation{Served: any(t, "served"), Queued: any(t, "queued"),
				Binding: rapid.Bool().Draw(t, "binding")}
			floor := math.Min(any(t, "floor"), 1000)
			low := math.Max(floor, 0)
			if math.IsNaN(floor) {
				low = 0
			}
			if c := ms.Step(o, floor); !(c >= low*(1-1e-12) && c <= 1200*(1+1e-12)) {
				t.Fatalf("capacity %v outside [%v, 1200] after %+v", c, low, o)
			}
			if e := ms.Estimate(); !(e > 0 && e <= 1000) {
				t.Fatalf("estimate %v outside (0, 1000]", e)
			}
		}
	})
}

// A pool whose capacity is not a positive number gets a capacity of 0; the estimate of a
// large one stays finite.
func TestPoolsWithoutCapacity(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(-1), -1, 0} {
		ms := capacity.Measured{Period: period, Max: bad}
		ms.Start(100)
		for range 5 {
			if c := ms.Step(capacity.Observation{Served: 10, Binding: true}, 50); c != 0 {
				t.Errorf("%v: capacity %v", bad, c)
			}
		}
	}
	ms := capacity.Measured{Max: math.Inf(1)}
	if c := ms.Step(capacity.Observation{Served: 1e7}, 0); !(c <= 1.2e15) {
		t.Errorf("capacity %v without bound", c)
	}
}

// slowMS is the equations in the comment of Measured, line by line: the oracle.
type slowMS struct{ est, prev float64 }

func (s *slowMS) step(served, q float64, binding bool, T, r float64, d int, floor, most float64) float64 {
	S, qT := served/T, math.Max(.02*s.est, 3)
	aP := .7 * math.Sin(math.Pi/(2*float64(2*d+1)))
	if q > .25*qT && s.prev > .25*qT {
		s.est += r * (S - s.est)
	} else if q > qT {
		s.est = math.Min(s.est, S)
	} else if binding {
		s.est = math.Min(1.03*s.est, most)
	}
	s.est = math.Min(math.Max(s.est, 1e-3*most), most)
	c := s.est - aP/T*math.Max(q-qT, -qT)
	s.prev = q
	return math.Min(math.Max(c, floor), 1.2*most)
}

func TestMeasuredIsItsEquations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := math.Pow(10, rapid.Float64Range(0, 7).Draw(t, "log max"))
		d, r, T := rapid.IntRange(0, 4).Draw(t, "d"), rapid.Float64Range(.05, 1).Draw(t, "r"),
			rapid.Float64Range(.01, 1).Draw(t, "T")
		ms, slow := capacity.Measured{Period: T, Delay: d, Max: most, Gain: r}, slowMS{est: .5 * most}
		ms.Start(.5 * most)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			o := capacity.Observation{Served: most * T * rapid.Float64Range(0, 1.5).Draw(t, "S"),
				Queued: most * rapid.Float64Range(0, .1).Draw(t, "q"), Binding: rapid.Bool().Draw(t, "binding")}
			floor := most * rapid.Float64Range(0, .3).Draw(t, "floor")
			got, want := ms.Step(o, floor), slow.step(o.Served, o.Queued, o.Binding, T, r, d, floor, most)
			if math.Abs(got-want) > 1e-12*most || math.Abs(ms.Estimate()-slow.est) > 1e-12*most {
				t.Fatalf("capacity %v of estimate %v, the equations give %v of %v", got, ms.Estimate(), want, slow.est)
			}
		}
	})
}

func TestStepsAllocateNothing(t *testing.T) {
	ms := capacity.Measured{Period: period, Max: 1000}
	if n := testing.AllocsPerRun(100, func() { ms.Step(capacity.Observation{Served: 200, Queued: 30}, 0) }); n != 0 {
		t.Errorf("%v allocations per step", n)
	}
}

func BenchmarkMeasured(b *testing.B) {
	ms := capacity.Measured{Period: period, Max: 1000}
	b.ReportAllocs()
	for b.Loop() {
		ms.Step(capacity.Observation{Served: 200, Queued: 30}, 0)
	}
}
