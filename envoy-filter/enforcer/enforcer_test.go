package enforcer

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/envoy-filter/answer"
)

// engine is a real one with a pool "api", a tenant "acme" whose share is given,
// and a patient queue.
func engine(t testing.TB, share float64, boot limiter.BootPolicy) *limiter.Engine {
	t.Helper()
	e := limiter.New(limiter.Options{Keys: 1024, Boot: boot, Start: Now()})
	err := e.Apply(&config.Config{
		Revision: 1,
		Pools: []config.Pool{{Name: "api", Capacity: 1e6, Queue: config.Queue{
			Law: config.DropTail, DelayTarget: 10 * time.Second, MaxWait: 30 * time.Second, MaxRequests: 10000}}},
		Tenants: []config.Tenant{{Name: "acme", Weight: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	shares := []exchange.Share{{Tenant: "acme", Pool: "api", Share: share}}
	e.SetShares(&exchange.Shares{Epoch: 1, Revision: 1, Flows: shares})
	return e
}

var acme = limiter.Request{Tenant: "acme", Pool: "api", Cost: 1}

// hold decides requests until n wait, and returns their handles by ticket.
func hold(t *testing.T, enf *Enforcer, n int) map[uint64]limiter.Handle {
	t.Helper()
	held := map[uint64]limiter.Handle{}
	for ticket := uint64(1); len(held) < n; ticket++ {
		if ticket > 10000 {
			t.Fatalf("%d of 10000 requests wait, want %d", len(held), n)
		}
		if out, h := enf.Enqueue(&acme, ticket); out.Verdict == limiter.Wait {
			held[ticket] = h
		}
	}
	return held
}

func TestTickerReleases(t *testing.T) {
	events := make(chan limiter.Event, 100)
	enf := New(Options{Engine: engine(t, 200, limiter.BootOpen), Deliver: func(es []limiter.Event) {
		for _, e := range es {
			events <- e
		}
	}})
	enf.Start()
	defer enf.Stop()
	held := hold(t, enf, 5)
	for range held {
		e := <-events
		if _, ok := held[e.Ticket]; !ok || e.Outcome.Verdict != limiter.Admit {
			t.Fatalf("event %+v", e)
		}
	}
}

func TestStopReleasesWhatIsHeld(t *testing.T) {
	for policy, verdict := range map[limiter.BootPolicy]limiter.Verdict{
		limiter.BootOpen: limiter.Admit, limiter.BootClosed: limiter.Reject,
	} {
		ended := map[uint64]limiter.Verdict{}
		enf := New(Options{Engine: engine(t, 20, policy), FailurePolicy: policy, Deliver: func(es []limiter.Event) {
			for _, e := range es {
				ended[e.Ticket] = e.Outcome.Verdict
			}
		}})
		enf.Start()
		held := hold(t, enf, 100)
		enf.Stop()
		enf.Stop()
		for ticket, h := range held {
			if _, ok := ended[ticket]; !ok || enf.Cancel(h) {
				t.Fatalf("ticket %d: ended %v, or its Cancel worked after Stop", ticket, ok)
			}
		}
		if out, h := enf.Enqueue(&acme, 1); out.Verdict != verdict || h != 0 {
			t.Fatalf("after Stop, policy %v: %+v", policy, out)
		}
	}
}

// Requests that have waited may still be at the upstream when Envoy shuts down, also if
// they were released just before.
func TestStopReturnsWhetherRequestsAreInFlight(t *testing.T) {
	start := func() (*Enforcer, <-chan limiter.Event) {
		events := make(chan limiter.Event, 100)
		enf := New(Options{Engine: engine(t, 200, limiter.BootOpen), Deliver: func(es []limiter.Event) {
			for _, e := range es {
				events <- e
			}
		}})
		enf.Start()
		return enf, events
	}
	enf, _ := start()
	if enf.Stop() {
		t.Error("in flight, though no request has ever waited")
	}
	enf, _ = start()
	hold(t, enf, 50)
	if !enf.Stop() || enf.Stop() {
		t.Error("with 50 requests held: want in flight from the first Stop, and not from the second")
	}
	enf, events := start()
	hold(t, enf, 1)
	<-events
	if !enf.Stop() {
		t.Error("a request that was released just before is not in flight")
	}
	enf = New(Options{Engine: engine(t, 200, limiter.BootOpen)})
	enf.lastEvent = Now() - int64(Linger)
	if enf.Stop() {
		t.Error("a request that was released long before is in flight")
	}
}

// However Enqueue, Cancel and Stop interleave, each ticket ends once.
func TestEachTicketEndsOnce(t *testing.T) {
	const workers, each = 8, 200
	var ended [workers*each + 1]atomic.Int32
	enf := New(Options{Engine: engine(t, 500, limiter.BootOpen), Deliver: func(es []limiter.Event) {
		for _, e := range es {
			ended[e.Ticket].Add(1)
		}
	}})
	enf.Start()
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				ticket := uint64(w*each + i + 1)
				out, h := enf.Enqueue(&acme, ticket)
				if out.Verdict != limiter.Wait || i%3 == 0 && enf.Cancel(h) {
					ended[ticket].Add(1)
				}
				if w == 0 && i == each/2 {
					go enf.Stop()
				}
			}
		})
	}
	wg.Wait()
	enf.Stop()
	for ticket := 1; ticket < len(ended); ticket++ {
		if n := ended[ticket].Load(); n != 1 {
			t.Fatalf("ticket %d ended %d times", ticket, n)
		}
	}
}

// A panic below the enforcer becomes the policy's outcome. A nil engine panics.
func TestPanicsAreDecidedByPolicy(t *testing.T) {
	for policy, want := range map[limiter.BootPolicy]limiter.Outcome{
		limiter.BootOpen:   {Verdict: limiter.Admit},
		limiter.BootClosed: {Verdict: limiter.Reject, Reason: answer.InternalError, RetryAfter: time.Second},
	} {
		var logged strings.Builder
		enf := New(Options{FailurePolicy: policy, Log: func(s string) { logged.WriteString(s) }})
		if out := enf.Decide(&acme); out != want {
			t.Errorf("policy %v: Decide %+v", policy, out)
		}
		if out, h := enf.Enqueue(&acme, 7); out != want || h != HandleUnknown {
			t.Errorf("policy %v: Enqueue %+v, %v", policy, out, h)
		}
		if enf.Cancel(1 << 40) {
			t.Errorf("a Cancel that panicked removed something")
		}
		for range 20 {
			enf.tick()
		}
		if enf.Panics() != 3+2*20 || !strings.Contains(logged.String(), "decision") ||
			strings.Count(logged.String(), "recovered") != 10 {
			t.Errorf("%d panics, log:\n%s", enf.Panics(), &logged)
		}
	}
}

// RecoverPanic also works as a function value.
func TestRecoverPanic(t *testing.T) {
	enf := New(Options{})
	recoverPanic := enf.RecoverPanic
	func() {
		defer recoverPanic("a goroutine")
		panic("x")
	}()
	if enf.Panics() != 1 {
		t.Fatal("not counted")
	}
}

func TestTicketZeroCannotBeHeld(t *testing.T) {
	enf := New(Options{Engine: engine(t, 1, limiter.BootOpen)})
	hold(t, enf, 1)
	if out, _ := enf.Enqueue(&acme, 0); out.Verdict != limiter.Admit {
		t.Fatalf("%+v", out)
	}
}

func TestAdmitPathDoesNotAllocate(t *testing.T) {
	enf := New(Options{Engine: engine(t, 1e9, limiter.BootOpen)})
	if n := testing.AllocsPerRun(1000, func() { enf.Decide(&acme) }); n != 0 {
		t.Fatalf("%v allocations per request", n)
	}
}

func BenchmarkDecide(b *testing.B) {
	enf := New(Options{Engine: engine(b, 1e9, limiter.BootOpen)})
	b.ReportAllocs()
	for b.Loop() {
		enf.Decide(&acme)
	}
}

// When a decision fails, the pool's on_loss policy comes before the process's policy.
func TestPoolPolicyComesFirst(t *testing.T) {
	for _, c := range []struct {
		loss config.OnLoss
		boot limiter.BootPolicy
		want limiter.Verdict
	}{
		{config.Freeze, limiter.BootOpen, limiter.Admit}, {config.Freeze, limiter.BootClosed, limiter.Reject},
		{config.Open, limiter.BootClosed, limiter.Admit}, {config.SafeRate, limiter.BootOpen, limiter.Reject},
	} {
		e := limiter.New(limiter.Options{Keys: 1024, Start: Now()})
		pools := []config.Pool{{Name: "api", Capacity: 1, OnLoss: c.loss}}
		if err := e.Apply(&config.Config{Pools: pools}); err != nil {
			t.Fatal(err)
		}
		enf := New(Options{Engine: e, FailurePolicy: c.boot})
		var out limiter.Outcome
		func() {
			defer enf.recoverDecision(&out, &acme)
			panic("x")
		}()
		if out.Verdict != c.want {
			t.Errorf("%v, %v: %+v", c.loss, c.boot, out)
		}
	}
}
