package gossip

import (
	"bytes"
	"fmt"
	"log"
	"net"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/titrate/titrate/services/agent/gossip/schedule"
)

// config is memberlist for a fast LAN: a dead agent is suspected after 0.7 s
// and given up after about 2 s in a small cluster.
func (m *Node) config(logger *log.Logger) (*memberlist.Config, error) {
	c := memberlist.DefaultLANConfig()
	c.Name = m.o.Name
	c.Transport = m.wire
	c.Label = label
	c.Logger = logger
	c.Keyring = m.ring
	c.ProbeInterval = 500 * time.Millisecond
	c.ProbeTimeout = 200 * time.Millisecond
	c.SuspicionMult = 3
	c.PushPullInterval = 15 * time.Second
	c.TCPTimeout = 2 * time.Second
	c.GossipToTheDeadTime = time.Minute
	c.DeadNodeReclaimTime = 2 * time.Second // a restarted agent may come with a new address
	c.EnableCompression = false             // costs CPU per packet; claims are mostly random bits
	c.HandoffQueueDepth = 8192
	c.Delegate = delegate{m}
	c.Events = &memberlist.ChannelEventDelegate{Ch: m.events}
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

// delegate gives memberlist this agent's versions, public key and site. Our data is not in
// memberlist's messages, broadcasts and state exchanges.
type delegate struct{ m *Node }

// NodeMeta is the versions that this agent understands, its public key and its site.
func (d delegate) NodeMeta(int) []byte { return d.m.self.meta() }

// NotifyMsg gets messages that nobody has sealed: no agent sends any.
func (d delegate) NotifyMsg([]byte) { d.m.dropped[schedule.Forged].Add(1) }

// GetBroadcasts has none.
func (delegate) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState is empty.
func (delegate) LocalState(bool) []byte { return nil }

// MergeRemoteState has nothing to merge.
func (delegate) MergeRemoteState([]byte, bool) {}

// updatePeer notes what memberlist says of a peer: it is alive, perhaps at a new address, or it left or failed. Its own
// packets say which.
func (m *Node) updatePeer(n *memberlist.Node, alive bool) {
	if n.Name == m.o.Name || len(n.Name) > maxName {
		return
	}
	changed, newLife, version := m.updateContact(n, alive)
	inOrder := false
	if alive {
		m.state.PeerSite(n.Name, siteOf(n.Meta))
		m.state.PeerAlive(n.Name, n.Address(), newLife, version)
	} else {
		inOrder = m.state.PeerFailed(n.Name)
	}
	if changed {
		word := map[bool]string{true: "alive", false: "gone"}[alive]
		m.o.Log.Info("agent is "+word, "agent", n.Name, "address", n.Address(), "in_order", inOrder)
	}
}

// updateContact keeps a peer's address, its session and whether it is alive.
func (m *Node) updateContact(n *memberlist.Node, alive bool) (changed, newLife bool, version uint8) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.contacts[n.Name]
	if c == nil {
		c = &contact{}
		m.contacts[n.Name] = c
	}
	changed = c.alive != alive
	if c.node, c.alive = *n, alive; alive {
		newLife = m.updateSession(c)
	}
	return changed, newLife, c.version
}

// updateSession makes the session with a peer. It returns true if that is a new one, and
// the peer's process with it.
func (m *Node) updateSession(c *contact) (newLife bool) {
	version, public := m.self.agree(c.node.Meta)
	if version == c.version && (c.session == nil || bytes.Equal(public, c.session.public)) {
		return false
	}
	m.dropSession(c)
	c.version, c.session = version, nil
	if public != nil {
		var err error
		if c.session, err = m.self.with(version, public, m.keys()); err != nil {
			c.version = 0
			m.o.Log.Error("agent has an unusable public key: its claims are dropped",
				"agent", c.node.Name, "error", err)
			return false
		}
		m.senders[senderOf(public)] = c
	}
	if version == 0 {
		m.o.Log.Error("agent speaks no version of the gossip that this one knows: upgrade one step at a time",
			"agent", c.node.Name, "oldest", oldest, "newest", m.self.newest)
	}
	return true
}

// dropSession makes frames of a peer's session unknown.
func (m *Node) dropSession(c *contact) {
	if c.session != nil {
		delete(m.senders, senderOf(c.session.public))
	}
}

// dropContact forgets a peer.
func (m *Node) dropContact(name string) {
	if c := m.contacts[name]; c != nil && !c.alive {
		m.dropSession(c)
		delete(m.contacts, name)
	}
}

// conflicts reports two agents of one name.
type conflicts struct{ m *Node }

// NotifyConflict logs both addresses, once a minute: memberlist finds the conflict with each message of the other.
func (c conflicts) NotifyConflict(existing, other *memberlist.Node) {
	c.m.conflict.Do(func() {
		c.m.o.Log.Error("two agents have one name: give each its own --name",
			"agent", existing.Name, "address", existing.Address(),
			"other", net.JoinHostPort(other.Addr.String(), fmt.Sprint(other.Port)))
	})
}
