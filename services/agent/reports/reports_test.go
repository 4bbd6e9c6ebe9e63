package reports

import (
	"testing"
	"time"

	"github.com/titrate/titrate/control/exchange"
)

// all wants every pool.
func all(string) bool { return true }

func TestReports(t *testing.T) {
	r := New()
	add := func(now time.Duration, p Process, interval time.Duration, demand float64) {
		r.Add(now, p, &exchange.Report{Interval: interval, Flows: []exchange.FlowReport{{Tenant: "t", Pool: "p",
			Demand: demand, Waiting: demand}}})
	}
	parent, child := Process{"gw", 1}, Process{"gw", 2}
	add(0, parent, 0, 99) // covers no time
	if got := r.Rates(0, all); len(got) != 0 {
		t.Fatalf("%v", got)
	}
	add(0, parent, 250*time.Millisecond, 10)
	add(0, parent, 250*time.Millisecond, 20)
	if got := r.Rates(0, all); len(got) != 1 || got[0].Demand != 60 || got[0].Waiting != 20 {
		t.Fatalf("two reports in one: %v, want 30 in half a second, and what waits now", got)
	}
	if got := r.Rates(900*time.Millisecond, all); len(got) != 1 || got[0].Demand != 60 {
		t.Fatalf("nothing new yet: %v, want the same rates", got)
	}
	add(950*time.Millisecond, child, time.Second, 5)
	if got := r.Rates(960*time.Millisecond, all); len(got) != 1 || got[0].Demand != 65 || got[0].Gateway != "gw" {
		t.Fatalf("a hot restart: %v, want the sum", got)
	}
	if got := r.Rates(1200*time.Millisecond, all); len(got) != 1 || got[0].Demand != 5 {
		t.Fatalf("the parent is silent: %v", got)
	}
	add(1200*time.Millisecond, parent, time.Second, 7)
	r.Drop(parent)
	if got := r.Rates(1200*time.Millisecond, all); len(got) != 1 || got[0].Demand != 5 {
		t.Fatalf("the parent has spoken once more and is gone: %v, want the child's", got)
	}
	r.Add(1200*time.Millisecond, child, &exchange.Report{Interval: time.Second})
	if got := r.Rates(1200*time.Millisecond, all); len(got) != 0 {
		t.Fatalf("nothing happened in the last second: %v", got)
	}
}

// Each pool is reported to the coordinator that leads it, which asks at its own times. No cost is
// lost, in whatever order they ask.
func TestReportsPoolByPool(t *testing.T) {
	r, gateway := New(), Process{"gw", 1}
	only := func(name string) func(string) bool { return func(pool string) bool { return pool == name } }
	sums := map[string]float64{}
	for i := range 12 {
		now := time.Duration(i) * 250 * time.Millisecond
		r.Add(now, gateway, &exchange.Report{Interval: 250 * time.Millisecond, Flows: []exchange.FlowReport{
			{Tenant: "t", Pool: "x", Demand: 10}, {Tenant: "t", Pool: "y", Demand: 20}}})
		for name, every := range map[string]int{"x": 1, "y": 3} {
			if i%every == every-1 {
				for _, f := range r.Rates(now, only(name)) {
					if f.GetPool() != name {
						t.Fatalf("%v, asked for %s", f, name)
					}
					sums[name] += f.GetDemand() * .25 * float64(every)
				}
			}
		}
	}
	if sums["x"] != 120 || sums["y"] != 240 {
		t.Errorf("counted %v", sums)
	}
}
