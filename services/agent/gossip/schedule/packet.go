package schedule

import (
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/gossip/size"
)

const (
	// MaxPacket bounds a packet in bytes, so that with memberlist's checksum and
	// encryption (34 bytes) it fits one datagram on an Ethernet.
	MaxPacket = 1300
	// overhead of a packet's header without the agent's name, at most: six
	// numbers, one nested message of four.
	overhead = 100
	// nested is the overhead of a message in a list: its tag and its length.
	nested = 3
)

// split cuts states into parts of at most budget bytes. Each replica is in the first part
// that has room, its claims in as many as they need. There is at least one part.
func split(replicas []*gossipv1.Replica, budget int) [][]*gossipv1.Replica {
	s := splitter{budget: budget}
	for _, r := range replicas {
		s.add(r)
	}
	if s.size > 0 || len(s.parts) == 0 {
		s.flush()
	}
	return s.parts
}

type splitter struct {
	budget int
	size   int
	part   []*gossipv1.Replica
	parts  [][]*gossipv1.Replica
}

// add puts a replica with its claims in, beginning new parts as they fill.
func (s *splitter) add(r *gossipv1.Replica) {
	var head *gossipv1.Replica
	begin := func() {
		head = headOf(r)
		n := size.Replica(head) + nested
		if s.size > 0 && s.size+n > s.budget {
			s.flush()
		}
		s.size += n
		s.part = append(s.part, head)
	}
	room := func(bytes int) {
		n := bytes + nested
		if s.size+n > s.budget {
			s.flush()
			begin()
		}
		s.size += n
	}
	begin()
	for _, f := range r.GetFlows() {
		room(size.FlowClaim(f))
		head.Flows = append(head.Flows, f)
	}
	for _, k := range r.GetKeys() {
		room(size.KeyClaim(k))
		head.Keys = append(head.Keys, k)
	}
}

// headOf is a replica without its claims.
func headOf(r *gossipv1.Replica) *gossipv1.Replica {
	return &gossipv1.Replica{Name: r.Name, Generation: r.Generation, Seq: r.Seq, Weight: r.Weight, Drained: r.Drained,
		Process: r.Process, Site: r.Site}
}

func (s *splitter) flush() {
	s.parts = append(s.parts, s.part)
	s.part, s.size = nil, 0
}
