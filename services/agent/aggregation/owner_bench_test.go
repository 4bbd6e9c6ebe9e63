package aggregation

import (
	"fmt"
	"testing"
	"time"

	"github.com/titrate/titrate/control/exchange"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/gossip/delivery"
	"google.golang.org/protobuf/proto"
)

// boxes are the send queues to the other agents of a benchmark.
type boxes map[string]*delivery.Box

func (b boxes) Tell(now time.Duration, agent string, item delivery.Item, level delivery.Urgency) {
	if b[agent] == nil {
		b[agent] = &delivery.Box{}
	}
	b[agent].Tell(now, item, level)
}

func (b boxes) TellAgain(now time.Duration, agent string, item delivery.Item, level delivery.Urgency) {
	b.Tell(now, agent, item, level)
}

// send fills packets with all that waits, as if each were acknowledged at once, and returns
// how many records and bytes that is.
func (b boxes) send(t *Aggregator, now time.Duration, seq uint64) (records, bytes int) {
	for agent, box := range b {
		for box.Waiting() > 0 {
			seq++
			box.Begin(now, seq)
			m := &gossipv1.Packet{Agent: "me", Seq: seq}
			for size := 0; size < 1200; {
				item, ok := box.Take()
				if !ok {
					break
				}
				size += t.Put(now, m, agent, item) + 3
				records++
			}
			out, _ := proto.Marshal(m)
			bytes += len(out)
			box.Acked(now, seq, 0, time.Hour)
		}
	}
	return records, bytes
}

// BenchmarkOwnerPeriod measures a period of an agent that owns so many keys, each used at so many of 20 other agents,
// of which 1000 change in the period. Their claims are taken in and the sums are packed for the others. The rest of
// the keys costs nothing.
func BenchmarkOwnerPeriod(b *testing.B) {
	for _, keys := range []int{100_000, 1_000_000} {
		for _, users := range []int{2, 3, 10} {
			b.Run(fmt.Sprint("keys=", keys, "/users=", users), func(b *testing.B) { ownerPeriod(b, keys, users) })
		}
	}
}

func ownerPeriod(b *testing.B, keys, users int) {
	const agents, changes = 20, 1000
	out := boxes{}
	t := New(Options{Agent: "me", Tell: out, Incarnation: 1})
	var names []string
	for i := range agents {
		names = append(names, fmt.Sprint("agent-", i))
	}
	t.SetOwners(0, names, nil)
	now, seq := time.Second, uint64(1)
	claim := func(i int, from, to int, admitted float64) {
		r := &gossipv1.Replica{Name: fmt.Sprint("gateway-", i), Generation: 1, Seq: seq, Weight: 1}
		for k := from; k < to; k++ {
			for u := range users {
				if (k+u)%agents == i {
					r.Keys = append(r.Keys, &gossipv1.KeyClaim{Key: uint64(k + 1), Claim: 1, Admitted: admitted,
						Spent: 1, Own: 1})
				}
			}
		}
		t.Receive(now, Sender{Agent: names[i], Life: 1, Promise: 50 * time.Millisecond},
			[]*gossipv1.Replica{r})
	}
	for i := range agents {
		claim(i, 0, keys, 1)
	}
	out.send(t, now, 0)
	records, bytes, received, at := 0, 0, 0, 0
	b.ReportAllocs()
	for b.Loop() {
		now += 50 * time.Millisecond
		seq++
		for i := range agents {
			claim(i, at, at+changes/users, float64(seq))
		}
		received += changes / users * users
		at = (at + changes/users) % (keys - changes)
		t.Advance(now)
		n, size := out.send(t, now, seq*10000)
		records, bytes = records+n, bytes+size
	}
	b.ReportMetric(float64(received)/float64(b.N), "claims/op")
	b.ReportMetric(float64(records)/float64(b.N), "sums/op")
	b.ReportMetric(float64(bytes)/float64(max(records, 1)), "B/sum")
}

// BenchmarkUserIdle measures a period of an agent whose gateway has so many keys that do not change.
func BenchmarkUserIdle(b *testing.B) {
	for _, keys := range []int{10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint("keys=", keys), func(b *testing.B) {
			out := boxes{}
			t := New(Options{Agent: "me", Tell: out, Incarnation: 1})
			var names []string
			for i := range 20 {
				names = append(names, fmt.Sprint("agent-", i))
			}
			t.SetOwners(0, names, nil)
			t.Connect(0, "a", 1, 1)
			c := &exchange.Claims{}
			for k := range keys {
				c.Keys = append(c.Keys, exchange.KeyClaim{Key: uint64(k + 1), Admitted: 1, Spent: 1, Own: 1})
			}
			t.Announce(time.Second, "a", 1, c)
			out.send(t, time.Second, 0)
			now := 10 * time.Second
			_, stamp := t.Sums(now, "a", 0)
			b.ReportAllocs()
			for b.Loop() {
				now += 25 * time.Millisecond
				t.Advance(now)
				_, stamp = t.Sums(now, "a", stamp)
				out.send(t, now, 1<<40)
			}
		})
	}
}
