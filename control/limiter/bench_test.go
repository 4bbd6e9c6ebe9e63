package limiter

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"

	"github.com/titrate/titrate/control/limiter/internal/hash"
)

func benchEngine(b *testing.B, keys, replicas int) (*Engine, []Request) {
	e := New(Options{Keys: max(keys, 1<<14) * 5 / 4})
	mustApply(b, e, simple(1e12, config.Queue{}, config.Limit{Name: "l", Rate: 1000, Burst: 1e6}))
	if replicas > 1 {
		e.SetSums(0, &exchange.Sums{Full: true, Replicas: replicas, Lag: 100e6})
	}
	rs := make([]Request, keys)
	for i := range rs {
		rs[i] = Request{Tenant: "a", Client: fmt.Sprintf("client-%08d", i), Pool: "api", Cost: 1}
		e.Decide(sec, &rs[i])
	}
	return e, rs
}

// BenchmarkDecideAdmit is the admit path over that many live keys.
func BenchmarkDecideAdmit(b *testing.B) {
	for _, keys := range []int{10_000, 1_000_000} {
		for _, replicas := range []int{1, 3} {
			b.Run(fmt.Sprintf("keys=%d/replicas=%d", keys, replicas), func(b *testing.B) {
				e, rs := benchEngine(b, keys, replicas)
				now := 2 * sec
				i := uint64(1)
				b.ReportAllocs()
				for b.Loop() {
					now += 2000
					i = i*6364136223846793005 + 1442695040888963407
					if e.Decide(now, &rs[i>>33%uint64(keys)]).Verdict == Reject {
						b.Fatal("rejected")
					}
				}
			})
		}
	}
}

// BenchmarkDecideIdentities is a request under three limits: by client, by
// another identity, and of a class.
func BenchmarkDecideIdentities(b *testing.B) {
	e := New(Options{Keys: 1 << 14})
	e.Name(testNames())
	mustApply(b, e, simple(1e12, config.Queue{}, config.Limit{Name: "client", Rate: 1e6, Burst: 1e6},
		config.Limit{Name: "ip", Rate: 1e6, Burst: 1e6, Identity: "ip"},
		config.Limit{Name: "user", Rate: 1e6, Burst: 1e6, Identity: "user", Classes: []string{"writes"}}))
	rs := make([]*Request, 1000)
	for i := range rs {
		rs[i] = from(fmt.Sprint("client-", i), fmt.Sprint("192.0.2.", i), fmt.Sprint("user-", i), writes)
	}
	now := sec
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		now += 2000
		i++
		e.Decide(now, rs[i%len(rs)])
	}
}

func BenchmarkDecideAdmitParallel(b *testing.B) {
	e, rs := benchEngine(b, 10_000, 1)
	var clock atomic.Int64
	clock.Store(2 * sec)
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		rng := rand.New(rand.NewPCG(rand.Uint64(), 1))
		now := clock.Load()
		for p.Next() {
			now += 2000
			e.Decide(now, &rs[rng.IntN(len(rs))])
		}
	})
}

// BenchmarkDecideParallel is the admit path from that many workers at once, on as many
// processors; ns/op is per request of all of them. So on a machine with enough cores it
// halves when the workers double. "spread" asks for ten thousand clients, "one" for a
// single client, whose words all workers then share.
func BenchmarkDecideParallel(b *testing.B) {
	for _, load := range []struct {
		name string
		keys int
	}{{"spread", 10_000}, {"one", 1}} {
		for _, workers := range []int{1, 2, 4, 8} {
			b.Run(fmt.Sprintf("%s/workers=%d", load.name, workers), func(b *testing.B) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(workers))
				e, rs := benchEngine(b, load.keys, 1)
				var began sync.WaitGroup
				b.ReportAllocs()
				b.ResetTimer()
				for w := range workers {
					began.Go(func() { admit(e, rs, w, b.N/workers) })
				}
				began.Wait()
			})
		}
	}
}

// admit decides n requests of clients, in another order for each worker.
func admit(e *Engine, rs []Request, worker, n int) {
	now, i := 2*sec, uint64(worker)+1
	for range n {
		now += 2000
		i = i*6364136223846793005 + 1442695040888963407
		e.Decide(now, &rs[i>>33%uint64(len(rs))])
	}
}

func BenchmarkDecideReject(b *testing.B) {
	e := New(Options{Keys: 1 << 14})
	mustApply(b, e, simple(1e12, config.Queue{}, config.Limit{Name: "l", Rate: 0.001, Burst: 1}))
	r := &Request{Tenant: "a", Client: "x", Pool: "api", Cost: 1}
	now := sec
	b.ReportAllocs()
	for b.Loop() {
		now += 1000
		e.Decide(now, r)
	}
}

// BenchmarkContendedKey is a key with a ledger.
func BenchmarkContendedKey(b *testing.B) {
	e := New(Options{Keys: 1 << 14})
	mustApply(b, e, simple(1e12, config.Queue{}, config.Limit{Name: "l", Rate: 1e6, Burst: 1e6}))
	r := &Request{Tenant: "a", Client: "x", Pool: "api", Cost: 1}
	e.SetSums(0, &exchange.Sums{Full: true, Replicas: 3, Lag: 100e6, Keys: []exchange.KeySum{
		{Key: hash.Limit(7, "a", "l", "x"), Claims: 1000, Unsaturated: 1000, Spent: 1, Admitted: 1}}})
	now := sec
	b.ReportAllocs()
	for b.Loop() {
		now += 2000
		e.Decide(now, r)
	}
}

// BenchmarkQueue is a request through the queue: decided, held, released.
func BenchmarkQueue(b *testing.B) {
	e := New(Options{Keys: 1 << 14})
	mustApply(b, e, simple(1e6, config.Queue{Law: config.DropTail, DelayTarget: 1e9, MaxWait: 10e9,
		MaxRequests: 100_000}))
	rs := make([]Request, 64)
	for i := range rs {
		rs[i] = Request{Tenant: "a", Client: fmt.Sprint(i), Pool: "api", Cost: 1}
	}
	now, last := sec, sec
	var out []Event
	released, ticket := 0, uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		now += 1000 // offered at exactly the share, behind a backlog
		if ticket == 0 {
			for range 60_000 {
				e.Enqueue(now, &rs[0], 1)
			}
		}
		ticket++
		r := &rs[ticket%64]
		if e.Decide(now, r).Verdict == Wait {
			e.Enqueue(now, r, ticket)
		}
		if now-last >= 5*ms {
			last = now
			out = e.Tick(now, out[:0])
			released += len(out)
		}
	}
	b.ReportMetric(float64(released)/float64(b.N), "released/op")
}

// BenchmarkTick is one tick of that many active flows, held or not.
func BenchmarkTick(b *testing.B) {
	for _, held := range []bool{false, true} {
		b.Run(fmt.Sprintf("flows=1000/held=%v", held), func(b *testing.B) {
			e := New(Options{Keys: 1 << 14})
			c := &config.Config{Pools: []config.Pool{{Name: "api", Capacity: 1000,
				Queue: config.Queue{Law: config.DropTail, DelayTarget: 10e9, MaxWait: 60e9}}}}
			for i := range 1000 {
				c.Tenants = append(c.Tenants, config.Tenant{Name: fmt.Sprint(i)})
			}
			mustApply(b, e, c)
			now := sec
			for i := range c.Tenants {
				r := &Request{Tenant: c.Tenants[i].Name, Pool: "api", Cost: 1}
				for e.Decide(now, r).Verdict == Admit {
				}
				if held {
					e.Enqueue(now, r, 1)
				}
			}
			var out []Event
			for b.Loop() {
				now += 1000 // hardly any time, so that they stay active and held
				out = e.Tick(now, out[:0])
			}
			b.ReportMetric(float64(len(e.lists.running)), "active")
		})
	}
}
