package hostile

import (
	"testing"

	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
)

// It sends false packets in its own name, made of packets that it has received, to members only. It grants
// nothing of keys that it owns.
func TestItLiesInItsOwnName(t *testing.T) {
	a := newAgent("liar", nil, 1)
	a.PeerAlive("gw1", "", true, 3)
	if out, _ := a.Round(false); len(out) > 0 {
		t.Fatalf("before it has heard anything it sends %v", out)
	}
	a.ReceivePackets(&gossipv1.Packet{Agent: "gw1", Seq: 1, Replicas: []*gossipv1.Replica{{Name: "gw1",
		Keys: []*gossipv1.KeyClaim{{Key: 7, Claim: 1}, {Key: 8, Claim: 1}}}}})
	a.ReceivePackets(&gossipv1.Packet{Agent: "gw1", Tokens: &gossipv1.Tokens{
		Requests: []*gossipv1.TokenRequest{{Key: 7, Session: 9}},
		Slots:    &gossipv1.Slots{Asks: []*gossipv1.SlotAsks{{List: []*gossipv1.SlotAsk{{Key: 5}}}}},
		Quotas:   &gossipv1.Quotas{Asks: []*gossipv1.QuotaAsks{{List: []*gossipv1.QuotaAsk{{Key: 6}}}}}}})
	lies, tokens := map[float32]bool{}, 0
	for range 100 * len(a.fields) { // each is falsified some hundred times
		out, _ := a.Round(false)
		for _, o := range out {
			if o.To != "gw1" || o.Packet.GetAgent() != "liar" {
				t.Fatalf("to %s in the name of %s", o.To, o.Packet.GetAgent())
			}
			for _, r := range o.Packet.GetReplicas() {
				for _, k := range r.GetKeys() {
					lies[k.GetClaim()] = true
				}
			}
			tokens += len(o.Packet.GetTokens().GetRequests())
			for _, g := range o.Packet.GetTokens().GetGrants() {
				if g.GetKey() == 7 {
					t.Fatal("it grants tokens of its own key")
				}
			}
			for _, r := range o.Packet.GetTokens().GetSlots().GetReplies() {
				if len(r.GetList()) > 0 && r.GetList()[0].GetKey() == 5 {
					t.Fatal("it grants slots of its own key")
				}
			}
			for _, r := range o.Packet.GetTokens().GetQuotas().GetReplies() {
				if len(r.GetList()) > 0 && r.GetList()[0].GetKey() == 6 {
					t.Fatal("it grants units of its own key")
				}
			}
		}
	}
	if len(lies) < 10 || tokens < 100 {
		t.Errorf("it tells %d numbers of a claim, and asks for tokens %d times", len(lies), tokens)
	}
	if a.PeerFailed("gw1"); len(a.seq) > 0 {
		t.Error("it speaks to agents that have gone")
	}
}
