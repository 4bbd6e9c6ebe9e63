package aggregation

import (
	"runtime"
	"testing"
	"time"

	"github.com/titrate/titrate/control/exchange"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
)

// A replica with many keys becomes unreachable, is back, and its estimate is taken back. Each time the users of its
// keys are sent the new sums in turn. An agent that sends them all at once has no time for others.
func TestManyKeysOfAnUnreachableReplicaAreSentInTurn(t *testing.T) {
	const keys = 5000
	a, now := New(Options{Agent: "me", Tell: boxes{}}), time.Second
	a.SetOwners(now, []string{"other"}, nil)
	speak := func(seq uint64) {
		r := stateOf("gw", seq, nil)
		for i := range keys {
			if seq == 1 { // later it says nothing new
				r.Keys = append(r.Keys, &gossipv1.KeyClaim{Key: uint64(i), Claim: 1, Active: 1, Admitted: 1, Spent: 1, Own: 1,
					Sum: true})
			}
		}
		a.Receive(now, Sender{Agent: "other", Life: 1, Promise: promise}, []*gossipv1.Replica{r})
	}
	// sent lets half a period pass so often, and returns the number of sums that were to be sent.
	sent := func(times int, heard uint64) (n int) {
		for range times {
			now += 25 * time.Millisecond
			if heard > 0 {
				speak(heard)
				heard++
			}
			a.Advance(now)
			if len(a.news) > tellAtOnce {
				t.Fatalf("%d sums sent in half a period, want %d at most", len(a.news), tellAtOnce)
			}
			n += len(a.news)
			a.Gather(now)
		}
		return n
	}
	speak(1)
	a.Advance(now)
	a.Gather(now)
	const round = keys/tellAtOnce + 1
	if n := sent(2*round+80, 0); n < 2*keys {
		t.Errorf("%d sums sent while it is unreachable, want each again and again", n)
	}
	if n := sent(2*round+80, 2); n != 2*keys {
		t.Errorf("%d sums sent when it is back, want each of %d twice", n, keys)
	}
	if n := sent(round, 2000); n != 0 {
		t.Errorf("%d sums sent while it speaks, want none", n)
	}
}

// A replica that is late again and again costs no search of all keys each time. An agent that searches is late itself.
func TestLateAgainAndAgain(t *testing.T) {
	const keys, times = 20_000, 50
	a, now := New(Options{Agent: "me", Tell: boxes{}}), time.Second
	a.SetOwners(now, []string{"other"}, nil)
	r := stateOf("gw", 1, nil)
	for i := range keys {
		r.Keys = append(r.Keys, &gossipv1.KeyClaim{Key: uint64(i), Claim: 1, Active: 1, Admitted: 1, Spent: 1, Own: 1})
	}
	a.Receive(now, Sender{Agent: "other", Life: 1, Promise: promise}, []*gossipv1.Replica{r})
	a.Advance(now)
	a.Gather(now)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range uint64(times) {
		now += 4 * time.Second
		a.Advance(now)
		a.Gather(now)
		a.Receive(now, Sender{Agent: "other", Life: 1, Promise: promise}, []*gossipv1.Replica{stateOf("gw", 2+i, nil)})
		a.Advance(now)
		a.Gather(now)
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / times; each > 8*keys/2 {
		t.Errorf("%d bytes each time: a list of all %d keys", each, keys)
	}
}

// An agent with an unreachable gateway is not sent the sums of the keys that the gateway uses: they are over the
// others. Agents that use such a key are.
func TestTheUnreachableAreNotToldOfThemselves(t *testing.T) {
	told := boxes{}
	a, now := New(Options{Agent: "me", Tell: told, Everybody: 1}), time.Second
	a.SetOwners(now, []string{"away", "here"}, nil)
	hear := func(agent string, seq uint64, keys ...uint64) {
		r := stateOf("gateway of "+agent, seq, nil)
		for _, key := range keys {
			r.Keys = append(r.Keys, &gossipv1.KeyClaim{Key: key, Claim: 1, Active: 1, Admitted: 1, Spent: 1, Own: 1,
				Sum: true})
		}
		a.Receive(now, Sender{Agent: agent, Life: 1, Promise: promise}, []*gossipv1.Replica{r})
	}
	hear("away", 1, 1, 2, 3, 4, 5)
	hear("here", 1, 5)
	a.Gather(now)
	told.send(a, now, 0)
	for seq := range uint64(80) {
		now += 25 * time.Millisecond
		hear("here", 2+seq)
		a.Advance(now)
		a.Gather(now)
	}
	if away, here := told["away"].Waiting(), told["here"].Waiting(); away != 0 || here != 1 {
		t.Errorf("%d sums for the unreachable agent and %d for the other one, want 0 and 1", away, here)
	}
}

// While the owner of keys is unreachable, gateways are sent estimates of the keys that others use, and of no others.
func TestKeysWithoutOthersHaveNoEstimate(t *testing.T) {
	a, now := New(Options{Agent: "me", Tell: boxes{}, Everybody: 1}), time.Second
	a.SetOwners(now, []string{"other"}, nil)
	a.Connect(now, "gateway", 1, 1)
	var c exchange.Claims
	var sums []*gossipv1.Sum
	for key := uint64(1); len(sums) < 10; key++ {
		if a.Owner(key) == "other" {
			c.Keys = append(c.Keys, exchange.KeyClaim{Key: key, Claim: 1, Admitted: 1, Spent: 1, Own: 1})
			sums = append(sums, &gossipv1.Sum{Key: key, Epoch: 1})
		}
	}
	sums[0].Others, sums[0].Claims, sums[0].Admitted = 1, 1, 1
	a.Announce(now, "gateway", 1, &c)
	a.ReceiveSums(now, Sender{Agent: "other", Life: 1, Promise: promise}, 1, sums)
	a.Advance(now)
	_, since := a.Sums(now, "gateway", 0)
	for range 80 {
		now += 25 * time.Millisecond
		a.Advance(now)
	}
	if s, _ := a.Sums(now, "gateway", since); len(s.Keys) != 1 || s.Keys[0].Key != sums[0].GetKey() {
		t.Errorf("the gateway is sent %d keys, want the one that another gateway uses", len(s.Keys))
	}
}
