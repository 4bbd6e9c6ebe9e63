package allocation_test

import (
	"math"
	"testing"
	"time"

	"github.com/titrate/titrate/services/coordinator/allocation"
)

// behind is an upstream with workers that serve one request each for stay, the
// others wait in turn: its capacity is workers/stay.
type behind struct {
	workers int
	stay    time.Duration
	busy    []time.Duration // ends, in order
	arrived []time.Duration // requests at work, then requests that wait

	done, stayed float64 // since the last report
	peak, sum, n float64 // of what waits
}

func (b *behind) arrive(now time.Duration, n float64) {
	for range int(n) {
		b.arrived = append(b.arrived, now)
	}
}

func (b *behind) serve(now time.Duration) {
	for len(b.busy) > 0 && b.busy[0] <= now {
		b.done++
		b.stayed += (b.busy[0] - b.arrived[0]).Seconds()
		b.busy, b.arrived = b.busy[1:], b.arrived[1:]
	}
	for len(b.busy) < b.workers && len(b.busy) < len(b.arrived) {
		b.busy = append(b.busy, now+b.stay)
	}
	waits := float64(len(b.arrived) - len(b.busy))
	b.peak, b.sum, b.n = math.Max(b.peak, waits), b.sum+waits, b.n+1
}

// report fills in one agent's part of the upstream's numbers.
func (b *behind) report(f *allocation.FlowReport, part float64) {
	f.Completed, f.Residence = part*b.done/every.Seconds(), part*b.stayed/every.Seconds()
	f.InFlight = part * float64(len(b.arrived))
}

// An upstream whose capacity falls to half and comes back: shares follow it, the
// backlog stays bounded, and fairness holds whatever the capacity is.
func TestSharesFollowAnUpstream(t *testing.T) {
	sources := func() []*source {
		return []*source{{tenant: "a", weight: 1, rate: flat(2000)}, {tenant: "b", weight: 3, rate: flat(2000)}}
	}
	for _, start := range []float64{200, 500, 1500} {
		pool := allocation.Pool{Name: "api", Capacity: start, Adaptive: allocation.Range{Min: 50, Max: 2000}}
		w := newWorld(t, pool, 1, sources()...)
		w.behind = &behind{workers: 25, stay: 50 * time.Millisecond} // 500/s
		phase := func(name string, workers int, settling time.Duration) {
			t.Helper()
			w.behind.workers = workers
			mu := float64(workers) / .05
			w.behind.peak = 0
			rounds := 0
			for elapsed := time.Duration(0); elapsed < settling; elapsed += every {
				w.run(every)
				if p := w.last.Pools[0]; p.Estimate > 1.15*mu || p.Estimate < .85*mu {
					rounds = int(elapsed/every) + 1
				}
			}
			peak := w.behind.peak
			w.behind.sum, w.behind.n = 0, 0
			w.mark()
			const d = 50 * time.Second
			w.run(d)
			a, b := w.sources[0].totalServed/d.Seconds(), w.sources[1].totalServed/d.Seconds()
			t.Logf("from %4.0f, %-6s: within 15 %% after %2d rounds, backlog's peak %3.0f, then %2.0f on average; "+
				"use %.3f, b/a %.3f",
				start, name, rounds, peak, w.behind.sum/w.behind.n, (a+b)/mu, b/a)
			if rounds > 45 || (a+b)/mu < .9 || w.behind.sum/w.behind.n > .25*mu {
				t.Errorf("from %v, %s: settled after %d rounds, use %.3f, backlog %.0f", start, name, rounds, (a+b)/mu,
					w.behind.sum/w.behind.n)
			}
			if math.Abs(b/a/3-1) > .05 {
				t.Errorf("from %v, %s: b has %.2f times of a, fair is 3", start, name, b/a)
			}
		}
		phase("begins", 25, 20*time.Second)
		phase("falls", 12, 20*time.Second)
		phase("rises", 25, 20*time.Second)
	}
}

// Demand below the capacity is not held back, and leaves the estimate alone.
func TestAnAdaptivePoolThatIsNotFull(t *testing.T) {
	s := &source{tenant: "a", weight: 1, rate: flat(150)}
	w := newWorld(t, allocation.Pool{Name: "api", Capacity: 500, Adaptive: allocation.Range{Min: 50, Max: 2000}}, 1, s)
	w.behind = &behind{workers: 25, stay: 50 * time.Millisecond}
	w.run(5 * time.Second)
	w.mark()
	w.run(85 * time.Second)
	p := w.last.Pools[0]
	if p.Capacity < 500 || p.Capacity > 520 || p.Estimate != 500 || !p.Adaptive || p.InFlight < 1 || p.InFlight > 25 ||
		s.totalRejected > 0 {
		t.Errorf("%v rejected, %+v", s.totalRejected, p)
	}
	if math.Abs(p.Stay-.05) > .01 {
		t.Errorf("a stay of 50 ms is taken for %v s", p.Stay)
	}
}

// A new leader goes on from what agents echo, of the newest epoch, and a changed configuration restarts.
func TestEstimateBeginsWhereItShould(t *testing.T) {
	loop := allocation.New(allocation.Defaults())
	pool := allocation.Pool{Name: "api", Capacity: 500, Adaptive: allocation.Range{Min: 50, Max: 2000}}
	configure := func() {
		loop.Configure(&allocation.Config{Pools: []allocation.Pool{pool}, Tenants: map[string]float64{"a": 1}})
	}
	capacity := func(want float64) {
		t.Helper()
		if got := loop.Step(epoch).Pools[0].Capacity; got != want {
			t.Fatalf("capacity %v, want %v", got, want)
		}
	}
	resume := func(of int64, pool string, estimate float64) {
		loop.Resume(epoch, "agent", &allocation.Held{Epoch: of,
			Pools: []allocation.HeldPool{{Pool: pool, Estimate: estimate}}})
	}
	configure()
	capacity(500)
	resume(3, "api", 800)
	resume(2, "api", 300)
	resume(4, "api", math.NaN())
	resume(4, "elsewhere", 300)
	capacity(800)
	configure()
	capacity(800)
	pool.Adaptive.Max = 700
	configure()
	capacity(700)
	pool.Capacity = 600
	configure()
	capacity(600)
	loop.Observe(epoch, "agent", &allocation.Report{Interval: every,
		Flows: []allocation.FlowReport{{Flow: flowOf("a"), Demand: 1, Served: 1}}})
	loop.Step(epoch)
	resume(9, "api", 90)
	if got := loop.Step(epoch).Pools[0].Capacity; got < 500 {
		t.Errorf("capacity %v: what was seen here counts more than what an agent remembers", got)
	}
	pool.Adaptive = allocation.Range{}
	configure()
	capacity(600)
}
