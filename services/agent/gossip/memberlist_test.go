package gossip

import (
	"slices"
	"testing"
	"time"

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
