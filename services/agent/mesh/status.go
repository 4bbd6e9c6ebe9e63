package mesh

import (
	"cmp"
	"slices"
	"time"
)

// PeerStatus is what is known of another agent.
type PeerStatus struct {
	Name    string
	Address string
	Alive   bool          // memberlist's word
	Age     time.Duration // since its last packet; negative: none yet
	Delay   time.Duration // one way, peak with decay
}

// Stats are cumulative counters of datagrams, memberlist's own among them, in
// bytes as they are on the wire without IP and UDP headers.
type Stats struct {
	BytesIn, BytesOut     uint64
	PacketsIn, PacketsOut uint64
	Malformed             uint64 // packets that do not decode
	Stale                 uint64 // packets of an earlier incarnation
}

// Peers returns the other agents by name.
func (m *Mesh) Peers() []PeerStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	out := make([]PeerStatus, 0, len(m.peers))
	for name, p := range m.peers {
		s := PeerStatus{Name: name, Address: p.node.Address(), Alive: p.alive, Age: -1, Delay: p.delays.Value()}
		if p.heard > 0 {
			s.Age = now - p.heard
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b PeerStatus) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Delay is the largest one-way delay in force.
func (m *Mesh) Delay() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.delay(m.now())
}

// Stats returns the counters.
func (m *Mesh) Stats() Stats {
	return Stats{BytesIn: m.wire.bytesIn.Load(), BytesOut: m.wire.bytesOut.Load(),
		PacketsIn: m.wire.in.Load(), PacketsOut: m.wire.out.Load(),
		Malformed: m.malformed.Load(), Stale: m.stale.Load()}
}
