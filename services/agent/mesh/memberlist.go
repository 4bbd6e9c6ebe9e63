package mesh

import (
	"bytes"
	"fmt"
	"log"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/titrate/titrate/services/agent/mesh/pace"
)

// config is memberlist for a fast LAN: a dead agent is suspected after 0.7 s
// and given up after about 2 s in a small mesh.
func (m *Mesh) config(logger *log.Logger) (*memberlist.Config, error) {
	c := memberlist.DefaultLANConfig()
	c.Name = m.o.Name
	c.Transport = m.wire
	c.Label = label
	c.Logger = logger
	c.SecretKey = m.o.Key
	c.ProbeInterval = 500 * time.Millisecond
	c.ProbeTimeout = 200 * time.Millisecond
	c.SuspicionMult = 3
	c.GossipInterval = 100 * time.Millisecond
	c.PushPullInterval = 15 * time.Second
	c.TCPTimeout = 2 * time.Second
	c.GossipToTheDeadTime = time.Minute
	c.DeadNodeReclaimTime = 2 * time.Second // a restarted agent may come with a new address
	c.EnableCompression = false             // costs CPU per packet; claims are mostly random bits
	c.HandoffQueueDepth = 8192
	c.Delegate = delegate{m}
	c.Events = events{m}
	c.Conflict = conflicts{m}
	if m.o.Advertise != "" {
		ip, port, err := resolve(m.o.Advertise)
		if err != nil {
			return nil, fmt.Errorf("--gossip-advertise: %w", err)
		}
		c.AdvertiseAddr, c.AdvertisePort = ip.String(), port
	}
	return c, nil
}

// delegate receives the packets of agents of version 1; memberlist's own broadcasts
// and state exchanges carry nothing of ours.
type delegate struct{ m *Mesh }

// NodeMeta tells the versions that this agent understands, and its public key.
func (d delegate) NodeMeta(int) []byte { return d.m.self.meta() }

// NotifyMsg brings one packet.
func (d delegate) NotifyMsg(b []byte) { d.m.receiveOpen(b) }

// GetBroadcasts has none.
func (delegate) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState is empty.
func (delegate) LocalState(bool) []byte { return nil }

// MergeRemoteState has nothing to merge.
func (delegate) MergeRemoteState([]byte, bool) {}

// events keeps the peers' addresses and memberlist's word on them.
type events struct{ m *Mesh }

// NotifyJoin tells of a peer that is there.
func (e events) NotifyJoin(n *memberlist.Node) { e.m.saw(n, true) }

// NotifyUpdate tells of a peer's new address.
func (e events) NotifyUpdate(n *memberlist.Node) { e.m.saw(n, true) }

// NotifyLeave tells of a peer that left or failed; its own packets tell which.
func (e events) NotifyLeave(n *memberlist.Node) { e.m.saw(n, false) }

// saw takes in memberlist's word on a peer.
func (m *Mesh) saw(n *memberlist.Node, alive bool) {
	if n.Name == m.o.Name || len(n.Name) > maxName {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.peers[n.Name]
	if p == nil {
		p = &peer{}
		m.peers[n.Name] = p
	}
	if p.alive != alive {
		word := map[bool]string{true: "alive", false: "gone"}[alive]
		m.o.Log.Info("agent is "+word, "agent", n.Name, "address", n.Address(), "in_order", p.left)
	}
	p.node, p.alive, p.failed = *n, alive, m.now()
	if alive {
		p.left = false
		m.acquaint(p)
	}
}

// acquaint makes the session with a peer, or another one with its next life.
func (m *Mesh) acquaint(p *peer) {
	version, public := m.self.agree(p.node.Meta)
	if version == p.version && (p.session == nil || bytes.Equal(public, p.session.public)) {
		return
	}
	m.forget(p)
	p.version, p.session = version, nil
	if public != nil {
		var err error
		if p.session, err = m.self.with(version, public); err != nil {
			p.version = 0
			m.o.Log.Error("agent has an unusable public key: its claims are not heard", "agent", p.node.Name, "error", err)
			return
		}
		m.senders[senderOf(public)] = p
	}
	if version == 0 {
		m.o.Log.Error("agent speaks no version of the gossip that this one knows: upgrade one step at a time",
			"agent", p.node.Name, "oldest", oldest, "newest", m.self.newest)
	}
	p.reborn(0)
}

// forget lets no frame of a peer in any more.
func (m *Mesh) forget(p *peer) {
	if p.session != nil {
		delete(m.senders, senderOf(p.session.public))
	}
}

// reborn begins with a new life of a peer.
func (p *peer) reborn(incarnation uint64) {
	p.life++
	p.incarnation, p.lastSeq, p.delays = incarnation, 0, pace.Delay{}
}

// conflicts reports two agents of one name.
type conflicts struct{ m *Mesh }

// NotifyConflict logs both addresses.
func (c conflicts) NotifyConflict(existing, other *memberlist.Node) {
	c.m.o.Log.Error("two agents have one name: give each its own --name",
		"agent", existing.Name, "address", existing.Address(), "other", net.JoinHostPort(other.Addr.String(), fmt.Sprint(other.Port)))
}

// logAdapter passes memberlist's lines to slog: errors of unreachable peers are
// its daily work, so they are no louder than debug.
func logAdapter(l *slog.Logger) *log.Logger { return log.New(lines{l}, "", 0) }

type lines struct{ log *slog.Logger }

// Write logs one line.
func (l lines) Write(b []byte) (int, error) {
	text := strings.TrimSpace(string(b))
	level, rest, ok := strings.Cut(strings.TrimPrefix(text, "["), "] ")
	if !ok {
		level, rest = "", text
	}
	rest = strings.TrimPrefix(rest, "memberlist: ")
	switch level {
	case "WARN":
		l.log.Debug(rest, "from", "memberlist", "severity", "warning")
	case "ERR", "ERROR":
		l.log.Debug(rest, "from", "memberlist", "severity", "error")
	default:
		l.log.Debug(rest, "from", "memberlist")
	}
	return len(b), nil
}
