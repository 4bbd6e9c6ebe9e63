package gossip

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/gossip/schedule"
	"google.golang.org/protobuf/proto"
)

// Run sends the state each period and keeps the cluster together until ctx ends.
// Close, or Leave, must follow.
func (m *Node) Run(ctx context.Context) error {
	var helpers sync.WaitGroup
	defer helpers.Wait()
	helpers.Go(func() { m.join(ctx) })
	helpers.Go(func() { m.readInbox(ctx) })
	tick := time.NewTicker(m.o.Period)
	defer tick.Stop()
	for {
		soon := false
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-m.soon:
			soon = true
		}
		if r, send := m.state.Round(soon); send {
			m.send(r)
		}
	}
}

// send sends a round: each part of the state with a header per peer.
func (m *Node) send(r schedule.Round) {
	parts := split(r.Replicas, MaxPacket-overhead-len(m.o.Name))
	if len(parts) == 0 {
		parts = [][]byte{nil}
	}
	headers, forgotten := m.state.Headers(r, len(parts))
	for _, d := range m.datagrams(headers, parts, forgotten) {
		if err := m.sendDatagram(&d); err != nil {
			m.o.Log.Debug("packet not sent", "agent", d.to.Name, "error", err)
		}
	}
}

// datagram is a packet with its addressee.
type datagram struct {
	to     memberlist.Node
	packet []byte
	sealed bool
}

// datagrams encodes and seals the packets of a round.
func (m *Node) datagrams(headers []schedule.Header, parts [][]byte, forgotten []string) []datagram {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range forgotten {
		m.dropContact(name)
	}
	out := make([]datagram, 0, len(headers))
	for _, h := range headers {
		to := m.contacts[h.To]
		if to == nil {
			continue
		}
		d := datagram{to: to.node, packet: append(m.encode(h.Packet), parts[h.Part]...)}
		if to.session != nil {
			d.packet, d.sealed = to.session.seal(d.packet), true
		}
		out = append(out, d)
	}
	return out
}

// encode encodes a header. Joined to a part of the state it is one packet, since encoded
// messages merge by concatenation.
func (m *Node) encode(h *gossipv1.Packet) []byte {
	b, err := proto.Marshal(h)
	if err != nil {
		// Only a name that is not UTF-8 gets here, and Open's caller checks it.
		m.o.Log.Error("packet header not encoded", "error", err)
	}
	return b
}

func (m *Node) sendDatagram(d *datagram) error {
	if !d.sealed {
		return m.list.SendBestEffort(&d.to, d.packet)
	}
	return m.wire.send(d.packet, &net.UDPAddr{IP: d.to.Addr, Port: int(d.to.Port)})
}

// enqueue puts a frame in the inbox; it is dropped if the inbox is full.
func (m *Node) enqueue(frame []byte) {
	select {
	case m.inbox <- bytes.Clone(frame):
	default:
		m.dropped[schedule.Overflow].Add(1)
	}
}

// readInbox reads frames until ctx ends.
func (m *Node) readInbox(ctx context.Context) {
	for {
		select {
		case frame := <-m.inbox:
			m.receiveSealed(frame)
		case <-ctx.Done():
			return
		}
	}
}

// receiveSealed reads a frame, which opens only if its sender has sealed it.
func (m *Node) receiveSealed(frame []byte) {
	from, err := frameFrom(frame)
	if err != nil {
		m.dropped[dropOf(err)].Add(1)
		return
	}
	m.mu.Lock()
	c := m.senders[from]
	var s *session
	if c != nil {
		s = c.session
	}
	m.mu.Unlock()
	if s == nil {
		m.dropped[schedule.Unknown].Add(1)
		return
	}
	packet, err := s.open(frame)
	if err != nil {
		m.dropped[schedule.Forged].Add(1)
		return
	}
	m.receive(packet, s)
}

// receiveOpen reads a packet of version 1, which only agents send that understand no
// later version.
func (m *Node) receiveOpen(b []byte) { m.receive(b, nil) }

// receive reads a packet that was sealed in a session; nil: not sealed.
func (m *Node) receive(b []byte, s *session) {
	p := &gossipv1.Packet{}
	if err := proto.Unmarshal(b, p); err != nil || p.GetAgent() == "" || len(p.GetAgent()) > maxName {
		m.dropped[schedule.Malformed].Add(1)
		return
	}
	if s == nil && p.GetAgent() == m.o.Name {
		return // an earlier life of this agent, or its own address in --join
	}
	drop := m.authenticate(p.GetAgent(), s)
	if drop == schedule.Accepted {
		drop = m.state.ReceivePacket(p, s != nil)
	}
	if drop != schedule.Accepted {
		m.dropped[drop].Add(1)
	}
}

// authenticate checks that a packet of a session comes from the agent that it names.
func (m *Node) authenticate(agent string, s *session) schedule.Drop {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch c := m.contacts[agent]; {
	case c == nil:
		return schedule.Unknown // memberlist will report it
	case c.session != s:
		return schedule.Forged // sealed by another agent, or not sealed at all
	}
	return schedule.Accepted
}

// dropOf says why a frame's head is not usable.
func dropOf(err error) schedule.Drop {
	if errors.Is(err, errVersion) {
		return schedule.UnknownVersion
	}
	return schedule.Malformed
}

// Leave announces that this agent stops in order, and closes the port. What its gateways
// claim is withdrawn only if they are gone: see package aggregation.
func (m *Node) Leave(patience time.Duration) error {
	for range 3 { // without waiting for acknowledgements
		m.send(m.state.LastRound())
	}
	if err := m.list.Leave(patience); err != nil {
		m.o.Log.Debug("leaving was not acknowledged", "error", err)
	}
	return m.Close()
}

// Close closes the port without an announcement: to the others a crash.
func (m *Node) Close() error { return m.list.Shutdown() }
