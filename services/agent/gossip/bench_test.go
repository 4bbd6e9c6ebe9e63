package gossip

import (
	"testing"

	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/gossip/schedule"
)

// quiet is a State that takes packets.
type quiet struct{ State }

func (quiet) ReceivePackets(...*gossipv1.Packet) ([]schedule.Drop, bool) {
	return []schedule.Drop{schedule.Accepted}, false
}

// BenchmarkPacket measures a packet with a claim without the core and the system: it is encoded, sealed, queued, opened
// and decoded.
//
//	go test ./agent/gossip -run NONE -bench Packet
func BenchmarkPacket(b *testing.B) {
	from, to := pair(b, quiet{})
	p := &gossipv1.Packet{Agent: "a", Incarnation: 1 << 60, Seq: 1 << 20, Replicas: []*gossipv1.Replica{{Name: "gw",
		Generation: 1 << 60, Seq: 1 << 20, Weight: 1, Keys: []*gossipv1.KeyClaim{{Key: 1 << 60, Claim: 5, Admitted: 7}}}}}
	out := []schedule.Outgoing{{To: "b", Packet: p}}
	box := &outbox{}
	b.ReportAllocs()
	for b.Loop() {
		from.seal(box, out, nil)
		to.enqueue(box.frames)
		to.readFrame(<-to.inbox)
		to.deliver()
	}
	for i := range to.dropped {
		if n := to.dropped[i].Load(); n > 0 {
			b.Errorf("%d packets dropped as %s", n, schedule.Drop(i))
		}
	}
}
