package gossip

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/gossip/schedule"
	"google.golang.org/protobuf/proto"
)

// Run keeps the cluster together until ctx ends. Unless the caller does it, it sends what is due each half period.
// Close, or Leave, must follow: it ends the attempts to join that are under way, for which
// Run does not wait. A dead address would keep an agent that stops from saying so.
func (m *Node) Run(ctx context.Context) error {
	var helpers sync.WaitGroup
	defer helpers.Wait()
	m.joining.Go(func() { m.join(ctx) })
	helpers.Go(func() { m.readInbox(ctx) })
	var due <-chan time.Time
	if !m.o.Paced {
		tick := time.NewTicker(m.o.Period / 2)
		defer tick.Stop()
		due = tick.C
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-due:
			m.Round()
		case e := <-m.events: // memberlist does not wait: it answers no ping meanwhile, and State may have much to do
			m.updatePeer(e.Node, e.Event != memberlist.NodeLeave)
		}
	}
}

// Round sends what is due.
func (m *Node) Round() { m.send(m.state.Round(false)) }

// Send sends packets at once, in addition to those of State.Round.
func (m *Node) Send(out []schedule.Outgoing) { m.send(out, nil) }

// send encodes, seals and sends packets, and forgets peers.
func (m *Node) send(out []schedule.Outgoing, forgotten []string) {
	if len(out)+len(forgotten) == 0 {
		return
	}
	box, _ := m.boxes.Get().(*outbox)
	if box == nil {
		box = &outbox{}
	}
	m.seal(box, out, forgotten)
	at := 0
	for _, d := range box.list {
		if err := m.wire.send(box.frames[at:d.end], d.to); err != nil {
			m.o.Log.Debug("packet not sent", "to", d.to, "error", err)
		}
		at = d.end
	}
	m.boxes.Put(box)
}

// outbox is the memory of one send.
type outbox struct {
	plain  []byte // a packet
	frames []byte // sealed, one after the other
	list   []datagram
}

// datagram is a sealed packet with its address.
type datagram struct {
	to  netip.AddrPort
	end int // of its frame in outbox.frames
}

// seal puts packets into an outbox.
func (m *Node) seal(box *outbox, packets []schedule.Outgoing, forgotten []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range forgotten {
		m.dropContact(name)
	}
	box.frames, box.list = box.frames[:0], box.list[:0]
	for _, p := range packets {
		to := m.contacts[p.To]
		if to == nil || to.session == nil {
			continue
		}
		var err error
		if box.plain, err = (proto.MarshalOptions{}).MarshalAppend(box.plain[:0], p.Packet); err != nil {
			// Only a name that is not UTF-8 gets here, and Open's caller checks it.
			m.o.Log.Error("packet not encoded", "agent", p.To, "error", err)
			continue
		}
		box.frames = to.session.seal(box.frames, box.plain)
		box.list = append(box.list, datagram{addressOf(to.node.Addr, to.node.Port), len(box.frames)})
	}
}

// enqueue puts a frame in the inbox; it is dropped if the inbox is full.
func (m *Node) enqueue(bytes []byte) {
	kept, _ := m.frames.Get().(*frame)
	if kept == nil {
		kept = &frame{}
	}
	kept.bytes, kept.came = append(kept.bytes[:0], bytes...), time.Now()
	select {
	case m.inbox <- kept:
	default:
		m.frames.Put(kept)
		m.dropped[schedule.Overflow].Add(1)
	}
}

// readInbox reads frames until ctx ends, as many at once as there are.
func (m *Node) readInbox(ctx context.Context) {
	for {
		select {
		case f := <-m.inbox:
			m.readFrame(f)
		case <-ctx.Done():
			return
		}
		for n := min(len(m.inbox), readAtOnce-1); n > 0; n-- {
			m.readFrame(<-m.inbox)
		}
		m.deliver()
	}
}

// readFrame reads a frame of the inbox, unless it has waited there for too long.
func (m *Node) readFrame(f *frame) {
	defer m.frames.Put(f)
	if time.Since(f.came) > longestInbox {
		m.dropped[schedule.Overflow].Add(1)
		return
	}
	m.receiveSealed(f.bytes)
}

// deliver gives State the packets that were read.
func (m *Node) deliver() {
	if len(m.read) == 0 {
		return
	}
	drops, soon := m.state.ReceivePackets(m.read...)
	for _, drop := range drops {
		if drop != schedule.Accepted {
			m.dropped[drop].Add(1)
		}
	}
	clear(m.read)
	if m.read = m.read[:0]; soon {
		m.SendSoon()
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
	packet, err := s.open(m.plain[:0], frame)
	if errors.Is(err, errReplayed) {
		m.dropped[schedule.Replayed].Add(1)
		return
	}
	if err != nil {
		m.noteUnopened(m.contactAddress(c))
		return
	}
	m.plain = packet
	m.receive(packet, s)
}

// receive reads a packet that was sealed in a session.
func (m *Node) receive(b []byte, s *session) {
	p := &gossipv1.Packet{}
	if err := proto.Unmarshal(b, p); err != nil || p.GetAgent() == "" || len(p.GetAgent()) > maxName {
		m.dropped[schedule.Malformed].Add(1)
		return
	}
	if drop := m.authenticate(p.GetAgent(), s); drop != schedule.Accepted {
		m.dropped[drop].Add(1)
		return
	}
	m.read = append(m.read, p)
}

// contactAddress returns host:port of another agent.
func (m *Node) contactAddress(c *contact) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return c.node.Address()
}

// authenticate checks that a packet of a session comes from the agent that it names.
func (m *Node) authenticate(agent string, s *session) schedule.Drop {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch c := m.contacts[agent]; {
	case c == nil:
		return schedule.Unknown // memberlist will report it
	case c.session != s:
		return schedule.Forged // sealed by another agent
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
		m.send(m.state.LastRound(), nil)
	}
	if err := m.list.Leave(patience); err != nil {
		m.o.Log.Debug("leaving was not acknowledged", "error", err)
	}
	return m.Close()
}

// Close closes the port without an announcement: to the others a crash.
func (m *Node) Close() error {
	err := m.list.Shutdown()
	m.joining.Wait()
	return err
}
