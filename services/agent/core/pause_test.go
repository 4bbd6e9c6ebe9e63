package core

import (
	"testing"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
	"github.com/titrate/titrate/proto/link"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/gossip/schedule"
)

// An agent that stood still takes nothing for news that has waited in its sockets.
func TestWhatWaitedForAPausedAgentIsNoNews(t *testing.T) {
	for _, c := range []struct {
		pause        time.Duration
		stale, close bool
	}{
		{500 * time.Millisecond, false, false}, {2 * time.Second, true, false}, {12 * time.Second, true, true},
	} {
		a, now := newCore(), time.Second
		a.PeerAlive(now, "b", "", true, schedule.Version)
		a.Connected(now, 1, hello("gw", 1, 1), 0)
		seq := uint64(0)
		closed := 0
		receive := func() schedule.Drop {
			seq++
			drops, out := a.ReceivePackets(now, &gossipv1.Packet{Agent: "b", Incarnation: 1, Seq: seq, PromiseMs: 50})
			closed += len(out.Close)
			return drops[0]
		}
		if drop := receive(); drop != schedule.Accepted {
			t.Fatalf("a packet is dropped as %v", drop)
		}
		now += c.pause
		if drop := receive(); (drop == schedule.Stale) != c.stale {
			t.Errorf("%v: a packet that has waited: %v", c.pause, drop)
		}
		out := a.Received(now, 1, &exchange.Claims{Keys: []exchange.KeyClaim{{Key: 1, Claim: 1, Admitted: 5}}})
		now += readSockets * period
		closed += len(out.Close) + len(a.Tick(now).Close)
		if (closed == 1) != c.close || a.HasLink("gw") == c.close {
			t.Errorf("%v: %d links are closed, linked %v", c.pause, closed, a.HasLink("gw"))
		}
		if drop := receive(); drop != schedule.Accepted {
			t.Errorf("%v: a packet that comes later is dropped as %v", c.pause, drop)
		}
		if out := a.Connected(now, 2, link.Hello{Version: link.Version, Replica: "gw", Generation: 1, Weight: 1, Again: true}, 0); len(
			messages(out, 2)) == 0 || !a.HasLink("gw") {
			t.Errorf("%v: the gateway finds no agent on a new link", c.pause)
		}
	}
}

// oneLimit has keys of 1/s, burst 10, by number.
type oneLimit struct{}

func (oneLimit) Revision() int64 { return 1 }
func (oneLimit) ExactKey(n *exchange.KeyName) (key uint64, p grant.Params, ok bool) {
	return uint64(len(n.Client)), grant.Params{Rate: 1, Burst: 10 * grant.Token}, true
}

// An owner whose agent stood still does not give up on a gateway that has answered its recall meanwhile: the
// answer is in a socket that the agent reads next.
func TestOwnersWaitForAPausedAgent(t *testing.T) {
	a, now := newCore(), 10*time.Second
	a.SetOwnLimits(oneLimit{})
	a.Tick(now)
	granted := map[Link]int64{}
	var bucket grant.Grant
	answers := func(e Effects) {
		for _, f := range e.Frames {
			if m, ok := f.Message.(*exchange.TokenAnswers); ok {
				for _, g := range m.Grants {
					granted[f.To] = max(granted[f.To], g.Granted)
					if g.Exclusive {
						granted[f.To], bucket = 10*grant.Token, g.Grant
					}
				}
			}
		}
	}
	ask := func(from Link, q grant.Request) {
		answers(a.Received(now, from, &exchange.TokenRequests{List: []exchange.TokenRequest{{Key: 1,
			KeyName: exchange.KeyName{Tenant: "t", Limit: "l", Client: "c"}, Request: q}}}))
	}
	for l := range Link(2) {
		answers(a.Connected(now, l+1, hello(string(rune('a'+l)), uint64(l), 1), 0))
		ask(l+1, grant.Request{Session: 1, Number: 1, Seq: 1, Need: grant.Token, Least: grant.Token, Level: -1})
	}
	if granted[1] == 0 || granted[2] != 0 {
		t.Fatalf("granted %v, want the bucket to the first gateway", granted)
	}
	for end := now + 600*time.Millisecond; now < end; now += period / 2 {
		answers(a.Tick(now))
		answers(a.TickTokens(now))
	}
	now += link.DeadAfter - 500*time.Millisecond
	answers(a.TickTokens(now))
	answers(a.Tick(now))
	if granted[2] != 0 {
		t.Fatal("given up before the sockets are read")
	}
	ask(1, grant.Request{Session: 1, Owner: bucket.Owner, Number: 2, Seq: 1, Recalled: 1, Exclusive: true,
		Level: 10 * grant.Token})
	if granted[2] != 0 {
		t.Errorf("%d tokens granted of a bucket that the first gateway has spent", granted[2]/grant.Token)
	}
}
