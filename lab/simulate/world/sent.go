package world

import (
	"github.com/titrate/titrate/lab/simulate/system"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/gossip/size"
)

// send counts a packet that an agent sends, from the scenario's start on.
func (w *World) send(a *agent, m *gossipv1.Packet) {
	if w.now < w.zero {
		return
	}
	s := &w.sent[a.place]
	s.Bytes += size.Packet(m)
	s.Packets++
	s.Records += len(m.GetSums())
	for _, r := range m.GetReplicas() {
		s.Records += len(r.GetFlows()) + len(r.GetKeys())
	}
}

// ran adds the time that an agent has run, and was not counted before.
func (w *World) ran(a *agent) {
	from := max(a.start, w.zero, a.counted)
	if a.counted = w.now; a.core != nil && w.now > from {
		w.sent[a.place].Time += w.now - from
	}
}

// Sent returns the traffic that agents have sent to each other, see [system.Talker].
func (w *World) Sent() []system.Sent {
	for i := range w.agents {
		w.ran(&w.agents[i])
	}
	return w.sent
}
