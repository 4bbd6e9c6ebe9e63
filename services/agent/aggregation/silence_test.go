package aggregation

import (
	"testing"
	"time"

	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
)

// The users of a replica's many keys are sent what is assumed of it in turn, when it is silent, when it is back, and
// when that is taken back: an agent that tells them all at once has no time for others, which takes it for silent.
func TestManyKeysOfASilentReplicaAreToldInTurn(t *testing.T) {
	const keys = 5000
	a, now := New(Options{Agent: "me", Tell: boxes{}}), time.Second
	a.SetOwners(now, []string{"other"}, nil)
	speak := func(seq uint64) {
		r := stateOf("gw", seq, nil)
		for i := range keys {
			if seq == 1 { // later it says nothing new
				r.Keys = append(r.Keys, &gossipv1.KeyClaim{Key: uint64(i), Claim: 1, Active: 1, Admitted: 1, Spent: 1, Own: 1})
			}
		}
		a.Receive(now, Sender{Agent: "other", Life: 1, Promise: promise}, []*gossipv1.Replica{r})
	}
	// told lets half a period pass so often, and returns the keys that were told.
	told := func(times int, heard uint64) (n int) {
		for range times {
			now += 25 * time.Millisecond
			if heard > 0 {
				speak(heard)
				heard++
			}
			a.Advance(now)
			if len(a.news) > tellAtOnce {
				t.Fatalf("%d keys told in half a period, want %d at most", len(a.news), tellAtOnce)
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
	if n := told(2*round+80, 0); n < 2*keys {
		t.Errorf("%d keys told while it is silent, want each again and again", n)
	}
	if n := told(2*round+80, 2); n != 2*keys {
		t.Errorf("%d keys told when it is back, want each of %d twice", n, keys)
	}
	if n := told(round, 2000); n != 0 {
		t.Errorf("%d keys told while it speaks, want none", n)
	}
}
