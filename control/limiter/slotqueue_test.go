package limiter

import (
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
)

func slotQueue(l *config.Limit) {
	l.Queue = config.Queue{Law: config.DropTail, MaxWait: 60 * time.Second, MaxRequests: 100}
}

// A limit that is removed, or OFF, while requests wait for its slots lets them go.
func TestARemovedLimitLetsGo(t *testing.T) {
	for name, change := range map[string]func(*config.Config){
		"removed":     func(c *config.Config) { c.Tenants[0].Limits = nil },
		"OFF":         func(c *config.Config) { c.Tenants[0].Limits[0].Mode = config.Off },
		"another key": func(c *config.Config) { c.Tenants[0].Limits[0].PerTenant = true },
		"SHADOW":      func(c *config.Config) { c.Tenants[0].Limits[0].Mode = config.Shadow },
	} {
		f := newSlotFleet(t, 1, concurrency(1, slotQueue))
		e, r := f.engines[0], Request{Tenant: "a", Client: "c", Pool: "api"}
		f.start(0, r, 1)
		if out, _ := e.Enqueue(f.now, &r, 2); out.Verdict != Wait {
			t.Fatalf("%+v", out)
		}
		f.settle()
		c := concurrency(1, slotQueue)
		c.Revision = 2
		change(c)
		mustApply(t, e, c)
		var got []Event
		for range 200 {
			f.now += 50e6
			got = append(append(got, f.settle()...), e.Tick(f.now, nil)...)
		}
		if len(got) != 1 || got[0].Outcome.Verdict != Admit {
			t.Errorf("%s: ten seconds later: %+v", name, got)
		}
	}
}

// Requests that wait for a slot of one limit leave the slots of another limit to other clients.
func TestAWaitKeepsNoOtherSlot(t *testing.T) {
	c := simple(1e6, config.Queue{Law: config.Police}, config.Limit{Name: "all", Concurrency: 10, PerTenant: true},
		config.Limit{Name: "each", Concurrency: 1, Queue: config.Queue{Law: config.DropTail, MaxWait: 60 * time.Second,
			MaxRequests: 100}})
	f := newSlotFleet(t, 1, c)
	e, r := f.engines[0], Request{Tenant: "a", Client: "c", Pool: "api"}
	f.start(0, r, 1)
	for i := range uint64(20) {
		e.Enqueue(f.now, &r, 2+i)
		f.settle()
	}
	other := Request{Tenant: "a", Client: "d", Pool: "api"}
	if out := f.start(0, other, 100); out.Verdict != Admit {
		t.Errorf("one request is in flight, of ten that the tenant may have: %+v", out)
	}
}

// Requests of a route in SHADOW take no places in the queue of a limit that is enforced.
func TestWatchedRequestsTakeNoPlaces(t *testing.T) {
	f := newSlotFleet(t, 1, concurrency(1, func(l *config.Limit) {
		l.Queue = config.Queue{Law: config.DropTail, MaxWait: 60 * time.Second, MaxRequests: 5}
	}))
	e, r := f.engines[0], Request{Tenant: "a", Client: "c", Pool: "api"}
	f.start(0, r, 1)
	watched := r
	watched.Mode = config.Shadow
	for range 20 {
		if out := e.Decide(f.now, &watched); out.Verdict != Admit {
			t.Fatalf("%+v", out)
		}
		f.settle()
	}
	if out, _ := e.Enqueue(f.now, &r, 2); out.Verdict != Wait {
		t.Errorf("%+v, though no request waits", out)
	}
}

// After Drain nothing waits: also not a request that had just got the slot of one limit and needs another one.
func TestDrainBetweenTwoLimits(t *testing.T) {
	each, both := config.Limit{Name: "each", Concurrency: 1}, config.Limit{Name: "all", Concurrency: 2, PerTenant: true}
	slotQueue(&each)
	slotQueue(&both)
	c := simple(1e6, config.Queue{Law: config.Police}, each, both)
	f := newSlotFleet(t, 1, c)
	e := f.engines[0]
	one := f.start(0, Request{Tenant: "a", Client: "c", Pool: "api"}, 1)
	f.start(0, Request{Tenant: "a", Client: "d", Pool: "api"}, 2)
	r := Request{Tenant: "a", Client: "c", Pool: "api"}
	if out, _ := e.Enqueue(f.now, &r, 3); out.Verdict != Wait {
		t.Fatal(out)
	}
	other := Request{Tenant: "a", Client: "x", Pool: "api"}
	if out, _ := e.Enqueue(f.now, &other, 4); out.Verdict != Wait {
		t.Fatal(out)
	}
	f.settle()
	e.slots.free(f.now, e.slots.take(one.Slots)[:1]) // a thread is in FreeSlots: of each, not yet of all
	events := e.Drain(f.now, nil)
	if len(events) != 2 || e.waiting.Load() != 0 {
		t.Errorf("%+v, %d wait", events, e.waiting.Load())
	}
}
