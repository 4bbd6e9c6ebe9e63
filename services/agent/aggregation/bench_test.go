package aggregation

import (
	"fmt"
	"testing"
	"time"

	"github.com/titrate/titrate/control/exchange"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
)

// BenchmarkPeriod measures one period: a gateway announces, nine others report, the sums are made, with so many
// contended keys.
func BenchmarkPeriod(b *testing.B) {
	for _, keys := range []int{100, 1000, 10000} {
		b.Run(fmt.Sprint(keys, " keys"), func(b *testing.B) {
			t := New(Options{Incarnation: 1})
			t.Connect(0, "a", 1, 1)
			own := &exchange.Claims{Keys: make([]exchange.KeyClaim, keys)}
			others := make([]*gossipv1.Replica, 9)
			for i := range others {
				others[i] = &gossipv1.Replica{Name: fmt.Sprint("r", i), Generation: 1, Weight: 1}
				for k := range keys {
					others[i].Keys = append(others[i].Keys, &gossipv1.KeyClaim{Key: uint64(k + 1), Claim: 1, Active: 1})
				}
			}
			now, stamp := time.Duration(0), uint64(0)
			b.ReportAllocs()
			for n := range b.N {
				now += 50 * time.Millisecond
				for k := range own.Keys {
					own.Keys[k] = exchange.KeyClaim{Key: uint64(k + 1), Claim: 1, Active: 1, Admitted: float64(n)}
				}
				t.Announce(now, "a", 1, own)
				for _, r := range others {
					r.Seq = uint64(n + 1)
					for _, k := range r.Keys {
						k.Admitted = float64(n)
					}
				}
				t.Receive(now, Sender{Agent: "x", Life: 1, Promise: 50 * time.Millisecond}, others)
				var s *exchange.Sums
				if s, stamp = t.Sums(now, "a", stamp); len(s.Keys) != keys {
					b.Fatal(len(s.Keys))
				}
			}
		})
	}
}

// BenchmarkMembers is half a period of an agent with so many gateways in a fleet of so many
// agents with as many each, in which nothing changes. Packets with the gateways' names come from
// some of the agents, and each gateway is sent what has changed.
func BenchmarkMembers(b *testing.B) {
	for _, n := range []struct{ agents, gateways int }{{100, 1}, {1000, 1}, {100, 10}, {100, 100}} {
		b.Run(fmt.Sprint("agents=", n.agents, "/gateways=", n.gateways), func(b *testing.B) {
			t, heads, members := New(Options{Incarnation: 1}), make([][]*gossipv1.Replica, n.agents), []Member(nil)
			for i := range n.agents * n.gateways {
				name := fmt.Sprint("gateway-", i)
				members = append(members, Member{name, 1})
				if of := i / n.gateways; of > 0 {
					heads[of] = append(heads[of], &gossipv1.Replica{Name: name, Generation: 1, Weight: 1})
				} else {
					t.Connect(0, name, 1, 1)
				}
			}
			t.SetMembers(0, members, 1<<62)
			hear := func(now time.Duration, of int) {
				t.Receive(now, Sender{Agent: fmt.Sprint("agent-", of), Life: 1, Promise: 4 * time.Second}, heads[of])
			}
			now := time.Second
			for of := range heads[1:] {
				hear(now, of+1)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				now += 25 * time.Millisecond
				for k := range n.agents / 64 {
					hear(now, 1+(i+k*64)%(n.agents-1))
				}
				t.Advance(now)
				for k := range n.gateways {
					if s, _ := t.Sums(now, members[k].Name, 1); s.Replicas != len(members) {
						b.Fatal(s.Replicas)
					}
				}
			}
		})
	}
}
