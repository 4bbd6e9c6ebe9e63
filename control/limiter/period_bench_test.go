package limiter

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
)

// contendedKeys is an engine in which so many clients have asked once, of a limit that
// takes twelve minutes to forget a request; all the keys are this replica's.
func contendedKeys(b *testing.B, keys int) (e *Engine, now int64, clients []Request) {
	e = New(Options{Keys: max(keys, 1<<14) * 5 / 4, Contended: keys*4/3 + 1024})
	mustApply(b, e, simple(1e12, config.Queue{}, config.Limit{Name: "l", Rate: 5. / 3600, Burst: 5}))
	e.SetSums(0, &exchange.Sums{Full: true, Replicas: 3, Lag: 125e6})
	now, clients = sec, make([]Request, keys)
	for i := range clients {
		clients[i] = Request{Tenant: "a", Client: fmt.Sprint("client-", i), Pool: "api", Cost: 1}
		e.Decide(now, &clients[i])
	}
	return e, now, clients
}

// BenchmarkPeriodIdleKeys measures a period while clients keep their keys that
// asked once.
func BenchmarkPeriodIdleKeys(b *testing.B) {
	for _, keys := range []int{10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint("keys=", keys), func(b *testing.B) {
			e, now, _ := contendedKeys(b, keys)
			var c exchange.Claims
			period := func() {
				now += 50 * ms
				c.Reset()
				e.SetSums(now, &exchange.Sums{Replicas: 3, Lag: 125e6})
				e.Claims(now, &c)
			}
			for range 200 { // ten seconds later
				period()
			}
			announced := 0
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				period()
				announced += len(c.Keys)
			}
			b.ReportMetric(float64(announced)/float64(b.N), "announced/op")
		})
	}
}

// BenchmarkPeriodActiveKeys measures a period while that many clients ask, each once
// in a second: ns/key is the cost per key and period.
func BenchmarkPeriodActiveKeys(b *testing.B) {
	for _, keys := range []int{10_000, 100_000} {
		b.Run(fmt.Sprint("keys=", keys), func(b *testing.B) {
			e, now, clients := contendedKeys(b, keys)
			var c exchange.Claims
			next := 0
			for b.Loop() {
				b.StopTimer()
				now += 50 * ms
				for range keys / 20 {
					e.Decide(now, &clients[next%keys])
					next++
				}
				c.Reset()
				b.StartTimer()
				e.SetSums(now, &exchange.Sums{Replicas: 3, Lag: 125e6})
				e.Claims(now, &c)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(keys), "ns/key")
			b.ReportMetric(float64(len(c.Keys)), "announced/op")
		})
	}
}

// BenchmarkContendedMemory is the memory of contended keys, without their slots, and what
// is left of it when they are contended no longer.
func BenchmarkContendedMemory(b *testing.B) {
	const keys = 1_000_000
	heap := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	for b.Loop() {
		names := make([]string, keys)
		for i := range names {
			names[i] = fmt.Sprint("client-", i)
		}
		e := New(Options{Keys: 5 * keys / 4, Contended: 4 * keys / 3})
		mustApply(b, e, simple(1e12, config.Queue{}, config.Limit{Name: "l", Rate: 5. / 3600, Burst: 5}))
		e.SetSums(0, &exchange.Sums{Full: true, Replicas: 3, Lag: 125e6})
		before, now := heap(), sec
		for _, name := range names {
			e.Decide(now, &Request{Tenant: "a", Client: name, Pool: "api", Cost: 1})
		}
		b.ReportMetric((heap()-before)/keys, "B/key")
		for range 20 * 60 * 20 {
			now += 50 * ms
			var c exchange.Claims
			e.Claims(now, &c)
		}
		b.ReportMetric((heap()-before)/keys, "B/key-left")
		runtime.KeepAlive(e)
		runtime.KeepAlive(names)
	}
}
