package limiter

import (
	"sync"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/limiter/internal/tokens"
)

// twoExact is one gateway with two EXACT limits of 5, and a request to both.
func twoExact(t *testing.T) (f *exactFleet, e *Engine, r Request) {
	f = newExactFleet(t, 1, simple(1000, config.Queue{}, exactly("a", 1, 5), exactly("b", 1, 5)))
	return f, f.engines[0], Request{Tenant: "a", Client: "c", Pool: "api", Cost: 1}
}

// expectFree fails unless both limits have so much left, by the owners' buckets and by the ledgers.
func expectFree(t *testing.T, e *Engine, r *Request, now int64, want float64) {
	t.Helper()
	for _, up := range []bool{true, false} {
		e.LinkTokens(now, up)
		for _, l := range e.Explain(now, r).Limits {
			if l.Free != want {
				t.Errorf("link %v: limit %s has %v left, want %v", up, l.Name, l.Free, want)
			}
		}
	}
}

// A request may go away when its wait for one limit has just ended, before it joins the line of the
// next one or after the last one. It is not admitted, and charges neither limit.
func TestCancelBetweenTwoOwners(t *testing.T) {
	for name, over := range map[string]int{"after the first limit's wait": 1, "after the second's": 2} {
		t.Run(name, func(t *testing.T) {
			f, e, r := twoExact(t)
			_, h := e.Enqueue(sec, &r, 2)
			ended := endWaits(f, e, sec)[0]
			if over == 2 {
				if events := e.resume(sec, ended, nil); len(events) != 0 {
					t.Fatalf("it does not wait for the second limit: %+v", events)
				}
				ended = endWaits(f, e, sec)[0]
			}
			if !e.Cancel(sec, h) || e.Cancel(sec, h) {
				t.Error("it cannot be cancelled, or twice")
			}
			if events := e.resume(sec, ended, nil); len(events) != 0 || e.waiting.Load() != 0 {
				t.Errorf("a cancelled request goes on: %+v, %d wait", events, e.waiting.Load())
			}
			f.settle(sec)
			expectFree(t, e, &r, sec, 5)
		})
	}
}

// endWaits carries messages until waits of the engine end, which do not go on yet.
func endWaits(f *exactFleet, e *Engine, now int64) []tokens.Ended[*tokenWait] {
	f.t.Helper()
	for range 10 {
		f.askOwners(now)
		waiting := f.answers[0]
		f.answers[0] = nil
		for i := range waiting {
			if ended := e.tokens[0].Answer(now, &waiting[i], nil); len(ended) > 0 {
				return ended
			}
		}
	}
	f.t.Fatal("no wait ends")
	return nil
}

// A Cancel at the time of the owner's answer either works or the event comes, and what is cancelled is not
// charged. Run it with -race.
func TestCancelBesideAnAnswer(t *testing.T) {
	for range 200 {
		f, e, r := twoExact(t)
		_, h := e.Enqueue(sec, &r, 1)
		var cancelled bool
		var both sync.WaitGroup
		both.Go(func() { f.settle(sec) })
		both.Go(func() { cancelled = e.Cancel(sec, h) })
		both.Wait()
		f.settle(sec)
		if cancelled == (len(f.events) == 1) {
			t.Fatalf("cancelled: %v, events: %+v", cancelled, f.events)
		}
		want := 5.0
		if !cancelled {
			want--
		}
		if e.tokens[0].Stats().Keys == 2 { // else the second limit was never asked
			expectFree(t, e, &r, sec, want)
		}
	}
}

// A request has one time to wait for the owners of all its limits. When they do not answer, it goes on after
// 50 ms and a tick, though a request that came later is before it in the line of its second limit.
func TestSilentOwnersShareOneWait(t *testing.T) {
	some := exactly("a", 1, 5)
	some.Classes = []string{"writes"}
	f := newExactFleet(t, 1, simple(1000, config.Queue{}, some, exactly("b", 1, 5)))
	f.dead = true
	e := f.engines[0]
	e.Name(testNames())
	const ms = int64(time.Millisecond)
	f.ask(0, sec, Request{Tenant: "a", Client: "c", Pool: "api", Cost: 1, Classes: writes}, 1)
	f.ask(0, sec+40*ms, Request{Tenant: "a", Client: "c", Pool: "api", Cost: 1}, 2)
	waited := map[uint64]time.Duration{}
	for at := int64(0); at < 150*ms; at += 5 * ms {
		for _, ev := range e.Tick(sec+at, nil) {
			waited[ev.Ticket] = ev.Outcome.Waited
		}
	}
	if waited[1] != 50*time.Millisecond || waited[2] != 50*time.Millisecond {
		t.Errorf("waited %v, want 50 ms", waited)
	}
}

// A limit whose owner has no room for the key is left to the ledger once, though the request then waits for
// other limits' owners.
func TestLeftToTheLedgerOnce(t *testing.T) {
	for _, order := range []string{"xy", "yxz"} {
		var limits []config.Limit
		for _, name := range order {
			l := exactly(string(name), 1, 5)
			if name != 'x' {
				l.Classes = []string{"writes"}
			}
			limits = append(limits, l)
		}
		f := newExactFleet(t, 1, simple(1000, config.Queue{}, limits...))
		e := f.engines[0]
		e.Name(testNames())
		f.full = func(int) bool { return true }
		f.ask(0, sec, Request{Tenant: "a", Client: "c", Pool: "api", Cost: 1}, 1)
		f.settle(sec)
		f.full = nil
		_, h := f.ask(0, sec, Request{Tenant: "a", Client: "c", Pool: "api", Cost: 1, Classes: writes}, 2)
		w := e.places.of(h)
		f.settle(sec)
		for _, l := range w.route.limits {
			switch counts := l.tally.Load(); {
			case l.name == "x" && counts.counts[didLeave].Load() != 2:
				t.Errorf("%s: two requests were left to the ledger %d times", order, counts.counts[didLeave].Load())
			case l.name != "x" && counts.counts[didAsk].Load() != 1:
				t.Errorf("%s: limit %s asked %d times", order, l.name, counts.counts[didAsk].Load())
			}
		}
	}
}

// A request that joins the line of its second limit is before the requests that came after it, and gets
// the token that a later request would get.
func TestLineIsInOrderOfArrival(t *testing.T) {
	some := exactly("a", 1, 5)
	some.Classes = []string{"writes"}
	f := newExactFleet(t, 1, simple(1000, config.Queue{}, some, exactly("b", 1, 1)))
	e := f.engines[0]
	e.Name(testNames())
	const ms = int64(time.Millisecond)
	f.ask(0, sec, Request{Tenant: "a", Client: "c", Pool: "api", Cost: 1, Classes: writes}, 1)
	ended := endWaits(f, e, sec)[0]
	f.ask(0, sec+ms, Request{Tenant: "a", Client: "c", Pool: "api", Cost: 1}, 2)
	e.resume(sec+2*ms, ended, nil)
	f.settle(sec + 3*ms)
	for _, ev := range f.events {
		if admitted := ev.Outcome.Verdict == Admit; admitted != (ev.Ticket == 1) {
			t.Errorf("request %d: %+v", ev.Ticket, ev.Outcome)
		}
	}
	if len(f.events) != 2 {
		t.Errorf("%+v", f.events)
	}
}

// A request whose flow is freed while it waits goes on in the flow's successor, and can be cancelled there
// by its handle of before.
func TestFlowIsFreedDuringAWait(t *testing.T) {
	f, e, r := twoExact(t)
	var handles []Handle
	for ticket := range 2 {
		_, h := f.ask(0, sec, r, uint64(ticket+1))
		handles = append(handles, h)
	}
	e.places.of(handles[0]).route.flow.credit.amount.Store(void)
	ended := endWaits(f, e, sec)
	e.resume(sec, ended[1], nil)
	if !e.Cancel(sec, handles[1]) {
		t.Error("the second request cannot be cancelled")
	}
	f.events = e.resume(sec, ended[0], f.events)
	f.settle(sec)
	if len(f.events) != 1 || f.events[0].Ticket != 1 || f.events[0].Outcome.Verdict != Admit || e.waiting.Load() != 0 {
		t.Errorf("%+v, %d wait", f.events, e.waiting.Load())
	}
	expectFree(t, e, &r, sec, 4)
}
