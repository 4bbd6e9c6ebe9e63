package mesh

import (
	"context"
	"errors"
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
	var joining sync.WaitGroup
	defer joining.Wait()
	joining.Go(func() { m.join(ctx) })
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
	for _, l := range outbox {
		if err := m.list.SendBestEffort(&l.to, l.packet); err != nil && !errors.Is(err, errCut) {
			m.o.Log.Debug("packet not sent", "agent", l.to.Name, "error", err)
		}
	}
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
}

// address makes the packets of a round: each body with a header per peer.
func (m *Mesh) address(now time.Duration, bodies [][]byte, promise time.Duration, all, leaving bool) []letter {
	if len(bodies) == 0 {
		bodies = [][]byte{nil}
	}
	out := make([]letter, 0, len(m.peers)*len(bodies))
	for name, p := range m.peers {
		if !p.alive && (p.left || now-p.failed > keepFailed) {
			delete(m.peers, name)
			continue
		}
		if !p.alive && !all {
			continue
		}
		for _, body := range bodies {
			out = append(out, letter{p.node, append(m.header(now, p, promise, leaving), body...)})
		}
	}
	return out
}

// header is a packet without replicas, encoded; joined to a body it is one
// packet, since encoded messages merge by concatenation.
func (m *Mesh) header(now time.Duration, p *peer, promise time.Duration, leaving bool) []byte {
	p.seq++
	p.delays.Sent(p.seq, now)
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

// receive takes in a packet from outside.
func (m *Mesh) receive(b []byte) {
	p := &gossipv1.Packet{}
	if err := proto.Unmarshal(b, p); err != nil || p.GetAgent() == "" || len(p.GetAgent()) > 256 {
		m.malformed.Add(1)
		return
	}
	if p.GetAgent() == m.o.Name {
		return // an earlier life of this agent, or its own address in --join
	}
	now := m.now()
	if !m.note(now, p) {
		m.stale.Add(1)
		return
	}
	promise := time.Duration(min(p.GetPromiseMs(), 60_000)) * time.Millisecond
	m.state.Hear(now, p.GetAgent(), promise, p.GetReplicas())
}

// note keeps what a packet says of its sender and of the delay; false if it is
// of an earlier incarnation.
func (m *Mesh) note(now time.Duration, p *gossipv1.Packet) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	from := m.peers[p.GetAgent()]
	if from == nil {
		// memberlist has not told of it yet: the state counts, an answer must wait.
		return true
	}
	switch {
	case p.GetIncarnation() < from.incarnation:
		return false
	case p.GetIncarnation() > from.incarnation:
		from.incarnation, from.lastSeq, from.delays = p.GetIncarnation(), 0, pace.Delay{}
	}
	from.heard = now
	if p.GetSeq() > from.lastSeq {
		if from.lastSeq > 0 {
			from.delays.Missed(p.GetSeq()-from.lastSeq-1, m.pace.Period)
		}
		from.lastSeq, from.lastAt, from.left = p.GetSeq(), now, p.GetLeaving()
	}
	if a := p.GetAck(); a.GetIncarnation() == m.o.Incarnation {
		from.delays.Acknowledged(a.GetSeq(), time.Duration(a.GetHeldUs())*time.Microsecond, now)
	}
	if claims(p.GetReplicas()) {
		m.pace.Claims(now)
	}
	return true
}

// delay is the largest of the peers that were heard lately.
func (m *Mesh) delay(now time.Duration) time.Duration {
	var d time.Duration
	for _, p := range m.peers {
		if p.heard > 0 && now-p.heard < 3*pace.Idle*m.o.Period {
			d = max(d, p.delays.Value())
		}
	}
	return d
}

// join joins the mesh and whoever dropped out of it, every now and then.
func (m *Mesh) join(ctx context.Context) {
	tick := time.NewTicker(rejoinEvery)
	defer tick.Stop()
	warned := false
	for {
		if to := m.missing(); len(to) > 0 && !m.wire.cut.Load() {
			n, err := m.list.Join(to)
			switch {
			case err == nil || n > 0:
				warned = false
			case !warned && ctx.Err() == nil:
				m.o.Log.Warn("no other agent answers yet; trying on", "join", to, "error", err)
				warned = true
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// missing are the addresses to join: failed peers, silent ones (they may know
// this agent by an older address), and while nobody is there, those given.
func (m *Mesh) missing() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	alone := true
	now := m.now()
	for _, p := range m.peers {
		alone = alone && !p.alive
		if silent := now-p.heard > 3*pace.Idle*m.o.Period; !p.left && (silent || !p.alive) {
			out = append(out, p.node.Address())
		}
	}
	if alone {
		out = append(out, m.o.Join...)
	}
	return out
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
