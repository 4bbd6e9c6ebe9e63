package aggregation

import (
	"fmt"
	"slices"
	"testing"
	"time"

	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/gossip/delivery"
	"pgregory.net/rapid"
)

// Members, the majority and unreachable replicas are determined only after a change, and yet are what a determination
// at each time would find.
func TestMembersAreThoseOfAFreshLook(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, now, seq := New(Options{Agent: "me", Tell: boxes{}}), time.Second, uint64(0)
		a.Connect(now, "here", 1, 1)
		var members []Member
		name := func() string { return fmt.Sprint("gateway-", rapid.IntRange(0, 5).Draw(t, "gateway")) }
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				members = nil
				for range rapid.IntRange(0, 4).Draw(t, "members") {
					members = append(members, Member{name(), 1})
				}
				a.SetMembers(now, members, now+time.Second)
			case 1:
				a.RenewMembers(now, now+2*time.Second)
			case 2:
				a.SetDelay(time.Duration(rapid.IntRange(0, 500).Draw(t, "delay"))*ms, 0)
			case 3:
				a.Connect(now, name(), 1, 1)
			case 4:
				a.Disconnect(now, name(), 1)
			default:
				seq++
				r := &gossipv1.Replica{Name: name(), Generation: 1, Seq: seq, Weight: 1, Drained: seq%17 == 0,
					Keys: []*gossipv1.KeyClaim{{Key: 7, Claim: 1, Admitted: float64(seq)}}}
				a.Receive(now, Sender{Agent: "agent of " + r.Name, Life: 1,
					Promise: rapid.SampledFrom([]time.Duration{50 * ms, 4 * time.Second}).Draw(t, "promise")}, []*gossipv1.Replica{r})
			}
			now += rapid.SampledFrom([]time.Duration{0, 25 * ms, time.Second, 6 * time.Second}).Draw(t, "time")
			a.Advance(now)
			for _, p := range a.remotes {
				until := silentFrom(a.o.Period, p.heard, p.promise)
				if !p.drained && (now >= until) != p.silence.on {
					t.Fatalf("%s was heard %v ago, promised %v, silent: %v", p.name, now-p.heard, p.promise, p.silence.on)
				}
			}
			// Who is a member depends on whether there was a majority, and the other way round. That takes three
			// looks at most, and without a majority there is one at a time.
			for range 3 {
				a.updateMembers(now)
				now++
			}
			got, weights, majority := slices.Clone(a.members), a.weights, a.hasMajority
			a.recount = 0
			a.updateMembers(now)
			if !slices.Equal(got, a.members) || weights != a.weights || majority != a.hasMajority {
				t.Fatalf("members %v of %v, majority %v; a fresh look finds %v of %v, %v", got, weights, majority, a.members,
					a.weights, a.hasMajority)
			}
			a.Sweep(now)
		}
	})
}

// A replica that missed a promise counts as reachable again once the lag turns out to be longer, at the same instant
// too.
func TestALongerLagHearsTheSilent(t *testing.T) {
	a, now := New(Options{Agent: "me", Tell: boxes{}}), time.Second
	a.Connect(now, "here", 1, 1)
	a.Receive(now, Sender{Agent: "other", Life: 1, Promise: 4 * time.Second},
		[]*gossipv1.Replica{{Name: "there", Generation: 1, Seq: 1, Weight: 1}})
	now += silences*4*time.Second + a.Lag() + 20*ms
	if a.updateMembers(now); a.hasMajority {
		t.Fatal("one of two that is silent leaves a majority")
	}
	a.SetDelay(25*ms, 0)
	if a.updateMembers(now); !a.hasMajority {
		t.Error("a packet that may be on its way for so long counts as missed")
	}
}

// counting counts the items that it is given.
type counting map[delivery.Item]int

func (c counting) Tell(_ time.Duration, _ string, i delivery.Item, _ delivery.Urgency)      { c[i]++ }
func (c counting) TellAgain(_ time.Duration, _ string, i delivery.Item, _ delivery.Urgency) { c[i]++ }

// However many agents change a key between two rounds, each of its users has one note; who
// changed it alone has none.
func TestNewsOfAKeyAreGathered(t *testing.T) {
	told := counting{}
	a, now := New(Options{Agent: "me", Tell: told}), time.Second
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprint("agent-", i))
	}
	a.SetOwners(now, names, nil)
	claim := func(of int, admitted float64) {
		a.Receive(now, Sender{Agent: names[of], Life: 1, Promise: promise}, []*gossipv1.Replica{
			stateOf("gateway of "+names[of], uint64(1+admitted), &gossipv1.KeyClaim{Key: 7, Claim: 1, Admitted: admitted,
				Sum: true})})
	}
	for of := range names {
		claim(of, 1)
	}
	a.Gather(now)
	sum := delivery.Item{Key: 7, Kind: delivery.Sum}
	for _, by := range [][]int{{3}, {3, 4, 5, 6, 7}} {
		clear(told)
		for n := range 10 {
			for _, of := range by {
				claim(of, float64(10*len(by)+n))
			}
		}
		if a.Gather(now); told[sum] != 20-1 && len(by) == 1 || told[sum] != 20 && len(by) > 1 {
			t.Errorf("%d notes after changes by %d of 20 agents", told[sum], len(by))
		}
	}
}
