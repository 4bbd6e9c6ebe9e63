package aggregation

import (
	"fmt"
	"testing"
	"time"

	"github.com/titrate/titrate/control/exchange"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/gossip/delivery"
)

// An owner whose table is full forgets a key without claims. When the key comes again, its users learn that the count
// is a new one, and do not take it for less than before.
func TestAForgottenKeyBeginsAnew(t *testing.T) {
	a, now, seq := New(Options{Agent: "me", Tell: boxes{}, MaxKeys: 8}), time.Second, uint64(0)
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprint("agent-", i))
	}
	a.SetOwners(now, names, nil)
	tell := func(of int, key uint64, claim float32, admitted float64) {
		seq++
		a.Receive(now, Sender{Agent: names[of], Life: 1, Promise: promise}, []*gossipv1.Replica{
			stateOf("gateway of "+names[of], seq, &gossipv1.KeyClaim{Key: key, Claim: claim, Admitted: admitted,
				Spent: 1, Own: 1, Sum: true})})
	}
	sum := func() *gossipv1.Sum {
		m := &gossipv1.Packet{}
		a.Put(now, m, names[1], delivery.Taken{Item: delivery.Item{Key: 1, Kind: delivery.Sum}})
		return m.Sums[0]
	}
	tell(0, 1, 0, 1)
	tell(1, 1, 0, 1)
	tell(0, 1, 0, 9)
	was := sum()
	tell(1, 1, 0, 2)
	if got := sum(); got.Epoch != was.Epoch || got.Admitted != 9 {
		t.Errorf("%v after %v, want the same count", got, was)
	}
	for _, claim := range []float32{1, 0} { // others take all the room, and give it back
		now += time.Second
		for i := range 8 {
			tell(2+i, uint64(100+i), claim, 1)
		}
	}
	now += time.Second
	tell(1, 1, 0, 3)
	tell(0, 1, 0, 10)
	if got := sum(); got.Epoch == was.Epoch {
		t.Errorf("%v after %v, want a new epoch for a count that began anew", got, was)
	}
}

// Agents that come and go under new names, as pods do, are forgotten.
func TestAgentsOfThePastAreForgotten(t *testing.T) {
	a, now := New(Options{Agent: "me", Tell: boxes{}}), time.Second
	for i := range 100 {
		var names []string
		for j := range 20 {
			names = append(names, fmt.Sprintf("agent-%d-%d", i, j))
		}
		a.SetOwners(now, names, nil)
		for j, name := range names[:2] {
			a.Receive(now, Sender{Agent: name, Life: 1, Promise: promise}, []*gossipv1.Replica{
				stateOf("gateway of "+name, 1, &gossipv1.KeyClaim{Key: 7, Claim: float32(1 + j), Admitted: 1,
					Spent: 1, Own: 1, Sum: true})})
		}
		m := &gossipv1.Packet{}
		if a.Put(now, m, names[0], delivery.Taken{Item: delivery.Item{Key: 7, Kind: delivery.Sum}}); m.Sums[0].Claims < 2 {
			t.Fatalf("round %d: %v of the others, want at least the 2 of the second agent", i, m.Sums[0].Claims)
		}
		for _, name := range names[:2] {
			gone := stateOf("gateway of "+name, 2, nil)
			gone.Drained = true
			a.Receive(now, Sender{Agent: name, Life: 1, Promise: promise}, []*gossipv1.Replica{gone})
		}
		now += time.Minute
		a.Advance(now)
		a.Sweep(now)
	}
	if n := max(len(a.remotes), len(a.replicas), len(a.speaksFor)); n > 40 {
		t.Errorf("%d agents are remembered after 2000 that came and went", n)
	}
}

// What a gateway has admitted is known after its agent has gone for good: of a gateway that another agent reports now,
// without its keys. An agent that comes meanwhile is sent all of it.
func TestAGatewayOutlivesItsAgent(t *testing.T) {
	a, now := New(Options{Agent: "me", Tell: boxes{}, Everybody: 1}), time.Second
	say := func(agent string, of *gossipv1.Replica) {
		a.Receive(now, Sender{Agent: agent, Life: 1, Promise: promise}, []*gossipv1.Replica{of})
	}
	a.SetOwners(now, []string{"first", "second"}, nil)
	say("first", stateOf("gateway", 1, &gossipv1.KeyClaim{Key: 7, Claim: 5, Admitted: 5, Spent: 5, Own: 5, Sum: true}))
	gone := stateOf("gateway", 2, nil)
	gone.Drained = true
	say("first", gone)
	back := stateOf("gateway", 1, nil)
	back.Generation++
	say("another", back)
	a.SetOwners(now, []string{"second", "third"}, nil)
	say("third", stateOf("gateway of third", 1, &gossipv1.KeyClaim{Key: 7, Claim: 1, Admitted: 1,
		Spent: 1, Own: 1, Sum: true}))
	m := &gossipv1.Packet{}
	if a.Put(now, m, "third", delivery.Taken{Item: delivery.Item{Key: 7, Kind: delivery.Sum}}); m.Sums[0].Admitted != 5 {
		t.Errorf("%v admitted elsewhere, want the 5 of the gateway whose agent has gone", m.Sums[0].Admitted)
	}
}

// When a user registers, and says that its claim was known to another owner before, the count restarts. The user is
// sent the new epoch as the others are: what they admit next is not compared with an earlier count. So it is with a
// user that has left the key in between.
func TestWhoRegistersAgainIsToldTheNewEpoch(t *testing.T) {
	told := boxes{}
	a, now := New(Options{Agent: "me", Tell: told, Everybody: 1}), time.Second
	a.SetOwners(now, []string{"first", "second"}, nil)
	say := func(agent string, seq uint64, of *gossipv1.KeyClaim) {
		a.Receive(now, Sender{Agent: agent, Life: 1, Promise: promise},
			[]*gossipv1.Replica{stateOf("gateway of "+agent, seq, of)})
		a.Gather(now)
	}
	say("first", 1, &gossipv1.KeyClaim{Key: 7, Claim: 5, Admitted: 5, Spent: 5, Own: 5, Sum: true})
	say("second", 1, &gossipv1.KeyClaim{Key: 7, Claim: 5, Admitted: 3, Spent: 8, Own: 3, Sum: true})
	say("second", 2, &gossipv1.KeyClaim{Key: 7, Admitted: 3, Left: true})
	told.send(a, now, 0)
	say("second", 3, &gossipv1.KeyClaim{Key: 7, Claim: 5, Admitted: 6, Spent: 11, Own: 6, Known: true, Sum: true})
	for _, agent := range []string{"first", "second"} {
		if told[agent].Waiting() != 1 {
			t.Errorf("%s is told %d sums, want the one of the new epoch", agent, told[agent].Waiting())
		}
	}
}

// An agent that sends again as soon as it promised was reachable, also if it promises shorter intervals from now on:
// what its gateways have admitted is no late news.
func TestAPromiseIsKept(t *testing.T) {
	w := newWorld()
	w.SetOwners(w.now, []string{"other"}, nil)
	hear := func(seq uint64, promise time.Duration, k *gossipv1.KeyClaim) {
		w.Receive(w.now, Sender{Agent: "other", Life: 1, Promise: promise},
			[]*gossipv1.Replica{stateOf("b", seq, k)})
	}
	w.Announce(w.now, "a", 1, &exchange.Claims{Keys: []exchange.KeyClaim{{Key: 7, Claim: 1, Admitted: 1, Spent: 1, Own: 1}}})
	pass := func(d time.Duration) {
		for end := w.now + d; w.now < end; w.now += 50 * time.Millisecond {
			w.Advance(w.now)
		}
	}
	hear(1, 2*time.Second, nil)
	pass(1900 * time.Millisecond)
	hear(2, 25*time.Millisecond, &gossipv1.KeyClaim{Key: 7, Claim: 1, Admitted: 5, Spent: 4, Own: 4})
	if s, _ := w.sum(7); s.Gap != 0 || s.Admitted != 4 {
		t.Errorf("%+v, want 4 admitted and no silence", s)
	}
	pass(3 * time.Second)
	hear(3, 25*time.Millisecond, &gossipv1.KeyClaim{Key: 7, Claim: 1, Admitted: 15, Spent: 4, Own: 4})
	if s, _ := w.sum(7); s.Gap < 3 || s.Admitted != 14 {
		t.Errorf("%+v, want all 10 that were admitted in a silence of 3 s", s)
	}
}

// A key moves to an agent, which asks the key's other user for its count, and is the only agent when the answer comes.
// Its gateway knows that count from the owner before, so it is sent a new epoch.
func TestALateCountOfAMovedKeyIsNotNews(t *testing.T) {
	a, now, key := New(Options{Agent: "me", Tell: boxes{}, Everybody: 1}), time.Second, uint64(1)
	sum := func() (exchange.KeySum, bool) {
		a.Advance(now)
		s, _ := a.Sums(now, "gateway", 0)
		for _, k := range s.Keys {
			if k.Key == key {
				return k, true
			}
		}
		return exchange.KeySum{}, false
	}
	say := func(seq uint64) {
		a.Receive(now, Sender{Agent: "second", Life: 1, Promise: promise}, []*gossipv1.Replica{
			stateOf("gateway of second", seq, &gossipv1.KeyClaim{Key: key, Admitted: 4, Spent: 5, Own: 4, Known: true,
				Sum: true})})
	}
	a.Connect(now, "gateway", 1, 1)
	a.SetOwners(now, []string{"first", "second"}, nil)
	if a.Owner(key) != "first" {
		t.Fatal("want a key of the first agent")
	}
	a.Announce(now, "gateway", 1, &exchange.Claims{Keys: []exchange.KeyClaim{{Key: key, Admitted: 1, Spent: 1, Own: 1}}})
	a.ReceiveSums(now, Sender{Agent: "first", Life: 1, Promise: promise}, 1,
		[]*gossipv1.Sum{{Key: key, Others: 1, Epoch: 1, Admitted: 4, Spent: 5, Own: 4}})
	if s, _ := sum(); s.Admitted != 4 {
		t.Fatalf("%+v, want the 4 that the first owner says", s)
	}
	say(1)
	now += 2 * time.Second
	a.SetOwners(now, []string{"second"}, nil)
	now += time.Second
	was, _ := sum()
	if a.Owner(key) != "me" {
		t.Fatal("want a key that moves here")
	}
	a.SetOwners(now, nil, nil)
	say(2)
	if got, _ := sum(); got.Admitted > was.Admitted && got.Epoch == was.Epoch {
		t.Errorf("%+v after %+v: the gateway is charged what it knew", got, was)
	}
}

// Beyond Options.Shared keys that are in use here an EXACT key has one owner, in a small fleet, too. A LOCAL key has
// all agents as owners, and a key that ends makes room for another.
func TestKeysBeyondSharedHaveOneOwner(t *testing.T) {
	told := counting{}
	a, now := New(Options{Agent: "me", Tell: told, Shared: 2}), time.Second
	a.Connect(now, "gateway", 1, 1)
	a.SetOwners(now, []string{"first", "second", "third"}, nil)
	sentTo := func(key uint64, exact bool) int {
		clear(told)
		a.Announce(now, "gateway", 1, &exchange.Claims{Keys: []exchange.KeyClaim{{Key: key, Claim: 1, Exact: exact}}})
		return told[delivery.Item{Key: key, Kind: delivery.Claim, From: a.locals[process{"gateway", 1}].number}]
	}
	for _, key := range []uint64{1, 2} {
		if n := sentTo(key, true); n != 3 {
			t.Errorf("key %d is sent to %d agents, want all 3", key, n)
		}
	}
	for _, key := range []uint64{3, 4} {
		want := 1
		if a.Owner(key) == "me" {
			want = 0
		}
		if n := sentTo(key, true); n != want {
			t.Errorf("key %d is sent to %d agents, want %d", key, n, want)
		}
	}
	if n := sentTo(5, false); n != 3 {
		t.Errorf("a LOCAL key is sent to %d agents, want all 3", n)
	}
	a.Announce(now, "gateway", 1, &exchange.Claims{Withdrawn: []uint64{1, 2, 3, 4, 5, 5}})
	if a.used[false] != 0 || a.used[true] != 0 {
		t.Fatalf("%v keys are left, want none", a.used)
	}
	if n := sentTo(3, true); n != 3 {
		t.Errorf("where there is room again a key is sent to %d agents, want all 3", n)
	}
}
