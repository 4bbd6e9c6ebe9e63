package limiter

import (
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
)

// shared is a limit of n in flight and one of 1000/s, in a pool of which tenant a has a share.
func shared(t *testing.T, n int64, share float64) (*slotFleet, *Engine) {
	queue := config.Queue{Law: config.DropTail, MaxRequests: 1000, MaxWait: 10 * time.Second, DelayTarget: time.Second}
	c := simple(share, queue, config.Limit{Name: "flight", Concurrency: n},
		config.Limit{Name: "rate", Rate: 1000, Burst: 1000, Precision: config.Local})
	f := newSlotFleet(t, 1, c)
	f.engines[0].SetShares(&exchange.Shares{Epoch: 1, Flows: []exchange.Share{{Tenant: "a", Pool: "api", Share: share}}})
	return f, f.engines[0]
}

// state returns the state of a limit for client c.
func (f *slotFleet) state(e *Engine, name string) LimitState {
	f.t.Helper()
	for _, l := range e.Explain(f.now, &Request{Tenant: "a", Client: "c", Pool: "api"}).Limits {
		if l.Name == name {
			return l
		}
	}
	f.t.Fatalf("no limit %s", name)
	return LimitState{}
}

func (f *slotFleet) pool(e *Engine) PoolStats {
	s := Stats{Keys: -1}
	e.Stats(f.now, &s)
	return s.Pools[0]
}

// A request that waits for its share has no slot; it takes one when it is released.
func TestSlotIsTakenAtTheRelease(t *testing.T) {
	f, e := shared(t, 100, 50)
	r := Request{Tenant: "a", Client: "c", Pool: "api"}
	waits, flying := 0, 0
	note := func(events []Event) {
		for _, ev := range events {
			waits--
			if ev.Outcome.Verdict == Admit {
				if flying++; ev.Outcome.Slots == 0 {
					t.Fatalf("%+v: released without a slot", ev)
				}
			}
		}
	}
	for i := range 40 {
		switch out, _ := e.Enqueue(f.now, &r, uint64(i+1)); out.Verdict {
		case Wait:
			waits++
		case Admit:
			flying++
		}
		note(f.settle())
	}
	if waits < 10 {
		t.Fatalf("only %d wait for their share", waits)
	}
	for range 400 {
		if used := e.slots.keys.Stats().Used; used != flying {
			t.Fatalf("%d slots in use, %d in flight, %d wait", used, flying, waits)
		}
		f.now += 5e6
		note(e.Tick(f.now, nil))
		note(f.settle())
	}
	if waits != 0 || e.waiting.Load() != 0 {
		t.Errorf("%d wait at the end, by the engine's count %d", waits, e.waiting.Load())
	}
	if p := f.pool(e); int(p.Admitted) != flying {
		t.Errorf("%d in flight, counted %+v", flying, p)
	}
}

// A request that gets no slot at its release is charged nothing, whether it is refused or goes away.
func TestWithoutASlotNothingIsCharged(t *testing.T) {
	for _, goes := range []bool{false, true} {
		f, e := shared(t, 1, 1000)
		r := Request{Tenant: "a", Client: "c", Pool: "api"}
		first := f.start(0, r, 1)
		if first.Verdict != Admit || first.Slots == 0 {
			t.Fatalf("%+v", first)
		}
		before, credit := f.state(e, "rate").Free, e.Explain(f.now, &r).Flow.Credit
		out, h := e.Enqueue(f.now, &r, 2)
		if out.Verdict != Wait {
			t.Fatalf("%+v, want it to wait for a slot", out)
		}
		if goes {
			if !e.Cancel(f.now, h) || e.Cancel(f.now, h) {
				t.Error("it cannot be cancelled, or twice")
			}
		} else if events := f.refused(e); events != 1 {
			t.Errorf("%d events, want a refusal", events)
		}
		if after := f.state(e, "rate").Free; after < before-.001 {
			t.Errorf("goes %v: the rate's limit has %v left of %v", goes, after, before)
		}
		if after := e.Explain(f.now, &r).Flow.Credit; after < credit-.001 {
			t.Errorf("goes %v: the share has a credit of %v, before %v", goes, after, credit)
		}
		p := f.pool(e)
		if p.Admitted != 1 || p.Cancelled != map[bool]uint64{true: 1}[goes] ||
			p.Rejected[ClientLimit] != map[bool]uint64{false: 1}[goes] {
			t.Errorf("goes %v: %+v", goes, p)
		}
		if used := e.slots.keys.Stats().Used; used != 1 || e.waiting.Load() != 0 {
			t.Errorf("goes %v: %d slots in use, %d wait", goes, used, e.waiting.Load())
		}
	}
}

// refused lets time pass until the wait for a slot has ended, and counts refusals by the limit.
func (f *slotFleet) refused(e *Engine) (n int) {
	for range 10 {
		f.now += 5e6
		for _, ev := range append(f.settle(), e.Tick(f.now, nil)...) {
			if o := ev.Outcome; o.Verdict == Reject && o.Reason == ClientLimit && o.Limit == "flight" && ev.HeldBy == "flight" {
				n++
			}
		}
	}
	return n
}

// While all slots are in use, a peek says so, and the RateLimit fields of a refusal name the limit.
func TestPeekAtAFullLimit(t *testing.T) {
	f, e := shared(t, 1, 1000)
	r := Request{Tenant: "a", Client: "c", Pool: "api"}
	if out, a := e.Peek(f.now, &r); out.Verdict != Admit || a.Limit != "rate" {
		t.Errorf("before: %+v, %+v", out, a)
	}
	first := f.start(0, r, 1)
	out := f.start(0, r, 2)
	for range 5 { // the owner's refusal has to come
		out = f.start(0, r, 3)
	}
	a, ok := e.RefusedAllowance(&r, out)
	if !ok || a.Limit != "flight" || a.Concurrency != 1 || a.Next <= 0 {
		t.Errorf("%+v: %+v", out, a)
	}
	if s := f.state(e, "flight"); s.Concurrency != 1 || s.InFlight != 1 || s.Free != 0 {
		t.Errorf("%+v", s)
	}
	if s := f.state(e, "flight"); !s.Passes {
		if out, a := e.Peek(f.now, &r); out.Verdict != Reject || out.Limit != "flight" || a.Concurrency != 1 {
			t.Errorf("full: %+v, %+v", out, a)
		}
	}
	e.FreeSlots(f.now, first.Slots, nil)
	if out, _ := e.Peek(f.now, &r); out.Verdict != Admit {
		t.Errorf("after: %+v", out)
	}
}

// A route in SHADOW takes slots while there are some, and is never refused; a route in OFF takes none.
func TestSlotsOfObservedRoutes(t *testing.T) {
	f, e := shared(t, 2, 1000)
	r := Request{Tenant: "a", Client: "c", Pool: "api", Mode: config.Shadow}
	shadowed := 0
	for range 30 {
		out := e.Decide(f.now, &r)
		if out.Verdict != Admit {
			t.Fatalf("%+v", out)
		}
		if out.Shadow {
			shadowed++
		}
		f.settle()
		f.now += 5e6
		if events := e.Tick(f.now, nil); len(events) > 0 {
			t.Fatalf("events of stand-ins: %+v", events)
		}
	}
	f.settle()
	if used := e.slots.keys.Stats().Used; used != 2 || shadowed < 10 {
		t.Errorf("%d slots in use, %d requests would have been refused", used, shadowed)
	}
	r.Mode = config.Off
	if out := f.start(0, r, 99); out.Verdict != Admit || out.Slots != 0 || out.Shadow {
		t.Errorf("%+v", out)
	}
}

// When the process ends, requests that wait for their share go on only with a slot.
func TestDrainTakesSlots(t *testing.T) {
	f, e := shared(t, 2, 10)
	r := Request{Tenant: "a", Client: "c", Pool: "api"}
	in, waits := 0, 0
	count := func(o Outcome) {
		if o.Verdict == Admit {
			in++
		}
	}
	for i := range 30 {
		if out, _ := e.Enqueue(f.now, &r, uint64(i+1)); out.Verdict == Wait {
			waits++
		} else {
			count(out)
		}
		for _, ev := range f.settle() {
			waits--
			count(ev.Outcome)
		}
	}
	for _, ev := range e.Drain(f.now, nil) {
		waits--
		count(ev.Outcome)
	}
	if waits != 0 || in > 2 || e.waiting.Load() != 0 {
		t.Errorf("%d still wait, %d in flight", waits, in)
	}
}

// A request is known to need slots before the ticker can release it from the queue of its flow.
func TestSlotsAreKnownBeforeTheRelease(t *testing.T) {
	f, e := shared(t, 2, 10)
	r := Request{Tenant: "a", Client: "c", Pool: "api"}
	e.Enqueue(f.now, &r, 1)
	f.settle()
	rt, _ := e.findRoute(&r)
	rt.flow.mu.Lock() // the ticker may be at it
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.Enqueue(f.now, &r, 2)
	}()
	known := func() bool {
		e.slots.mu.Lock()
		defer e.slots.mu.Unlock()
		return e.slots.queued[2] != nil
	}
	for end := time.Now().Add(10 * time.Second); !known() && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if !known() {
		t.Error("the request would be released without a slot")
	}
	rt.flow.mu.Unlock()
	<-done
}

// A limit that is removed while requests wait for their share is asked for no slots.
func TestARemovedLimitIsNotAsked(t *testing.T) {
	f, e := shared(t, 100, 50)
	r := Request{Tenant: "a", Client: "c", Pool: "api"}
	waits := 0
	for i := range 40 {
		if out, _ := e.Enqueue(f.now, &r, uint64(i+1)); out.Verdict == Wait {
			waits++
		}
		waits -= len(f.settle())
	}
	c := simple(50, config.Queue{Law: config.DropTail, MaxRequests: 1000, MaxWait: 10 * time.Second,
		DelayTarget: time.Second}, config.Limit{Name: "rate", Rate: 1000, Burst: 1000, Precision: config.Local})
	c.Revision = 2
	mustApply(t, e, c)
	if waits < 10 {
		t.Fatalf("only %d wait for their share", waits)
	}
	for range 400 {
		f.now += 5e6
		for _, ev := range append(f.settle(), e.Tick(f.now, nil)...) {
			if waits--; ev.Outcome.Verdict != Admit || ev.Outcome.Slots != 0 {
				t.Errorf("%+v", ev)
			}
		}
	}
	if waits != 0 {
		t.Errorf("%d still wait", waits)
	}
}
