package gossip

import (
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"google.golang.org/protobuf/proto"
)

const (
	// MaxPacket bounds a packet in bytes, so that with memberlist's checksum and
	// encryption (34 bytes) it fits one datagram on an Ethernet.
	MaxPacket = 1300
	// overhead of a packet's header without the agent's name, at most: five
	// numbers, one nested message of three.
	overhead = 80
	// nested is the overhead of a message in a list: its tag and its length.
	nested = 3
)

// split cuts states into bodies of at most budget bytes: encoded packets with
// nothing but replicas, to which a header per addressee is joined. Each replica
// is in the first body that has room, its claims in as many as they need.
func split(replicas []*gossipv1.Replica, budget int) [][]byte {
	s := splitter{budget: budget, packet: &gossipv1.Packet{}}
	for _, r := range replicas {
		s.add(r)
	}
	s.flush()
	return s.bodies
}

type splitter struct {
	budget int
	size   int
	packet *gossipv1.Packet
	bodies [][]byte
}

// add puts a replica with its claims in, beginning new bodies as they fill.
func (s *splitter) add(r *gossipv1.Replica) {
	var head *gossipv1.Replica
	begin := func() {
		head = &gossipv1.Replica{Name: r.Name, Generation: r.Generation, Seq: r.Seq, Weight: r.Weight,
			Drained: r.Drained}
		n := proto.Size(head) + nested
		if s.size > 0 && s.size+n > s.budget {
			s.flush()
		}
		s.size += n
		s.packet.Replicas = append(s.packet.Replicas, head)
	}
	room := func(m proto.Message) {
		n := proto.Size(m) + nested
		if s.size+n > s.budget {
			s.flush()
			begin()
		}
		s.size += n
	}
	begin()
	for _, f := range r.GetFlows() {
		room(f)
		head.Flows = append(head.Flows, f)
	}
	for _, k := range r.GetKeys() {
		room(k)
		head.Keys = append(head.Keys, k)
	}
}

func (s *splitter) flush() {
	if s.size == 0 {
		return
	}
	body, err := proto.Marshal(s.packet)
	if err == nil { // names that are not UTF-8 are refused where they come in
		s.bodies = append(s.bodies, body)
	}
	s.packet, s.size = &gossipv1.Packet{}, 0
}
