package core

import (
	"time"

	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/gossip/schedule"
)

// PeerAlive notes that memberlist knows another agent as alive, see [schedule.Peers.Alive].
func (c *Core) PeerAlive(now time.Duration, name, address string, newLife, usable bool) {
	c.peers.Alive(now, name, address, newLife, usable)
}

// PeerFailed notes that another agent has failed or left, see [schedule.Peers.Failed].
func (c *Core) PeerFailed(now time.Duration, name string) (inOrder bool) {
	return c.peers.Failed(now, name)
}

// Round returns what to send to the other agents, at a tick or soon after a fresh claim;
// false if nothing is due.
func (c *Core) Round(now time.Duration, soon bool) (schedule.Round, bool) {
	due, all := c.peers.Due(now, soon)
	if !due {
		return schedule.Round{}, false
	}
	return c.round(now, all, false)
}

// LastRound returns what to send when the agent stops in order.
func (c *Core) LastRound(now time.Duration) schedule.Round {
	r, _ := c.round(now, true, true)
	return r
}

func (c *Core) round(now time.Duration, all, leaving bool) (schedule.Round, bool) {
	replicas := c.aggregator.Outgoing(now)
	c.aggregator.SetDelay(c.peers.Delay(now))
	return c.peers.Round(now, replicas, all, leaving)
}

// Headers returns the headers of a round, see [schedule.Peers.Headers].
func (c *Core) Headers(now time.Duration, r schedule.Round, parts int) (headers []schedule.Header, forgotten []string) {
	return c.peers.Headers(now, r, parts)
}

// ReceivePacket takes a packet of the agent that it names; sealed says that the packet was
// authenticated. It returns why the packet was dropped, if it was.
func (c *Core) ReceivePacket(now time.Duration, p *gossipv1.Packet, sealed bool) schedule.Drop {
	life, promise, drop := c.peers.Receive(now, p, sealed)
	if drop == schedule.Accepted {
		c.aggregator.Receive(now, p.GetAgent(), life, promise, p.GetReplicas())
	}
	return drop
}

// PeerAddresses returns where other agents may be found, see [schedule.Peers.Addresses].
func (c *Core) PeerAddresses(now time.Duration) (missing, heard []string) {
	return c.peers.Addresses(now)
}
