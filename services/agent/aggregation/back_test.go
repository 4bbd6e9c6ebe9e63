package aggregation

import (
	"testing"
	"time"

	"github.com/titrate/titrate/control/exchange"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/gossip/delivery"
)

// toldItems keeps the items that another agent is to be sent.
type toldItems struct{ items []delivery.Item }

func (n *toldItems) Tell(_ time.Duration, _ string, i delivery.Item, _ delivery.Urgency) {
	n.items = append(n.items, i)
}

func (n *toldItems) TellAgain(_ time.Duration, _ string, i delivery.Item, _ delivery.Urgency) {
	n.items = append(n.items, i)
}

// A gateway is back after a while without a link, in which it admitted more. Its old count is sent to no agent. The
// others would take it for news, forget what they assumed of the gateway, and be charged that again with its next
// count.
func TestTheOldCountOfAGatewayThatIsBackIsNotTold(t *testing.T) {
	const key = 7
	n := &toldItems{}
	a := New(Options{Agent: "here", Incarnation: 1000, Tell: n})
	now := time.Second
	a.SetOwners(now, []string{"there"}, nil)
	a.Connect(now, "gw", 1, 1)
	admitted := func(count float64) *exchange.Claims {
		return &exchange.Claims{Keys: []exchange.KeyClaim{{Key: key, Claim: 2, Unsaturated: 2, Admitted: count, Spent: 1}}}
	}
	// counts returns the counts in packets with all queued items.
	counts := func() (counts []float64) {
		a.Advance(now)
		for _, i := range n.items {
			var m gossipv1.Packet
			if a.Put(now, &m, "there", delivery.Taken{Item: i}); len(m.GetReplicas()) > 0 {
				for _, k := range m.GetReplicas()[0].GetKeys() {
					counts = append(counts, k.GetAdmitted())
				}
			}
		}
		return counts
	}
	a.Announce(now, "gw", 1, admitted(10))
	if c := counts(); len(c) == 0 || c[0] != 10 {
		t.Fatalf("told %v, want 10", c)
	}
	a.Disconnect(now, "gw", 1)
	now += 6 * time.Second
	a.Connect(now, "gw", 1, 1)
	a.SetOwners(now, []string{"there", "new"}, []string{"there"})
	if c := counts(); len(c) > 0 {
		t.Errorf("told %v before the gateway has listed the key again", c)
	}
	n.items = nil
	a.Announce(now, "gw", 1, admitted(22))
	if c := counts(); len(c) == 0 || c[0] != 22 {
		t.Errorf("told %v, want 22", c)
	}
	n.items = nil
	a.Disconnect(now, "gw", 1)
	now += 6 * time.Second
	a.Connect(now, "gw", 1, 1)
	if a.Announce(now, "gw", 1, admitted(22)); len(counts()) == 0 {
		t.Error("what has not changed meanwhile is not told: who forgot it must know")
	}
}
