package gossip

import (
	"log/slog"
	"net/netip"
	"testing"

	"github.com/hashicorp/memberlist"

	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/gossip/schedule"
)

// quiet is a State that takes packets.
type quiet struct{ State }

func (quiet) ReceivePacket(*gossipv1.Packet) (schedule.Drop, bool) { return schedule.Accepted, false }

// BenchmarkPacket measures a packet with a claim without the core and the system: it is encoded, sealed, queued, opened
// and decoded.
//
//	go test ./agent/gossip -run NONE -bench Packet
func BenchmarkPacket(b *testing.B) {
	nodes := [2]*Node{}
	for i := range nodes {
		self, err := newIdentity(current)
		if err != nil {
			b.Fatal(err)
		}
		nodes[i] = &Node{o: Options{Log: slog.New(slog.DiscardHandler)}, state: quiet{}, self: self,
			inbox: make(chan *[]byte, 1), contacts: map[string]*contact{}, senders: map[sender]*contact{}}
	}
	at := netip.MustParseAddrPort("127.0.0.1:7500")
	for i, name := range []string{"b", "a"} {
		public := nodes[1-i].self.private.PublicKey().Bytes()
		s, err := nodes[i].self.with(current, public, nil)
		if err != nil {
			b.Fatal(err)
		}
		c := &contact{node: memberlist.Node{Addr: at.Addr().AsSlice(), Port: at.Port()}, alive: true, session: s}
		nodes[i].contacts[name], nodes[i].senders[senderOf(public)] = c, c
	}
	p := &gossipv1.Packet{Agent: "a", Incarnation: 1 << 60, Seq: 1 << 20, Replicas: []*gossipv1.Replica{{Name: "gw",
		Generation: 1 << 60, Seq: 1 << 20, Weight: 1, Keys: []*gossipv1.KeyClaim{{Key: 1 << 60, Claim: 5, Admitted: 7}}}}}
	out := []schedule.Outgoing{{To: "b", Packet: p}}
	box := &outbox{}
	b.ReportAllocs()
	for b.Loop() {
		nodes[0].seal(box, out, nil)
		nodes[1].enqueue(box.frames)
		frame := <-nodes[1].inbox
		nodes[1].receiveSealed(*frame)
		nodes[1].frames.Put(frame)
	}
	for i := range nodes[1].dropped {
		if n := nodes[1].dropped[i].Load(); n > 0 {
			b.Errorf("%d packets dropped as %s", n, schedule.Drop(i))
		}
	}
}
