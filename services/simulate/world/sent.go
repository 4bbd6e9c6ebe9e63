package world

import (
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/simulate/system"
	"google.golang.org/protobuf/proto"
)

// datagram is the most bytes of a packet on the wire, see package gossip. A packet that is
// longer counts as several.
const datagram = 1300

// send counts a packet that an agent sends, from the scenario's start on. body is the size of
// what is added to it later, and records the claims and sums in all of it.
func (w *World) send(a *agent, m *gossipv1.Packet, body, records int) {
	if w.now < w.zero {
		return
	}
	bytes := proto.Size(m) + body
	s := &w.sent[a.place]
	s.Bytes += bytes
	s.Packets += (bytes + datagram - 1) / datagram
	s.Records += records
}

// sizeOf is the size of replicas in a packet, and how many claims they have.
func sizeOf(replicas []*gossipv1.Replica) (bytes, records int) {
	for _, r := range replicas {
		records += len(r.GetFlows()) + len(r.GetKeys())
	}
	return proto.Size(&gossipv1.Packet{Replicas: replicas}), records
}

// ran adds the time that an agent has run, and was not counted before.
func (w *World) ran(a *agent) {
	from := max(a.start, w.zero, a.counted)
	if a.counted = w.now; a.core != nil && w.now > from {
		w.sent[a.place].Time += w.now - from
	}
}

// Sent is what agents have sent to each other, see [system.Talker].
func (w *World) Sent() []system.Sent {
	for i := range w.agents {
		w.ran(&w.agents[i])
	}
	return w.sent
}
