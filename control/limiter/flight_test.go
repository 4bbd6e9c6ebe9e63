package limiter

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
)

func adaptive(on bool) *config.Config {
	return &config.Config{Pools: []config.Pool{{Name: "api", Capacity: 200, Adaptive: on}},
		Tenants: []config.Tenant{{Name: "acme"}}}
}

// Only flows of adaptive pools are counted; a pool that becomes one counts from
// then on, and what was counted goes on when it is one no more.
func TestFlightOfAdaptivePoolsOnly(t *testing.T) {
	e := New(Options{Start: 1})
	r := &Request{Tenant: "acme", Pool: "api", Cost: 2.5}
	ask := func(on bool) *Flight {
		if err := e.Apply(adaptive(on)); err != nil {
			t.Fatal(err)
		}
		return e.Decide(1, r).Flight
	}
	if ask(false) != nil {
		t.Fatal("a flow of a fixed pool has counters")
	}
	f := ask(true)
	if f == nil || ask(true) != f {
		t.Fatal("the counters of a flow must stay the same")
	}
	f.Depart(r.Micros())
	if ask(false) != nil {
		t.Error("a pool that is fixed again still counts")
	}
	var report exchange.Report
	e.Report(1e9, &report)
	if got := report.Flows[0]; got.InFlight != 2.5 || got.Completed != 0 {
		t.Errorf("one of cost 2.5 released: %+v", got)
	}
	f.Land(r.Micros(), r.Micros(), 200*time.Millisecond)
	e.Report(2e9, &report)
	if got := report.Flows[0]; got.InFlight != 0 || got.Completed != 2.5 || got.Residence != .5 || got.Shed != 0 {
		t.Errorf("answered after 200 ms: %+v", got)
	}
	if e.Report(3e9, &report); len(report.Flows) != 0 {
		t.Errorf("nothing happened: %+v", report.Flows)
	}
}

// A held request brings its counters, a refused request none.
func TestFlightOfHeldAndRefused(t *testing.T) {
	e := New(Options{Start: 1})
	c := adaptive(true)
	c.Tenants[0].Quotas = []config.Quota{{Pool: "api", Max: 1}}
	c.Pools[0].Queue.MaxRequests = 1
	if err := e.Apply(c); err != nil {
		t.Fatal(err)
	}
	seen := map[Verdict]bool{}
	for i := range 20 {
		r := &Request{Tenant: "acme", Pool: "api"}
		out := e.Decide(1, r)
		if out.Verdict == Wait {
			out, _ = e.Enqueue(1, r, uint64(i+1))
		}
		seen[out.Verdict] = true
		if (out.Flight != nil) != (out.Verdict != Reject) {
			t.Errorf("%v with counters %v", out.Verdict, out.Flight)
		}
	}
	if len(seen) != 3 {
		t.Errorf("seen %v only", seen)
	}
}

// Where answers report their true cost, the cost in flight, counted by estimates, is
// reported as the true cost that it will have.
func TestFlightOfEstimates(t *testing.T) {
	var f Flight
	var last flown
	for range 10 {
		f.Depart(unit)
	}
	for range 50 {
		for range 10 {
			f.Depart(unit)
			f.Land(unit, 50*unit, 100*time.Millisecond)
		}
		var r exchange.FlowReport
		last = f.report(last, &r)
		if r.Completed != 500 || r.Residence < 49.9 || r.Residence > 50.1 || r.InFlight != 500 {
			t.Fatalf("%+v", r)
		}
	}
}

// Whatever becomes of requests: what is in flight is what has departed and not
// ended, and the reports add up to the totals.
func TestFlightAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var f Flight
		var last flown
		var aloft []int64
		var landed, shed, reported, turned int64
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			micros := rapid.Int64Range(1, MaxCost*unit).Draw(t, "cost")
			if len(aloft) == 0 || rapid.Bool().Draw(t, "departs") {
				f.Depart(micros)
				aloft = append(aloft, micros)
				continue
			}
			micros, aloft = aloft[0], aloft[1:]
			switch rapid.IntRange(0, 2).Draw(t, "end") {
			case 0:
				f.Land(micros, micros, time.Duration(rapid.Int64().Draw(t, "stay")))
				landed += micros
			case 1:
				f.Shed(micros)
				shed += micros
			default:
				f.Leave(micros)
			}
			var r exchange.FlowReport
			last = f.report(last, &r)
			reported += int64(r.Completed*unit + .5)
			turned += int64(r.Shed*unit + .5)
		}
		sum := int64(0)
		for _, micros := range aloft {
			sum += micros
		}
		if f.InFlight.Load() != sum || reported != landed || turned != shed {
			t.Fatalf("in flight %d of %d, landed %d of %d, shed %d of %d", f.InFlight.Load(), sum, reported, landed,
				turned, shed)
		}
	})
}
