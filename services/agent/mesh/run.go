package mesh

import (
	"bytes"
	"context"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/mesh/pace"
	"google.golang.org/protobuf/proto"
)

// Run sends the state each period and keeps the mesh together until ctx ends.
// Close, or Leave, must follow.
func (m *Mesh) Run(ctx context.Context) error {
	var helpers sync.WaitGroup
	defer helpers.Wait()
	helpers.Go(func() { m.join(ctx) })
	helpers.Go(func() { m.hear(ctx) })
	tick := time.NewTicker(m.o.Period)
	defer tick.Stop()
	for {
		poked := false
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-m.poke:
			poked = true
		}
		now := m.now()
		m.mu.Lock()
		m.noteGap(now)
		due, all := m.pace.Due(now, poked)
		m.mu.Unlock()
		if due {
			m.round(now, all, false)
		}
	}
}

// round sends the state to all peers that are alive, and with all to the failed
// ones as well. Without claims anywhere and without all it sends nothing.
func (m *Mesh) round(now time.Duration, all, leaving bool) {
	replicas := m.state.Outgoing(now)
	m.state.SetDelay(m.Delay())
	m.mu.Lock()
	promise, ok := m.pace.Speak(now, claims(replicas), all)
	if !ok {
		m.mu.Unlock()
		return
	}
	outbox := m.address(now, split(replicas, MaxPacket-overhead-len(m.o.Name)), promise, all, leaving)
	m.mu.Unlock()
	for i := range outbox {
		if err := m.post(&outbox[i]); err != nil {
			m.o.Log.Debug("packet not sent", "agent", outbox[i].to.Name, "error", err)
		}
	}
}

// post sends a letter.
func (m *Mesh) post(l *letter) error {
	if !l.sealed {
		return m.list.SendBestEffort(&l.to, l.packet)
	}
	return m.wire.send(l.packet, &net.UDPAddr{IP: l.to.Addr, Port: int(l.to.Port)})
}

// claims tells that replicas claim anything.
func claims(replicas []*gossipv1.Replica) bool {
	for _, r := range replicas {
		if len(r.GetFlows())+len(r.GetKeys()) > 0 {
			return true
		}
	}
	return false
}

// letter is a packet with its addressee.
type letter struct {
	to     memberlist.Node
	packet []byte
	sealed bool
}

// address makes the packets of a round: each body with a header per peer.
func (m *Mesh) address(now time.Duration, bodies [][]byte, promise time.Duration, all, leaving bool) []letter {
	if len(bodies) == 0 {
		bodies = [][]byte{nil}
	}
	m.tidy(now)
	out := make([]letter, 0, len(m.peers)*len(bodies))
	for _, p := range m.peers {
		if p.version == 0 || !p.alive && (!all || p.left || now-p.failed > sendFailed) {
			continue
		}
		for _, body := range bodies {
			l := letter{to: p.node, packet: append(m.header(now, p, promise, leaving), body...)}
			if p.session != nil {
				l.packet, l.sealed = p.session.seal(l.packet), true
			}
			out = append(out, l)
		}
		p.delays.Sent(p.seq, now) // the last of a round stands for all: its answer is what comes back
	}
	return out
}

// tidy forgets peers that left, and those that failed long ago or first of many.
func (m *Mesh) tidy(now time.Duration) {
	failed := 0
	var first *peer
	for _, p := range m.peers {
		switch {
		case p.alive:
			continue
		case p.left || now-p.failed > keepFailed:
			m.drop(p)
			continue
		case first == nil || p.failed < first.failed:
			first = p
		}
		failed++
	}
	if failed > keepMost {
		m.drop(first)
	}
}

func (m *Mesh) drop(p *peer) {
	m.forget(p)
	delete(m.peers, p.node.Name)
}

// header is a packet without replicas, encoded; joined to a body it is one
// packet, since encoded messages merge by concatenation.
func (m *Mesh) header(now time.Duration, p *peer, promise time.Duration, leaving bool) []byte {
	p.seq++
	h := &gossipv1.Packet{Agent: m.o.Name, Incarnation: m.o.Incarnation, Seq: p.seq,
		PromiseMs: uint32(promise.Milliseconds()), Leaving: leaving}
	if p.lastSeq > 0 {
		h.Ack = &gossipv1.Ack{Incarnation: p.incarnation, Seq: p.lastSeq,
			HeldUs: uint32(min((now - p.lastAt).Microseconds(), 1<<32-1))}
	}
	b, err := proto.Marshal(h)
	if err != nil {
		// Only a name that is not UTF-8 gets here, and Open's caller checks it.
		m.o.Log.Error("packet header not encoded", "error", err)
	}
	return b
}

// take queues a frame; beyond the inbox it is lost, as it could be on the way.
func (m *Mesh) take(frame []byte) {
	select {
	case m.inbox <- bytes.Clone(frame):
	default:
		m.dropped[Overflow].Add(1)
	}
}

// hear takes in frames until ctx ends.
func (m *Mesh) hear(ctx context.Context) {
	for {
		select {
		case frame := <-m.inbox:
			m.receiveSealed(frame)
		case <-ctx.Done():
			return
		}
	}
}

// receiveSealed takes in a frame: its sender is who made it, or it does not open.
func (m *Mesh) receiveSealed(frame []byte) {
	from, err := frameFrom(frame)
	if err != nil {
		m.dropped[dropOf(err)].Add(1)
		return
	}
	m.mu.Lock()
	p := m.senders[from]
	var s *session
	if p != nil {
		s = p.session
	}
	m.mu.Unlock()
	if s == nil {
		m.dropped[Unknown].Add(1)
		return
	}
	packet, err := s.open(frame)
	if err != nil {
		m.dropped[Forged].Add(1)
		return
	}
	m.receive(packet, s)
}

// receiveOpen takes in a packet of version 1, which only agents send that understand
// no later one.
func (m *Mesh) receiveOpen(b []byte) { m.receive(b, nil) }

// receive takes in a packet that was sealed in a session, or not.
func (m *Mesh) receive(b []byte, s *session) {
	p := &gossipv1.Packet{}
	if err := proto.Unmarshal(b, p); err != nil || p.GetAgent() == "" || len(p.GetAgent()) > maxName {
		m.dropped[Malformed].Add(1)
		return
	}
	if s == nil && p.GetAgent() == m.o.Name {
		return // an earlier life of this agent, or its own address in --join
	}
	now := m.now()
	life, why := m.note(now, p, s)
	if why != heard {
		m.dropped[why].Add(1)
		return
	}
	promise := min(time.Duration(p.GetPromiseMs())*time.Millisecond, longestPromise)
	m.state.Hear(now, p.GetAgent(), life, promise, p.GetReplicas())
}

// note keeps what a packet says of its sender and of the delay. It returns the
// sender's life, or why the packet does not count.
func (m *Mesh) note(now time.Duration, p *gossipv1.Packet, s *session) (life uint64, why Drop) {
	m.mu.Lock()
	defer m.mu.Unlock()
	from := m.peers[p.GetAgent()]
	switch {
	case from == nil:
		return 0, Unknown // memberlist will tell of it
	case from.session != s:
		return 0, Forged // sealed by another agent, or not sealed at all
	case s == nil && p.GetIncarnation() < from.incarnation:
		return 0, Stale
	case s == nil && p.GetIncarnation() > from.incarnation:
		from.reborn(p.GetIncarnation())
	}
	from.heard, from.incarnation = now, p.GetIncarnation()
	if p.GetSeq() > from.lastSeq {
		if from.lastSeq > 0 && now > m.late+m.o.Period {
			from.delays.Missed(p.GetSeq()-from.lastSeq-1, m.pace.Period)
		}
		from.lastSeq, from.lastAt, from.left = p.GetSeq(), now, p.GetLeaving()
	}
	if a := p.GetAck(); a.GetIncarnation() == m.o.Incarnation {
		from.delays.Acknowledged(a.GetSeq(), time.Duration(a.GetHeldUs())*time.Microsecond, now, m.late)
	}
	if claims(p.GetReplicas()) {
		m.pace.Claims(now)
	}
	return from.life, heard
}

// noteGap notes that this process did not run for a while: what it sent before has
// waited for it, not for the network.
func (m *Mesh) noteGap(now time.Duration) {
	if m.ran > 0 && now-m.ran > gap*m.o.Period {
		m.late = now
	}
	m.ran = now
}

// delay is the largest of the peers that were heard lately.
func (m *Mesh) delay(now time.Duration) time.Duration {
	var d time.Duration
	for _, p := range m.peers {
		if m.speaks(now, p) {
			d = max(d, p.delays.Value())
		}
	}
	return d
}

// speaks tells that a peer was heard lately.
func (m *Mesh) speaks(now time.Duration, p *peer) bool {
	return p.heard > 0 && now-p.heard < 3*pace.Idle*m.o.Period
}

// Leave tells the others that this agent stops in order, and closes the port.
// What its gateways claim is withdrawn only if they are gone: see package tally.
func (m *Mesh) Leave(patience time.Duration) error {
	for range 3 { // no acknowledgement is waited for
		m.round(m.now(), true, true)
	}
	if err := m.list.Leave(patience); err != nil {
		m.o.Log.Debug("leaving unheard", "error", err)
	}
	return m.Close()
}

// Close closes the port without a word: to the others a crash.
func (m *Mesh) Close() error { return m.list.Shutdown() }
