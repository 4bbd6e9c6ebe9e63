package limiter

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
)

func tallied(e *Engine, now int64) (limits map[limitName]exchange.Counts, flows exchange.Counts) {
	limits = map[limitName]exchange.Counts{}
	var r exchange.Report
	for more := true; more; more = len(r.Limits) == limitsPerReport {
		e.Report(now, &r)
		for _, l := range r.Limits {
			c := limits[limitName{l.Tenant, l.Limit}]
			c.Add(l.Counts)
			limits[limitName{l.Tenant, l.Limit}] = c
		}
		for _, f := range r.Flows {
			flows.Add(f.Counts)
		}
	}
	return limits, flows
}

// What a limit refuses, and what one in SHADOW would refuse, is reported once, under its name.
func TestReportNamesTheLimits(t *testing.T) {
	e := New(Options{Keys: 1024, Start: 1})
	if err := e.Apply(&config.Config{Revision: 1, Pools: []config.Pool{{Name: "api", Capacity: 1e6}},
		Tenants: []config.Tenant{{Name: "acme", Limits: []config.Limit{
			{Name: "watched", Rate: 1e-3, Burst: 2, Mode: config.Shadow}, {Name: "per-client", Rate: 1e-3, Burst: 3},
		}}}}); err != nil {
		t.Fatal(err)
	}
	e.SetShares(&exchange.Shares{Epoch: 1, Flows: []exchange.Share{{Tenant: "acme", Pool: "api", Share: 1e6}}})
	for range 10 {
		e.Decide(1, &Request{Tenant: "acme", Client: "a", Pool: "api", Cost: 1})
	}
	for range 5 { // a pool that is not known
		e.Decide(1, &Request{Tenant: "acme", Client: "a", Pool: "other", Cost: 1})
	}
	limits, flows := tallied(e, 2)
	want := map[limitName]exchange.Counts{
		{"acme", "watched"}: {Shadowed: 1}, {"acme", "per-client"}: {ClientLimit: 12},
	}
	if fmt.Sprint(limits) != fmt.Sprint(want) {
		t.Errorf("limits %+v, want %+v", limits, want)
	}
	if want := (exchange.Counts{Admitted: 3, Shadowed: 1, ClientLimit: 7, LimitShadowed: 1}); flows != want {
		t.Errorf("flows %+v, want %+v", flows, want)
	}
	if limits, flows := tallied(e, 3); len(limits) > 0 || flows != (exchange.Counts{}) {
		t.Errorf("again: %+v %+v", limits, flows)
	}
}

// Requests that wait for a limit are counted when they begin to wait, and once more when
// they have waited for too long.
func TestTalliesOfAQueuedLimit(t *testing.T) {
	e := New(Options{Keys: 1024, Start: 1})
	if err := e.Apply(&config.Config{Revision: 1, Pools: []config.Pool{{Name: "api", Capacity: 1e6}},
		Tenants: []config.Tenant{{Name: "acme", Limits: []config.Limit{{Name: "slow", Rate: 1.2, Burst: 1,
			Queue: config.Queue{Law: config.DropTail, MaxWait: time.Second, MaxRequests: 9}}}}}}); err != nil {
		t.Fatal(err)
	}
	e.SetShares(&exchange.Shares{Epoch: 1, Flows: []exchange.Share{{Tenant: "acme", Pool: "api", Share: 1e6}}})
	r := &Request{Tenant: "acme", Client: "a", Pool: "api", Cost: 1}
	if out := e.Decide(1, r); out.Verdict != Admit {
		t.Fatal(out)
	}
	if out, _ := e.Enqueue(1, r, 1); out.Verdict != Wait {
		t.Fatal(out)
	}
	if err := e.Change(&config.Delta{Revision: 2, Base: 1, Tenants: []config.Tenant{{Name: "acme",
		Limits: []config.Limit{{Name: "slow", Rate: 1e-3, Burst: 1,
			Queue: config.Queue{Law: config.DropTail, MaxWait: time.Second, MaxRequests: 9}}}}}}); err != nil {
		t.Fatal(err)
	}
	e.Tick(int64(3*time.Second), nil)
	limits, flows := tallied(e, int64(3*time.Second))
	got := limits[limitName{"acme", "slow"}]
	if got.Waited != 1 || got.ClientLimit+got.QueueTimeout != 1 {
		t.Errorf("the limit counts %+v, want one that waited and was refused then", got)
	}
	if want := (exchange.Counts{Admitted: 1, Waited: 1, ClientLimit: 1, LimitWaited: 1}); flows != want {
		t.Errorf("flows %+v, want %+v", flows, want)
	}
}

// Counts are exact while many threads count, reports are taken, and the table of names
// is emptied.
func TestTalliesAreExact(t *testing.T) {
	e := New(Options{Keys: 1024, Start: 1})
	limits := make([]*limit, 300)
	for i := range limits {
		limits[i] = &limit{tenant: "acme", name: fmt.Sprint("limit-", i)}
	}
	const threads, rounds = 4, 50
	sum := map[limitName]exchange.Counts{}
	var counting sync.WaitGroup
	for range threads {
		counting.Go(func() {
			for range rounds {
				for _, l := range limits {
					e.count(l, didRefuse)
				}
				e.tallies.mu.Lock()
				e.tallies.byName = nil // as when there are maxTallies
				e.tallies.mu.Unlock()
			}
		})
	}
	done := make(chan struct{})
	go func() { counting.Wait(); close(done) }()
	take := func() {
		for _, l := range e.tallies.take(nil) {
			c := sum[limitName{l.Tenant, l.Limit}]
			c.Add(l.Counts)
			sum[limitName{l.Tenant, l.Limit}] = c
		}
	}
	for counted := false; !counted; {
		select {
		case <-done:
			counted = true
		default:
			take()
		}
	}
	for len(e.tallies.changed) > 0 {
		take()
	}
	for _, l := range limits {
		if got := sum[limitName{l.tenant, l.name}].ClientLimit; got != threads*rounds {
			t.Fatalf("%s: %d counted, want %d", l.name, got, threads*rounds)
		}
	}
}
