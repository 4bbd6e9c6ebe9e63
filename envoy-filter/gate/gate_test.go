package gate

import (
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter"
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
	e.SetShares(&exchange.Shares{Epoch: 1, Revision: 1, Flows: []exchange.Share{{Tenant: "acme", Pool: "api", Share: share}}})
	return e
}

var acme = limiter.Request{Tenant: "acme", Pool: "api", Cost: 1}

// hold decides requests until n wait, and returns their handles by ticket.
func hold(t *testing.T, g *Gate, n int) map[uint64]limiter.Handle {
	t.Helper()
	held := map[uint64]limiter.Handle{}
	for ticket := uint64(1); len(held) < n; ticket++ {
		if ticket > 10000 {
			t.Fatalf("%d of 10000 requests wait, want %d", len(held), n)
		}
		if out, h := g.Enqueue(&acme, ticket); out.Verdict == limiter.Wait {
			held[ticket] = h
		}
	}
	return held
}

func TestTickerReleases(t *testing.T) {
	events := make(chan limiter.Event, 100)
	g := New(Options{Engine: engine(t, 200, limiter.BootOpen), Deliver: func(es []limiter.Event) {
		for _, e := range es {
			events <- e
		}
	}})
	g.Start()
	defer g.Stop()
	held := hold(t, g, 5)
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
		g := New(Options{Engine: engine(t, 20, policy), Fail: policy, Deliver: func(es []limiter.Event) {
			for _, e := range es {
				ended[e.Ticket] = e.Outcome.Verdict
			}
		}})
		g.Start()
		held := hold(t, g, 100)
		g.Stop()
		g.Stop()
		for ticket, h := range held {
			if _, ok := ended[ticket]; !ok || g.Cancel(h) {
				t.Fatalf("ticket %d: ended %v, or its Cancel worked after Stop", ticket, ok)
			}
		}
		if out, h := g.Enqueue(&acme, 1); out.Verdict != verdict || h != 0 {
			t.Fatalf("after Stop, policy %v: %+v", policy, out)
		}
	}
}

// What has waited may still be at the upstream when Envoy is told to end, also if its turn
// came just before.
func TestStopTellsWhatIsUnderWay(t *testing.T) {
	start := func() (*Gate, <-chan limiter.Event) {
		events := make(chan limiter.Event, 100)
		g := New(Options{Engine: engine(t, 200, limiter.BootOpen), Deliver: func(es []limiter.Event) {
			for _, e := range es {
				events <- e
			}
		}})
		g.Start()
		return g, events
	}
	g, _ := start()
	if g.Stop() {
		t.Error("under way, though nothing has ever waited")
	}
	g, _ = start()
	hold(t, g, 50)
	if !g.Stop() || g.Stop() {
		t.Error("want under way by the first Stop, with 50 requests held, and not by the second")
	}
	g, events := start()
	hold(t, g, 1)
	<-events
	if !g.Stop() {
		t.Error("a request that was released just before is not under way")
	}
	g = New(Options{Engine: engine(t, 200, limiter.BootOpen)})
	g.ended = Now() - int64(Linger)
	if g.Stop() {
		t.Error("a request that was released long before is under way")
	}
}

// However Enqueue, Cancel and Stop interleave, each ticket ends once.
func TestEachTicketEndsOnce(t *testing.T) {
	const workers, each = 8, 200
	var ended [workers*each + 1]atomic.Int32
	g := New(Options{Engine: engine(t, 500, limiter.BootOpen), Deliver: func(es []limiter.Event) {
		for _, e := range es {
			ended[e.Ticket].Add(1)
		}
	}})
	g.Start()
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				ticket := uint64(w*each + i + 1)
				out, h := g.Enqueue(&acme, ticket)
				if out.Verdict != limiter.Wait || i%3 == 0 && g.Cancel(h) {
					ended[ticket].Add(1)
				}
				if w == 0 && i == each/2 {
					go g.Stop()
				}
			}
		})
	}
	wg.Wait()
	g.Stop()
	for ticket := 1; ticket < len(ended); ticket++ {
		if n := ended[ticket].Load(); n != 1 {
			t.Fatalf("ticket %d ended %d times", ticket, n)
		}
	}
}

// A panic below the gate becomes the policy's outcome. A nil engine panics.
func TestPanicsFailByPolicy(t *testing.T) {
	for policy, want := range map[limiter.BootPolicy]limiter.Outcome{
		limiter.BootOpen:   {Verdict: limiter.Admit},
		limiter.BootClosed: {Verdict: limiter.Reject, Reason: InternalError, RetryAfter: time.Second},
	} {
		var logged strings.Builder
		g := New(Options{Fail: policy, Log: func(s string) { logged.WriteString(s) }})
		if out := g.Decide(&acme); out != want {
			t.Errorf("policy %v: Decide %+v", policy, out)
		}
		if out, h := g.Enqueue(&acme, 7); out != want || h != Unsure {
			t.Errorf("policy %v: Enqueue %+v, %v", policy, out, h)
		}
		if g.Cancel(1 << 40) {
			t.Errorf("a Cancel that panicked removed something")
		}
		for range 20 {
			g.tick()
		}
		if g.Panics() != 3+2*20 || !strings.Contains(logged.String(), "decision") || strings.Count(logged.String(), "recovered") != 10 {
			t.Errorf("%d panics, log:\n%s", g.Panics(), &logged)
		}
	}
}

// Contain also works as the value that other packages are given.
func TestContain(t *testing.T) {
	g := New(Options{})
	contain := g.Contain
	func() {
		defer contain("a goroutine")
		panic("x")
	}()
	if g.Panics() != 1 {
		t.Fatal("not counted")
	}
}

func TestTicketZeroCannotBeHeld(t *testing.T) {
	g := New(Options{Engine: engine(t, 1, limiter.BootOpen)})
	hold(t, g, 1)
	if out, _ := g.Enqueue(&acme, 0); out.Verdict != limiter.Admit {
		t.Fatalf("%+v", out)
	}
}

func TestAdmitPathDoesNotAllocate(t *testing.T) {
	g := New(Options{Engine: engine(t, 1e9, limiter.BootOpen)})
	if n := testing.AllocsPerRun(1000, func() { g.Decide(&acme) }); n != 0 {
		t.Fatalf("%v allocations per request", n)
	}
}

func BenchmarkDecide(b *testing.B) {
	g := New(Options{Engine: engine(b, 1e9, limiter.BootOpen)})
	b.ReportAllocs()
	for b.Loop() {
		g.Decide(&acme)
	}
}

func TestRetrySeconds(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		0: 1, -time.Hour: 1, time.Nanosecond: 1, time.Second: 1, time.Second + 1: 2, 90 * time.Second: 90,
	} {
		if got := RetrySeconds(d); got != want {
			t.Errorf("%v: %d, want %d", d, got, want)
		}
	}
}

func TestStatus(t *testing.T) {
	for r, want := range map[limiter.Reason]int{
		limiter.ClientLimit: 429, limiter.TenantShare: 429, limiter.QueueFull: 429, limiter.QueueTimeout: 429,
		limiter.UnknownTenant: 403, limiter.NotConfigured: 503, InternalError: 503,
	} {
		if got := Status(r); got != want || ReasonName(r) == "" {
			t.Errorf("%s: %d, want %d", ReasonName(r), got, want)
		}
	}
}

// Whatever a client calls its tenant, the body is JSON of bounded length.
func FuzzBody(f *testing.F) {
	f.Add("acme")
	f.Add("\"\\\x00\xff\u2028<é")
	f.Add(strings.Repeat("\x01", 500))
	f.Fuzz(func(t *testing.T, tenant string) {
		body := AppendBody(nil, tenant, limiter.ClientLimit)
		var v struct{ Error, Reason, Tenant string }
		if err := json.Unmarshal(body, &v); err != nil || len(body) > 1024 || v.Reason != "client_limit" {
			t.Fatalf("%q: %v", body, err)
		}
		if utf8.ValidString(tenant) && !strings.HasPrefix(tenant, v.Tenant) {
			t.Fatalf("%q became %q", tenant, v.Tenant)
		}
	})
}
