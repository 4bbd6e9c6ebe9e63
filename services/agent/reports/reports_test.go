package reports

import (
	"testing"
	"time"

	"github.com/titrate/titrate/control/exchange"
)

func TestReports(t *testing.T) {
	r := New()
	add := func(now time.Duration, p Process, interval time.Duration, demand float64) {
		r.Add(now, p, &exchange.Report{Interval: interval, Flows: []exchange.FlowReport{{Tenant: "t", Pool: "p",
			Demand: demand, Waiting: demand}}})
	}
	parent, child := Process{"gw", 1}, Process{"gw", 2}
	add(0, parent, 0, 99) // covers no time
	if got := r.Rates(0); len(got) != 0 {
		t.Fatalf("%v", got)
	}
	add(0, parent, 250*time.Millisecond, 10)
	add(0, parent, 250*time.Millisecond, 20)
	if got := r.Rates(0); len(got) != 1 || got[0].Demand != 60 || got[0].Waiting != 20 {
		t.Fatalf("two reports in one: %v, want 30 in half a second, and what waits now", got)
	}
	if got := r.Rates(900 * time.Millisecond); len(got) != 1 || got[0].Demand != 60 {
		t.Fatalf("nothing new yet: %v, want the same rates", got)
	}
	add(950*time.Millisecond, child, time.Second, 5)
	if got := r.Rates(960 * time.Millisecond); len(got) != 1 || got[0].Demand != 65 || got[0].Gateway != "gw" {
		t.Fatalf("a hot restart: %v, want the sum", got)
	}
	if got := r.Rates(1200 * time.Millisecond); len(got) != 1 || got[0].Demand != 5 {
		t.Fatalf("the parent is silent: %v", got)
	}
	add(1200*time.Millisecond, parent, time.Second, 7)
	r.Drop(parent)
	if got := r.Rates(1200 * time.Millisecond); len(got) != 1 || got[0].Demand != 5 {
		t.Fatalf("the parent has spoken once more and is gone: %v, want the child's", got)
	}
	r.Add(1200*time.Millisecond, child, &exchange.Report{Interval: time.Second})
	if got := r.Rates(1200 * time.Millisecond); len(got) != 0 {
		t.Fatalf("nothing happened in the last second: %v", got)
	}
}
