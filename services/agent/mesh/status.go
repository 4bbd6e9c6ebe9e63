package mesh

import (
	"cmp"
	"errors"
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
	Dropped               [drops]uint64
}

// Drop is why a packet was not taken in.
type Drop uint8

// The reasons.
const (
	Malformed      Drop = iota // it does not decode
	UnknownVersion             // of the gossip: of a build that is more than one version away
	Unknown                    // of an agent that memberlist does not know, or of an earlier life of one
	Forged                     // not made by the agent that it names
	Stale                      // version 1: of an earlier incarnation
	Overflow                   // too many came at once
	drops
	heard = drops
)

var dropNames = [drops]string{"malformed", "version", "unknown_sender", "forged", "stale", "overflow"}

// String is the reason's name in metrics.
func (d Drop) String() string { return dropNames[d] }

// dropOf says why a frame's head is not usable.
func dropOf(err error) Drop {
	if errors.Is(err, errVersion) {
		return UnknownVersion
	}
	return Malformed
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

// TypicalDelay is the lower median over the peers that were heard lately: what one
// slow or paused peer does not move.
func (m *Mesh) TypicalDelay() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	var all []time.Duration
	for _, p := range m.peers {
		if m.speaks(now, p) {
			all = append(all, p.delays.Value())
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[(len(all)-1)/2]
}

// Stats returns the counters.
func (m *Mesh) Stats() Stats {
	s := Stats{BytesIn: m.wire.bytesIn.Load(), BytesOut: m.wire.bytesOut.Load(),
		PacketsIn: m.wire.in.Load(), PacketsOut: m.wire.out.Load()}
	for i := range s.Dropped {
		s.Dropped[i] = m.dropped[i].Load()
	}
	return s
}
