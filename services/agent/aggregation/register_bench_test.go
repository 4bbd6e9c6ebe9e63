package aggregation

import (
	"fmt"
	"testing"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/services/agent/gossip/delivery"
)

// silentTeller drops what it is given.
type silentTeller struct{}

func (silentTeller) Tell(time.Duration, string, delivery.Item, delivery.Urgency)      {}
func (silentTeller) TellAgain(time.Duration, string, delivery.Item, delivery.Urgency) {}

// BenchmarkSetOwners measures the cost for an agent whose gateway has so many keys when one of 100 agents goes, and
// when it is back. It takes a look at each key, and one key in a hundred moves.
func BenchmarkSetOwners(b *testing.B) {
	for _, keys := range []int{10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint("keys=", keys), func(b *testing.B) {
			var names []string
			for i := range 99 {
				names = append(names, fmt.Sprintf("agent-%02d", i))
			}
			t, now := New(Options{Agent: "me", Tell: silentTeller{}}), time.Second
			t.SetOwners(now, names, nil)
			t.Connect(now, "a", 1, 1)
			c := &exchange.Claims{}
			for k := range keys {
				c.Keys = append(c.Keys, exchange.KeyClaim{Key: uint64(k+1) * 0x9e3779b97f4a7c15, Admitted: 1,
					Spent: 1, Own: 1})
			}
			t.Announce(now, "a", 1, c)
			b.ReportAllocs()
			for b.Loop() {
				now += time.Second
				t.SetOwners(now, names[1:], nil)
				now += time.Second
				t.SetOwners(now, names, names[:1])
			}
		})
	}
}
