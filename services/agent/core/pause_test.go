package core

import (
	"testing"
	"time"

	"github.com/titrate/titrate/control/exchange"
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
		a.PeerAlive(now, "b", "", true, schedule.Owners)
		a.Connected(now, 1, hello("gw", 1, 1), 0)
		seq := uint64(0)
		closed := 0
		receive := func() schedule.Drop {
			seq++
			drop, out := a.ReceivePacket(now, &gossipv1.Packet{Agent: "b", Incarnation: 1, Seq: seq, PromiseMs: 50})
			closed += len(out.Close)
			return drop
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
		if out := a.Connected(now, 2, link.Hello{Version: 2, Replica: "gw", Generation: 1, Weight: 1, Again: true}, 0); len(
			messages(out, 2)) == 0 || !a.HasLink("gw") {
			t.Errorf("%v: the gateway finds no agent on a new link", c.pause)
		}
	}
}
