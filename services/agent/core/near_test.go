package core

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/control/exchange"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/gossip/schedule"
)

// looks are so many looks at a way, one after the other.
func (n *nearness) looks(count int, w schedule.Way) (changes int) {
	for range count {
		if n.look(n.looked+lookEvery, w) {
			changes++
		}
	}
	return changes
}

func (n *nearness) exact(near, far int) bool {
	exact, why := n.inForce(schedule.Opinions{Near: near, Far: far, Against: "c"})
	return exact && why != ""
}

// ways are so many microseconds to other agents.
func ways(micros ...int) schedule.Way {
	w := schedule.Way{Peers: len(micros)}
	for i, n := range micros {
		d := time.Duration(n) * time.Microsecond
		if w.Known = append(w.Known, d); d > w.Longest {
			w.Longest, w.To = d, string(rune('b'+i))
		}
	}
	return w
}

func TestNearness(t *testing.T) {
	near, slow := ways(1000, 1000), ways(3000, 3000)
	n := newNearness(2 * time.Millisecond)
	n.looks(3, schedule.Way{})
	if n.exact(0, 0) {
		t.Error("EXACT with nobody else there")
	}
	if n.looks(3, schedule.Way{Peers: 2, Unknown: 2}); n.exact(0, 0) || !n.exact(1, 0) {
		t.Error("undecided: it does as the others do")
	}
	if n.looks(1, near); !n.exact(0, 0) || !n.exact(0, 1) || n.exact(0, 2) {
		t.Error("near: EXACT unless more are far than near")
	}
	// A moment of load, or an agent that is new, is no reason to change.
	if n.looks(farLooks-1, slow)+n.looks(1, near)+n.looks(farLooks-1, slow)+
		n.looks(3, schedule.Way{Peers: 3, Unknown: 3}) != 0 || !n.exact(0, 0) {
		t.Error("it has changed its mind too early")
	}
	if n.looks(farLooks, slow) != 1 || n.exact(0, 0) || !n.exact(5, 0) {
		t.Error("far: it does as most others do")
	}
	if _, why := n.inForce(schedule.Opinions{}); why != "3ms to b, beyond --exact-within 2ms" {
		t.Errorf("why: %q", why)
	}
	// Back only when it was well within for long.
	if n.looks(100, ways(1900, 1900)) != 0 || n.looks(nearLooks-1, ways(1600, 1600)) != 0 || n.exact(0, 0) {
		t.Error("near again too early")
	}
	if n.looks(1, ways(1600, 1600)) != 1 || !n.exact(0, 0) {
		t.Error("not near again")
	}
	n.looks(farLooks, slow)
	if n.looks(1, schedule.Way{}) != 1 || n.exact(0, 0) || !n.exact(1, 0) {
		t.Error("alone: still far")
	}

	off := newNearness(0)
	if off.looks(30, near) != 0 || off.exact(3, 0) || off.mine != gossipv1.Nearness_NEARNESS_UNSPECIFIED {
		t.Error("--exact-within 0: EXACT")
	}
}

// One agent of three stands still, is slow or is cut off: for two minutes the two others keep their opinion,
// and they are the majority. If it lasts, the limits are LOCAL.
func TestOneSlowAgentChangesNothing(t *testing.T) {
	n := newNearness(2 * time.Millisecond)
	n.looks(1, ways(500, 500))
	if n.looks(farAlone-1, ways(500, 2300)) != 0 || !n.exact(1, 1) {
		t.Error("one slow agent makes limits LOCAL")
	}
	if n.looks(1, ways(500, 2300)) != 1 || n.exact(0, 2) {
		t.Error("one agent is far for minutes: EXACT")
	}
	fresh := newNearness(2 * time.Millisecond)
	if fresh.looks(1, ways(500, 2300)) != 1 || fresh.exact(0, 0) {
		t.Error("EXACT begins though one agent is far")
	}
}

// An agent that receives no majority keeps its own gateways LOCAL, until it has received one for a while. It
// goes on to vote as before.
func TestIsolatedAgentIsLocalByItself(t *testing.T) {
	n := newNearness(2 * time.Millisecond)
	n.looks(1, ways(500, 500))
	now := n.looked
	n.isolated(now, true, false)
	if _, why := n.inForce(schedule.Opinions{Near: 2}); n.exact(2, 0) || why != "no majority of the gateways is reachable" {
		t.Errorf("EXACT without a majority: %q", why)
	}
	if n.mine != gossipv1.Nearness_NEAR {
		t.Error("the others are told of it")
	}
	if n.isolated(now+rejoined, false, true); n.exact(2, 0) {
		t.Error("EXACT while the agents do not agree on owners")
	}
	now += rejoined
	waits := n
	waits.isolated(now+rejoining, false, true)
	if waits.isolated(now+rejoining+rejoined, false, true); !waits.exact(2, 0) {
		t.Error("LOCAL for as long as a peer speaks and is no member")
	}
	if n.isolated(now+rejoined-1, false, false); n.exact(2, 0) {
		t.Error("EXACT at once")
	}
	if n.isolated(now+rejoined, false, false); !n.exact(2, 0) {
		t.Error("not EXACT again")
	}
	if n.isolated(now+rejoined, false, true); !n.exact(2, 0) {
		t.Error("LOCAL because of a peer that was cut off alone")
	}
}

// A limit that has asked about too many keys is named: in the log, once a minute, and in the status.
func TestUnaskedLimitsAreNamed(t *testing.T) {
	c := New(Options{Name: "a", Incarnation: 7, Period: period, T1: 10 * time.Second, T2: 15 * time.Second})
	now, lines := time.Second, 0
	c.Connected(now, 1, hello("gw", 1, 1), 0)
	for i := range 120 {
		now += time.Second
		r := &exchange.Report{Limits: []exchange.LimitCounts{{Tenant: "other", Limit: "quiet"}}}
		if i < 90 {
			r.Limits = append(r.Limits, exchange.LimitCounts{Tenant: "acme", Limit: "each",
				Counts: exchange.Counts{OwnerUnasked: 10}})
		}
		for _, e := range c.Received(now, 1, r).Log {
			if lines++; !slices.Contains(e.Details, any("acme")) || !slices.Contains(e.Details, any("each")) {
				t.Errorf("it logs %s %v", e.Text, e.Details)
			}
		}
		if u := c.Status(now).Unasked; len(u) != 1 || u[0].Tenant != "acme" || u[0].Gateway != "gw" || u[0].Requests == 0 {
			t.Fatalf("after %d s: %+v", i, u)
		}
	}
	if lines != 2 {
		t.Errorf("%d lines in 90 s, want 2", lines)
	}
	if u := c.Status(now + time.Minute).Unasked; len(u) != 0 {
		t.Errorf("a minute later: %+v", u)
	}
}

// A way that changes at random between two looks changes nothing.
func TestNearnessDoesNotFlap(t *testing.T) {
	n, changes := newNearness(time.Millisecond), 0
	n.looks(1, ways(500))
	random, quick, slow := uint32(1), ways(500), ways(2000)
	for range 1800 { // an hour
		random = random*1664525 + 1013904223
		w := quick
		if random>>31 == 1 {
			w = slow
		}
		changes += n.looks(1, w)
	}
	if changes > 0 {
		t.Errorf("%d changes in an hour", changes)
	}
}

// Gateways are informed, and again when it ends.
func TestGatewaysAreToldOfExact(t *testing.T) {
	c := New(Options{Name: "a", Incarnation: 7, Period: period, T1: 10 * time.Second, T2: 15 * time.Second,
		ExactWithin: time.Millisecond})
	now := time.Second
	c.PeerAlive(now, "b", "", true, schedule.Version)
	c.Connected(now, 1, hello("gw", 1, 1), 0)
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
		c.ReceivePackets(now, &gossipv1.Packet{Agent: "b", Incarnation: 3, Seq: seq, PromiseMs: 2000, Nearness: n})
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
}

// One agent of three stands still, or is cut off, for 12 s: nothing changes at the two others. An agent that
// is cut off keeps its gateways LOCAL, and follows the others once it receives from them again.
func TestOneLostAgentSwitchesNobody(t *testing.T) {
	for name, lose := range map[string]func(f *fleet, lost bool){
		"stands still": func(f *fleet, lost bool) { f.agents[2].dead = lost },
		"is cut off": func(f *fleet, lost bool) {
			if f.cut = ""; lost {
				f.cut = f.agents[2].name
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(3, 16, 1)
			f.within = 3 * period // a packet takes up to a step of the fleet
			for i := range f.agents {
				f.begin(i)
			}
			f.run(30*time.Second, nil)
			for _, a := range f.agents {
				if s := a.Status(f.at(a)); !s.Exact {
					t.Fatalf("%s is LOCAL: %s", a.name, s.ExactWhy)
				}
			}
			before := f.agents[2].switches
			others := func() {
				for _, a := range f.agents[:2] {
					if !a.exact {
						t.Fatalf("%s is LOCAL: %s", a.name, a.exactWhy)
					}
				}
			}
			lose(f, true)
			f.run(12*time.Second, others)
			if lone := f.agents[2]; !lone.dead && lone.exact {
				t.Error("the agent that is cut off is EXACT")
			}
			lose(f, false)
			f.run(10*time.Second, others)
			if lone := f.agents[2]; !lone.exact || lone.switches > before+2 {
				t.Errorf("afterwards: exact %v (%s), %d switches", lone.exact, lone.exactWhy, lone.switches-before)
			}
		})
	}
}
