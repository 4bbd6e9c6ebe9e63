package core

import (
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
	"github.com/titrate/titrate/proto/link"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/gossip/schedule"
	"github.com/titrate/titrate/services/agent/tokens"
)

// looks are so many looks at a way, one after the other.
func (n *nearness) looks(count int, w schedule.Way, against string) (changes int) {
	for range count {
		if n.look(n.looked+lookEvery, w, against) {
			changes++
		}
	}
	return changes
}

func (n *nearness) exact(near int, against string) bool {
	exact, why := n.inForce(schedule.Opinions{Near: near, Against: against})
	return exact && why != ""
}

func TestNearness(t *testing.T) {
	const ms = time.Millisecond
	way := func(d time.Duration) schedule.Way { return schedule.Way{Peers: 2, Longest: d, To: "b"} }
	n := newNearness(2 * ms)
	n.looks(3, schedule.Way{}, "")
	if n.exact(0, "") {
		t.Error("EXACT with nobody else there")
	}
	if n.looks(3, schedule.Way{Peers: 2, Unknown: 1, Longest: ms, To: "b"}, ""); n.exact(0, "") || !n.exact(1, "") {
		t.Error("undecided: it does as the others do")
	}
	if n.looks(1, way(2*ms), ""); !n.exact(0, "") || n.exact(5, "c") {
		t.Error("near: EXACT unless somebody is against it")
	}
	// One slow look, or an agent that is new, is no reason to change.
	if n.looks(farLooks-1, way(3*ms), "")+n.looks(1, way(ms), "")+n.looks(farLooks-1, way(3*ms), "")+
		n.looks(3, schedule.Way{Peers: 3, Unknown: 1, Longest: ms, To: "b"}, "") != 0 || !n.exact(0, "") {
		t.Error("it has changed its mind too early")
	}
	if n.looks(farLooks, way(3*ms), "") != 1 || n.exact(5, "") {
		t.Error("far: still EXACT")
	}
	if _, why := n.inForce(schedule.Opinions{}); why != "3ms to b, beyond --exact-within 2ms" {
		t.Errorf("why: %q", why)
	}
	// Back only when it was well within for long.
	if n.looks(100, way(19*ms/10), "") != 0 || n.looks(nearLooks-1, way(16*ms/10), "") != 0 || n.exact(1, "") {
		t.Error("near again too early")
	}
	if n.looks(1, way(16*ms/10), "") != 1 || !n.exact(0, "") {
		t.Error("not near again")
	}
	if n.looks(1, way(ms), "no majority is heard") != 1 || n.exact(1, "") {
		t.Error("a reason that is not the way does not count at once")
	}
	if n.looks(1, way(ms), "") != 1 || n.exact(0, "") || n.looks(1, way(ms), "") != 1 || !n.exact(0, "") {
		t.Error("the reason is gone: not near after two looks")
	}
	n.looks(1, way(ms), "no majority is heard")

	// Alone, a reason of before is none any more.
	if n.looks(1, schedule.Way{}, "") != 1 || n.exact(0, "") || !n.exact(1, "") {
		t.Error("alone: still far")
	}

	off := newNearness(0)
	if off.looks(30, way(1), "") != 0 || off.exact(3, "") || off.mine != gossipv1.Nearness_NEARNESS_UNSPECIFIED {
		t.Error("--exact-within 0: EXACT")
	}
}

// A way that changes at random between two looks costs a switch in 36 s at most.
func TestNearnessDoesNotFlap(t *testing.T) {
	n, changes := newNearness(time.Millisecond), 0
	random := uint32(1)
	for range 1800 { // an hour
		random = random*1664525 + 1013904223
		w := schedule.Way{Peers: 1, Longest: time.Millisecond / 2, To: "b"}
		if random>>31 == 1 {
			w.Longest = 2 * time.Millisecond
		}
		changes += n.looks(1, w, "")
	}
	if changes > 3600/18 {
		t.Errorf("%d changes in an hour", changes)
	}
}

// Gateways are told, and again when it ends; one that cannot is against it for all.
func TestGatewaysAreToldOfExact(t *testing.T) {
	c := New(Options{Name: "a", Incarnation: 7, Period: period, T1: 10 * time.Second, T2: 15 * time.Second,
		ExactWithin: time.Millisecond})
	now := time.Second
	c.PeerAlive(now, "b", "", true, schedule.Owners)
	h := hello("gw", 1, 1)
	h.Version, h.Exact = 3, true
	c.Connected(now, 1, h, 0)
	told := func() (exact bool) {
		for range 4 {
			now += period / 2
			out, _ := c.Round(now, false)
			for _, o := range out {
				if o.Packet.GetNearness() == gossipv1.Nearness_NEARNESS_UNSPECIFIED {
					t.Error("it tells the others nothing")
				}
			}
			for _, m := range messages(c.Tick(now), 1) {
				if s, ok := m.(*exchange.Sums); ok {
					exact = s.Exact
				}
			}
		}
		return exact
	}
	hear := func(n gossipv1.Nearness) {
		now += period
		seq := uint64(now / period)
		c.ReceivePacket(now, &gossipv1.Packet{Agent: "b", Incarnation: 3, Seq: seq, PromiseMs: 2000, Nearness: n})
	}
	now += time.Second
	if told() {
		t.Error("EXACT before anybody has measured")
	}
	hear(gossipv1.Nearness_NEAR)
	if !told() {
		t.Error("b is near, this one undecided: not EXACT")
	}
	for _, n := range []gossipv1.Nearness{gossipv1.Nearness_FAR, gossipv1.Nearness_NEARNESS_UNSPECIFIED} {
		if hear(n); told() || !strings.HasPrefix(c.exactWhy, "b ") {
			t.Errorf("b says %v: EXACT, %s", n, c.exactWhy)
		}
		if hear(gossipv1.Nearness_NEAR); !told() {
			t.Error("b is near again: not EXACT")
		}
	}
	if s := c.Status(now); !s.Exact || s.Switches != 5 {
		t.Errorf("status: %v, %d switches", s.Exact, s.Switches)
	}
	if s := c.state(now); !s.GetExact() || s.GetExactWhy() == "" {
		t.Errorf("state: %v", s)
	}
	old := link.Hello{Version: 3, Replica: "old", Generation: 1, Weight: 1}
	c.Connected(now, 2, old, 0)
	if told() || !strings.Contains(c.exactWhy, "gateway old cannot") {
		t.Errorf("beside a gateway that cannot: EXACT, %s", c.exactWhy)
	}
}

// A gateway that has had more keys than it can hold EXACT, or an agent that would own more than it can,
// makes limits LOCAL for all for a while: else some gateways would hold a key as EXACT and others not.
func TestCrowdedGatewaysMakeLimitsLocal(t *testing.T) {
	c := New(Options{Name: "a", Incarnation: 7, Period: period, T1: 10 * time.Second, T2: 15 * time.Second,
		ExactWithin: time.Millisecond})
	now := time.Second
	h := hello("gw", 1, 1)
	h.Version, h.Exact = 3, true
	c.Connected(now, 1, h, 0)
	check := func(what, want string) {
		t.Helper()
		if got := c.againstExact(now); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	check("at first", "")
	c.Received(now, 1, &link.Heartbeat{Sequence: 1, Crowded: 2})
	check("a key found no room before this agent was there", "")
	c.Received(now, 1, &link.Heartbeat{Sequence: 2, Crowded: 3})
	check("a key found no room", "gateway gw has had more keys")
	now += holdFor / 2
	c.ran = now // it ticked all the time
	c.Received(now, 1, &link.Heartbeat{Sequence: 3, Crowded: 3})
	check("since then all have", "gateway gw has had more keys")
	now += holdFor / 2
	c.ran = now // it ticked all the time
	check("later", "")
	look := func() { c.near.lookAtTokens(now, lookEvery, c.tokens.Stats(), true) }
	look()
	check("it owns some", "")
	for key := range uint64(tokens.MaxKeys + 1) {
		c.tokens.Ask(now, 1, &exchange.TokenRequests{List: []exchange.TokenRequest{{Key: key,
			Request: grant.Request{Session: 1, Owner: 1, Number: 1}}}})
	}
	look()
	check("it owns too many", "this agent")
	if s := c.tokens.Stats(); s.Keys != tokens.MaxKeys || s.Dropped[tokens.Crowded] != 1 {
		t.Errorf("%+v", s)
	}
	now += holdFor
	c.ran = now
	check("later", "")
}

// Gateways that ask owners too often for long make limits LOCAL; not while keys are new to EXACT, and
// not by limits that state EXACT while those that state nothing are LOCAL.
func TestTooManyQuestionsMakeLimitsLocal(t *testing.T) {
	n := newNearness(time.Millisecond)
	now, asked := time.Minute, uint64(0)
	busy := func(looks int, settled bool) bool {
		for range looks {
			asked += 2*mostAsked + 1
			now += 2 * time.Second
			n.lookAtTokens(now, 2*time.Second, tokens.Stats{Asked: asked}, settled)
		}
		return n.until != 0
	}
	if busy(10, false) || busy(farLooks-1, true) {
		t.Error("keys are new, or it lasts for a moment: too many")
	}
	n.lookAtTokens(now, 2*time.Second, tokens.Stats{Asked: asked}, true)
	if busy(farLooks-1, true) || !busy(1, true) {
		t.Errorf("%d looks in a row: not too many", farLooks)
	}
	c := New(Options{Name: "a", Incarnation: 7, Period: period, T1: 10 * time.Second, T2: 15 * time.Second,
		ExactWithin: time.Millisecond})
	c.near = n
	if why := c.againstExact(now); !strings.Contains(why, "more than 1000 times a second") {
		t.Errorf("why: %q", why)
	}
	if why := c.againstExact(now + holdFor); why != "" {
		t.Errorf("later: %q", why)
	}
	c.Connected(now, 1, hello("gw", 1, 1), 0)
	c.Received(now, 1, &exchange.TokenRequests{List: []exchange.TokenRequest{
		{Key: 1, Request: grant.Request{Session: 1, Number: 1, Need: grant.Token}},
		{Key: 1, Request: grant.Request{Session: 1, Number: 2, Released: true}}}})
	if asked := c.tokens.Stats().Asked; asked != 1 {
		t.Errorf("%d questions, want 1: a gateway that gives back does not ask", asked)
	}
}
