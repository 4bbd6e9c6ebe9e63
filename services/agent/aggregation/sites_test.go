package aggregation

import (
	"slices"
	"testing"
	"time"

	"github.com/titrate/titrate/control/exchange"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/gossip/delivery"
)

// An agent that comes back under its name at this site is no agent of the other one any more.
func TestAgentMovesToThisSite(t *testing.T) {
	a := New(Options{Agent: "here", Incarnation: 1})
	a.SetSites(time.Second, []Site{{Name: "us", Agents: []string{"b", "c"}}}, nil, nil)
	a.SetOwners(2*time.Second, []string{"b"}, nil)
	a.SetSites(2*time.Second, []Site{{Name: "us", Agents: []string{"c"}}}, nil, nil)
	if a.siteOf["b"] != nil || a.siteOf["c"] == nil {
		t.Errorf("b is of site %v, c of %v", a.siteOf["b"], a.siteOf["c"])
	}
}

// A repeated record is a newer one than the record before, and the peer may receive only the first: its
// acknowledgement settles both. So both fall alike there, until one comes that is none of both.
func TestRepeatedRecordMayBeLost(t *testing.T) {
	sent := boxes{}
	a, now := New(Options{Agent: "here", Incarnation: 1, Tell: sent}), time.Second
	a.SetOwners(now, nil, nil)
	a.SetSites(now, []Site{{Name: "us", Agents: []string{"there"}}}, nil, nil)
	now += time.Second
	a.Connect(now, "gateway", 1, 1)
	a.Announce(now, "gateway", 1, &exchange.Claims{Keys: []exchange.KeyClaim{{Key: 7, Claim: 5, Unsaturated: 5,
		Admitted: 1, Spent: 1}}})
	a.Gather(now)
	item := delivery.Taken{Item: delivery.Item{Key: 7, Kind: delivery.Site}}
	put := func() *gossipv1.Sum {
		if !item.Repeated && sent["there"] == nil {
			t.Fatal("the other site is sent no record")
		}
		delete(sent, "there")
		m := &gossipv1.Packet{}
		a.Put(now, m, "there", item)
		return m.Sites[0]
	}
	put()
	a.ReceiveSites(now, Sender{Agent: "there", Life: 1, Promise: time.Second}, 1,
		[]*gossipv1.Sum{{Key: 7, Claims: 1, Unsaturated: 1, Others: 1, Epoch: 1}})
	a.Gather(now)
	first := put()
	now += 200 * time.Millisecond
	item.Repeated = true
	if again := put(); again.Fall != first.Fall {
		t.Errorf("a record falls by %v a second, the repeated one by %v", first.Fall, again.Fall)
	}
}

// A site that is cut off takes from the others for five times as long as it was known: for T2 at least, and two hours
// at most.
func TestASiteCountsAsLongAsItWasKnown(t *testing.T) {
	for _, c := range []struct{ known, counts time.Duration }{
		{time.Second, 15 * time.Second}, {10 * time.Second, 50 * time.Second}, {time.Hour, 2 * time.Hour},
	} {
		a, now := New(Options{Agent: "here", Incarnation: 1, Tell: boxes{}}), time.Second
		a.SetOwners(now, nil, nil)
		a.SetSites(now, []Site{{Name: "us", Agents: []string{"there"}}}, nil, nil)
		now += c.known
		a.Connect(now, "gateway", 1, 1)
		a.Announce(now, "gateway", 1, &exchange.Claims{Keys: []exchange.KeyClaim{{Key: 7, Claim: 5}}})
		a.ReceiveSites(now, Sender{Agent: "there", Life: 1, Promise: time.Second}, 1,
			[]*gossipv1.Sum{{Key: 7, Claims: 3, Unsaturated: 3, Others: 1, Epoch: 1}})
		for _, at := range []struct {
			time.Duration
			gone bool
		}{{0, false}, {c.counts - time.Millisecond, false}, {c.counts, true}} {
			a.Advance(now + at.Duration)
			s := a.Status(now + at.Duration).Sites[0]
			for what, none := range map[string]bool{"gone": s.Gone, "no claims": len(a.SiteClaims(7)) == 0,
				"not counted": len(a.OtherSites()) == 0} {
				if none != at.gone {
					t.Errorf("known for %v, after %v: %s %v, want %v", c.known, at.Duration, what, none, at.gone)
				}
			}
		}
		a.ReceiveSites(now+c.counts, Sender{Agent: "there", Life: 1, Promise: time.Second}, 2, nil)
		if a.Advance(now + c.counts); len(a.OtherSites()) == 0 {
			t.Errorf("known for %v: gone when it is back", c.known)
		}
	}
}

// Keys with much news overtake the others in the queue to another site, which have one turn of four. No key is sent
// twice.
func TestMuchNewsOvertakes(t *testing.T) {
	s := &site{uses: newOrdered[*siteUse]()}
	for k := range uint64(6) {
		s.put(k, s.use(k), inTurn)
	}
	for k := range uint64(5) {
		s.put(k+5, s.use(k+5), soonest)
	}
	var got []uint64
	for s.waiting() > 0 {
		if k, u := s.take(); u != nil {
			got = append(got, k)
		}
	}
	if want := []uint64{5, 6, 7, 0, 8, 9, 1, 2, 3, 4}; !slices.Equal(got, want) {
		t.Errorf("keys are sent as %v, want %v", got, want)
	}
}
