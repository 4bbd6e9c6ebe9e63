package gossip

import (
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/titrate/titrate/services/agent/core"
	"github.com/titrate/titrate/services/agent/gossip/schedule"
)

// A state that has much to do when an agent fails stops no memberlist, which answers pings. It learns of the failure
// afterwards.
func TestABusyStateStopsNoMemberlist(t *testing.T) {
	t.Parallel()
	a, _, c := trio(t, nil)
	a.core.do(func(*core.Core) {
		c.stop()
		c.gossip.Close()
		known := make(chan struct{})
		go func() {
			for len(a.gossip.list.Members()) > 2 {
				time.Sleep(10 * time.Millisecond)
			}
			close(known)
		}()
		select {
		case <-known:
		case <-time.After(15 * time.Second):
			t.Error("memberlist waits for the state")
		}
	})
	a.eventually("learns that c is gone", func() bool {
		return slices.ContainsFunc(a.core.status().Peers, func(p schedule.PeerStatus) bool {
			return p.Name == "agent-c" && !p.Alive
		})
	})
}

// Of the events of a peer that wait the latest counts, in the place of the first.
func TestLatestEventOfAPeer(t *testing.T) {
	e := newEvents()
	for _, name := range []string{"a", "b", "c"} {
		e.NotifyJoin(&memberlist.Node{Name: name})
	}
	e.NotifyLeave(&memberlist.Node{Name: "a"})
	e.NotifyLeave(&memberlist.Node{Name: "b"})
	e.NotifyUpdate(&memberlist.Node{Name: "b", Port: 7})
	for _, want := range []event{{memberlist.Node{Name: "a"}, false}, {memberlist.Node{Name: "b", Port: 7}, true},
		{memberlist.Node{Name: "c"}, true}} {
		got, ok := e.take()
		if !ok || got.node.Name != want.node.Name || got.node.Port != want.node.Port || got.alive != want.alive {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	if got, ok := e.take(); ok {
		t.Errorf("there is another event: %+v", got)
	}
}
