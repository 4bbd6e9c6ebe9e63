package limiter

import (
	"fmt"
	"testing"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
)

// BenchmarkPeriodIdleKeys is what a period costs while clients keep their keys that
// asked once, of a limit that takes twelve minutes to forget a request.
func BenchmarkPeriodIdleKeys(b *testing.B) {
	for _, keys := range []int{1000, 60000} {
		b.Run(fmt.Sprint("keys=", keys), func(b *testing.B) {
			e := New(Options{Contended: 3 * 62_500}) // all of them are this replica's
			mustApply(b, e, simple(1e12, config.Queue{}, config.Limit{Name: "l", Rate: 5. / 3600, Burst: 5}))
			e.SetSums(0, &exchange.Sums{Replicas: 3, Lag: 125e6})
			now := sec
			var c exchange.Claims
			for i := range keys {
				e.Decide(now, &Request{Tenant: "a", Client: fmt.Sprint("client-", i), Pool: "api", Cost: 1})
			}
			for range 100 { // five seconds later
				now += 50 * ms
				c.Reset()
				e.Claims(now, &c)
			}
			announced := 0
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				now += 50 * ms
				c.Reset()
				e.SetSums(now, &exchange.Sums{Replicas: 3, Lag: 125e6})
				e.Claims(now, &c)
				announced += len(c.Keys)
			}
			b.ReportMetric(float64(announced)/float64(b.N), "announced/op")
		})
	}
}
