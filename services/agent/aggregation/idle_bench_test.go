package aggregation

import (
	"fmt"
	"testing"
	"time"

	"github.com/titrate/titrate/control/exchange"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
)

// BenchmarkPeriodIdleKeys is what a period costs with so many keys that were used once
// and that nobody asks for now, a third of them here.
func BenchmarkPeriodIdleKeys(b *testing.B) {
	for _, keys := range []int{1000, 60000} {
		b.Run(fmt.Sprint("keys=", keys), func(b *testing.B) {
			t := New(Options{Incarnation: 1})
			t.Connect(0, "a", 1, 1)
			own := &exchange.Claims{}
			others := []*gossipv1.Replica{{Name: "r1", Generation: 1, Weight: 1}, {Name: "r2", Generation: 1,
				Weight: 1}}
			for k := range keys {
				if k%3 == 0 {
					own.Keys = append(own.Keys, exchange.KeyClaim{Key: uint64(k + 1), Admitted: 1, Spent: 1, Own: 1})
					continue
				}
				r := others[k%3-1]
				r.Keys = append(r.Keys, &gossipv1.KeyClaim{Key: uint64(k + 1), Admitted: 1, Spent: 1, Own: 1})
			}
			now, stamp := time.Duration(0), uint64(0)
			tell := func() {
				t.Announce(now, "a", 1, own)
				for i, r := range others {
					r.Seq++
					t.Receive(now, Sender{Agent: fmt.Sprint("agent-", i), Life: 1, Promise: 50 * time.Millisecond}, others[i:i+1])
				}
			}
			tell()
			now += 5 * time.Second // they sleep now
			t.State(now)
			listed := 0
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				now += 50 * time.Millisecond
				if n%64 == 0 { // those who use them remind of them
					b.StopTimer()
					tell()
					b.StartTimer()
				}
				for _, r := range t.State(now) {
					listed += len(r.Keys)
				}
				var s *exchange.Sums
				s, stamp = t.Sums(now, "a", stamp)
				listed += len(s.Keys)
			}
			b.ReportMetric(float64(listed)/float64(b.N), "listed/op")
		})
	}
}
