package limiter

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"

	"github.com/titrate/titrate/control/limiter/internal/hash"
	"github.com/titrate/titrate/control/limiter/internal/lock"
)

// tenants is a configuration of so many tenants, named from a number on.
func tenants(from, n int) *config.Config {
	c := &config.Config{Seed: 7, Revision: int64(from + 1), Pools: []config.Pool{{Name: "api", Capacity: 1e9,
		Adaptive: true}}}
	for i := range n {
		c.Tenants = append(c.Tenants, config.Tenant{Name: fmt.Sprintf("tenant-%07d", from+i), Limits: []config.Limit{
			{Name: "all", PerTenant: true, Rate: 1000, Burst: 1000},
		}})
	}
	return c
}

// idle lets time pass with nothing but ticks and reports, which it adds to r.
func idle(e *Engine, from int64, d time.Duration, r map[string]float64) int64 {
	var report exchange.Report
	for now := from; ; now += 50 * ms {
		e.Tick(now, nil)
		if (now-from)%(250*ms) == 0 {
			e.Report(now, &report)
			for _, f := range report.Flows {
				r[f.Tenant] += f.Served
			}
		}
		if now-from >= int64(d) {
			return now
		}
	}
}

// Tenants come, ask once or twice, and go, 100,000 in all: in the end only the state of the
// present tenants is kept, and no count is lost on the way.
func TestTenantsThatGoLeaveNothing(t *testing.T) {
	const waves = 5
	each := 20_000
	if raceEnabled || lock.Checked {
		each = 500
	}
	e := New(Options{Keys: 1024})
	served := map[string]float64{}
	now := sec
	var floor, top uint64
	for w := range waves {
		mustApply(t, e, tenants(w*each, each))
		if w == 1 {
			floor = heap()
		}
		for i := range each {
			r := &Request{Tenant: fmt.Sprintf("tenant-%07d", w*each+i), Pool: "api", Cost: 1}
			for range 1 + i%2 {
				out := e.Decide(now, r)
				if out.Verdict != Admit || out.Flight == nil {
					t.Fatalf("%+v", out)
				}
				out.Flight.Depart(r.Micros())
				out.Flight.Land(r.Micros(), r.Micros(), time.Millisecond)
			}
		}
		if w == 1 {
			top = heap()
		}
		now = idle(e, now, 3*time.Minute, served)
		held(t, e, now, each, (w+1)*each*3/2)
	}
	mustApply(t, e, tenants(0, 10))
	idle(e, now, 3*time.Minute, served)
	left := heap()
	t.Logf("%d flows: %d KiB before, %d KiB with them, %d KiB after; a flow has %d bytes",
		each, floor>>10, top>>10, left>>10, (top-floor)/uint64(each))
	if each > 1000 && left > floor+(top-floor)/10 {
		t.Errorf("%d bytes are kept, want a tenth of what %d flows had at most", left-floor, each)
	}
	total := 0.0
	for _, s := range served {
		total += s
	}
	if want := float64(waves * each * 3 / 2); total != want {
		t.Errorf("reports tell of %v requests served, want %v", total, want)
	}
}

// held compares what the engine keeps of flows with the bounds.
func held(t *testing.T, e *Engine, now int64, most, admitted int) {
	t.Helper()
	stats := Stats{Keys: -1}
	e.Stats(now, &stats)
	if stats.Flows != 0 || len(e.lists.running)+len(e.lists.resting)+len(e.lists.unsent)+len(e.registry.flows) != 0 {
		t.Errorf("%d flows, want none", stats.Flows)
	}
	if len(e.registry.byID) > most || len(e.registry.flights) > most || e.keys.Stats().Dedicated != 0 {
		t.Errorf("%d places, %d flights and %d slots, want at most %d, %d and 0",
			len(e.registry.byID), len(e.registry.flights), e.keys.Stats().Dedicated, most, most)
	}
	if got := stats.Pools[0]; got.Admitted != uint64(admitted) || !got.Adaptive || got.InFlight != 0 {
		t.Errorf("the pool has %+v, want %d admitted", got, admitted)
	}
}

// heap returns the memory in use, in bytes.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// one is an engine with one tenant, whose flow has been used once.
func one(t *testing.T, q config.Queue, limits ...config.Limit) (*Engine, *Request, *flow) {
	t.Helper()
	e := New(Options{Keys: 1024})
	c := simple(100, q, limits...)
	c.Pools[0].Adaptive = true
	mustApply(t, e, c)
	r := &Request{Tenant: "a", Client: "x", Pool: "api", Cost: 1}
	if out := e.Decide(sec, r); out.Verdict != Admit {
		t.Fatalf("%+v", out)
	}
	return e, r, e.live()[0]
}

// What is in flight keeps a flow, and so does what is not yet reported.
func TestFlowsThatAreNeededStay(t *testing.T) {
	e, r, f := one(t, config.Queue{})
	flight := e.Decide(sec, r).Flight
	flight.Depart(r.Micros())
	served := map[string]float64{}
	now := idle(e, sec, 5*time.Minute, served)
	if f.gone() {
		t.Error("the flow is gone while a request is in flight")
	}
	flight.Land(r.Micros(), r.Micros(), time.Minute)
	now = idle(e, now, 3*time.Minute, served)
	if !f.gone() {
		t.Error("the flow stays when its request has ended")
	}
	if out := e.Decide(now, r); out.Flight != flight {
		t.Error("the counters of the flow that is gone are not used again")
	}
	f = e.live()[0]
	for end := now + 300*sec; now < end; now += 50 * ms { // and nobody asks for reports
		e.Tick(now, nil)
	}
	if f.gone() {
		t.Error("the flow is gone before it was reported")
	}
	var report exchange.Report
	if e.Report(now, &report); len(report.Flows) != 1 || report.Flows[0].Served != 1 || report.Flows[0].Completed != 0 {
		t.Errorf("reported is %+v, want one request served and none completed", report.Flows)
	}
}

// A handle of a flow that is gone names nothing in the flow that has its place.
func TestOldHandles(t *testing.T) {
	e, r, f := one(t, config.Queue{Law: config.DropTail, DelayTarget: time.Second, MaxWait: 2 * time.Second})
	queue := func(now int64) Handle {
		for range 1000 {
			if out, h := e.Enqueue(now, r, 1); out.Verdict == Wait {
				return h
			}
		}
		t.Fatal("nothing is held")
		return 0
	}
	old := queue(sec)
	now := idle(e, sec, 5*time.Minute, map[string]float64{})
	if !f.gone() {
		t.Fatal("the flow is not gone")
	}
	e.Decide(now, r)
	fresh := queue(now)
	if old.flow() != fresh.flow() || old.place() != fresh.place() {
		t.Fatalf("the places of %x are not used again: %x", old, fresh)
	}
	if e.Cancel(now, old) || !e.Cancel(now, fresh) {
		t.Error("the old handle names the new request")
	}
}

// A long stream is settled after its flow is gone: the flow that there is then pays.
func TestSettleAfterTheFlowIsGone(t *testing.T) {
	e, r, f := one(t, config.Queue{Law: config.Police})
	served := map[string]float64{}
	now := idle(e, sec, 5*time.Minute, served)
	if !f.gone() {
		t.Fatal("the flow is not gone")
	}
	e.Settle(now, r, Plain, 101)
	if out := e.Decide(now, r); out.Verdict != Reject {
		t.Errorf("a tenant that owes a second of its share: %+v", out)
	}
	idle(e, now, time.Minute, served)
	if served["a"] != 101 {
		t.Errorf("%v were served by the reports, want 101", served["a"])
	}
}

// What a thread still counts in a flow that was freed under its hands is reported and
// counted once.
func TestCountsAfterTheFlowIsGone(t *testing.T) {
	e, r, f := one(t, config.Queue{})
	rt, _ := e.findRoute(r)
	served := map[string]float64{}
	now := idle(e, sec, 5*time.Minute, served)
	if !f.gone() || rt.flow != f {
		t.Fatal("the flow is not gone")
	}
	s := e.snap.Load()
	(*s.tenants["a"].routes.Load())[0].Store(rt)
	if out := e.Decide(now, r); out.Verdict != Admit || e.live()[0] == f {
		t.Errorf("by the route to a flow that is gone: %+v", out)
	}
	c := newCall(now, r, rt)
	if _, _, ok := e.enqueue(&c, 1); ok {
		t.Error("a flow that is gone holds a request")
	}
	f.counts.bypassed.Add(3 * unit)
	f.counts.admitted.Add(3)
	e.wake(f)
	e.refuseBlocked(rt.flow, unit)
	now = idle(e, now, time.Second, served)
	stats := Stats{Keys: -1}
	if e.Stats(now, &stats); stats.Pools[0].Admitted != 5 || stats.Pools[0].Rejected[TenantShare] != 1 {
		t.Errorf("%+v, want 5 admitted and 1 rejected", stats.Pools[0])
	}
	if served["a"] != 5 {
		t.Errorf("%v were served by the reports, want 5", served["a"])
	}
}

// The slot of a tenant's limit is freed when nobody has used it for long, and not
// before; who uses it next begins with a whole burst, as before.
func TestSlotsOfTenantsAreFreed(t *testing.T) {
	e := New(Options{Keys: 1024})
	mustApply(t, e, simple(1e9, config.Queue{},
		config.Limit{Name: "fast", PerTenant: true, Rate: 10, Burst: 10},
		config.Limit{Name: "slow", PerTenant: true, Rate: 0.01, Burst: 10}))
	r := &Request{Tenant: "a", Pool: "api", Cost: 10}
	if out := e.Decide(sec, r); out.Verdict != Admit {
		t.Fatalf("%+v", out)
	}
	now := idle(e, sec, 5*time.Minute, map[string]float64{})
	if n := e.keys.Stats().Dedicated; n != 1 || spentOf(e, now, hash.TenantLimit(7, "a", "slow"), 0.01) == 0 {
		t.Errorf("%d have a slot, want the slow limit alone", n)
	}
	if out := e.Decide(now, r); out.Verdict != Reject || out.Limit != "slow" {
		t.Errorf("%+v, want a refusal by the slow limit", out)
	}
	now = idle(e, now, 30*time.Minute, map[string]float64{})
	if n := e.keys.Stats().Dedicated; n != 0 {
		t.Errorf("%d have a slot", n)
	}
	if out := e.Decide(now, r); out.Verdict != Admit {
		t.Errorf("%+v", out)
	}
	if out := e.Decide(now, r); out.Verdict != Reject || out.Limit != "fast" {
		t.Errorf("%+v: the fast limit counts nothing any more", out)
	}
}
