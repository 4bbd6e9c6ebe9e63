package limiter

import (
	"fmt"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/limiter/internal/queue"
)

// heldClients returns an engine in which so many clients each have one request held for
// their limit, which admits it after a wait.
func heldClients(t testing.TB, clients int, wait time.Duration) (e *Engine, now int64) {
	t.Helper()
	e = New(Options{Keys: 1 << 17})
	c := simple(1e9, config.Queue{MaxRequests: config.MaxQueueRequests}, config.Limit{
		Name: "l", Rate: 1 / wait.Seconds(), Burst: 1, Queue: config.Queue{MaxWait: time.Minute},
	})
	if err := e.Apply(c); err != nil {
		t.Fatal(err)
	}
	now = sec
	for i := range clients {
		r := Request{Tenant: "a", Client: fmt.Sprint(i), Pool: "api"}
		e.Enqueue(now, &r, 0) // takes the burst
		if out, _ := e.Enqueue(now, &r, uint64(i+1)); out.Verdict != Wait {
			t.Fatalf("client %d: %+v, want Wait", i, out)
		}
	}
	return e, now
}

// A tick asks the limits of those clients whose time has come, of no others, and of so
// many only before it lets other threads have the flow.
func TestTickTouchesOnlyWhatIsDue(t *testing.T) {
	const clients = 3000
	e, now := heldClients(t, clients, 20*time.Second)
	f := e.live()[0]
	_, first := f.queue.NextRetry()
	if first < now+9*sec {
		t.Fatalf("the first limit is asked after %v, want half of the 20 s that it says", time.Duration(first-now))
	}
	for range 100 {
		now += 5 * ms
		out := e.Tick(now, nil)
		if _, at := f.queue.NextRetry(); len(out) != 0 || at != first {
			t.Fatal("a limit was asked before its time")
		}
	}
	now = 22 * sec
	released, steps := 0, 0
	for more := true; more; steps++ {
		out, state := e.tickBatch(f, e.member.Load(), now, nil)
		more = state.more
		if len(out) > batch {
			t.Fatalf("%d released under one lock, want at most %d", len(out), batch)
		}
		released += len(out)
	}
	if released != clients || steps < clients/batch {
		t.Errorf("%d of %d released in %d steps", released, clients, steps)
	}
}

// BenchmarkTickHeld is a tick while 60,000 clients wait for their limits.
func BenchmarkTickHeld(b *testing.B) {
	e, now := heldClients(b, 60_000, 50*time.Second)
	b.ResetTimer()
	for range b.N {
		now += 5 * ms
		e.Tick(now, nil)
	}
}

// Costs at their bound and many clients do not make a greedy client look modest.
func TestGreedyWithTheLargestCosts(t *testing.T) {
	e := New(Options{Keys: 1024})
	f := &flow{queue: queue.New[waiting, holding](0)}
	for i := range uint64(2000) {
		f.queue.Push(i, "", queue.Entry[waiting]{Cost: MaxCost * unit, Eligible: true})
	}
	for range 4000 {
		f.queue.Push(0, "", queue.Entry[waiting]{Cost: MaxCost * unit, Eligible: true})
	}
	if a := f.arrival(e, &call{now: sec, cost: unit}, f.queue.Find(0), 2); !a.Greedy {
		t.Error("a client with two thirds of the queue of 2000 clients is not greedy")
	}
}
