package core

import (
	"cmp"
	"slices"
	"time"

	"github.com/titrate/titrate/control/exchange"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/aggregation"
	"github.com/titrate/titrate/services/agent/gossip/schedule"
	"github.com/titrate/titrate/services/agent/quotas"
	"github.com/titrate/titrate/services/agent/slots"
	"github.com/titrate/titrate/services/agent/tokens"
)

// PeerSite notes the site of another agent, before PeerAlive. Without it the agent is of the site "".
func (c *Core) PeerSite(name, site string) { c.sites[name] = site }

// PeerAlive notes that memberlist knows another agent as alive, see [schedule.Peers.Alive].
func (c *Core) PeerAlive(now time.Duration, name, address string, newLife bool, version uint8) {
	c.peers.Alive(now, name, address, newLife, version)
	pairs := 0
	if c.sites[name] != c.o.Site {
		pairs = 1 // until setOwners knows
	}
	c.peers.SetAbroad(name, pairs)
	c.peersChanged = true
	delete(c.left, name)
	if newLife {
		c.lives[name]++
	}
}

// PeerFailed notes that another agent has failed or left, see [schedule.Peers.Failed].
func (c *Core) PeerFailed(now time.Duration, name string) (inOrder bool) {
	c.peersChanged = true
	inOrder = c.peers.Failed(now, name)
	c.left[name] = inOrder
	return inOrder
}

// setOwners gives the aggregator the agents, once however many have changed.
func (c *Core) setOwners(now time.Duration) {
	if c.peersChanged {
		c.peersChanged = false
		all, back := c.peers.OwnerNames(), c.peers.Back()
		names, sites := c.bySite(all)
		for _, s := range sites {
			for _, name := range s.Agents {
				c.peers.SetAbroad(name, (1+len(names))*len(s.Agents))
			}
		}
		c.aggregator.SetOwners(now, names, back)
		c.aggregator.SetSites(now, sites, back, c.lostSites())
		if len(sites) > 0 {
			c.tokens[exchange.OfSite].Apart()
		}
		for _, name := range back { // what it was sent since is lost
			c.lives[name]++
		}
		if others := c.agents(names); !slices.Equal(others, c.alive) {
			c.alive = others
			c.tokens[exchange.OfSite].Changed(now, others, c.hasFailed)
			c.slotOwners(now)
		}
		c.setAll(now, c.agents(all))
	}
}

// agents returns the lives of other agents. A life that this agent has seen differs from all that its earlier processes
// saw.
func (c *Core) agents(names []string) []tokens.Agent {
	out := make([]tokens.Agent, len(names))
	for i, name := range names {
		out[i] = tokens.Agent{Name: name, Life: exchange.OwnerScore(exchange.OwnerHash(name)+c.lives[name],
			c.o.Incarnation)}
	}
	return out
}

// bySite returns the agents of this site, and the other sites.
func (c *Core) bySite(all []string) (here []string, others []aggregation.Site) {
	c.abroad = nil
	for _, name := range all {
		site := c.sites[name]
		if site == c.o.Site {
			here = append(here, name)
			continue
		}
		c.abroad = append(c.abroad, name)
		i, ok := slices.BinarySearchFunc(others, site, func(s aggregation.Site, name string) int {
			return cmp.Compare(s.Name, name)
		})
		if !ok {
			others = slices.Insert(others, i, aggregation.Site{Name: site})
		}
		others[i].Agents = append(others[i].Agents, name)
	}
	return here, others
}

// lostSites are the sites of which an agent has failed that has not come back at another site. A failed agent is
// remembered for longer than the claims of a site that is cut off.
func (c *Core) lostSites() map[string]bool {
	lost := map[string]bool{}
	for name, site := range c.sites {
		if c.hasFailed(name) {
			lost[site] = true
		}
	}
	return lost
}

// hasFailed reports whether an agent that is not alive has gone without a word.
func (c *Core) hasFailed(name string) bool {
	inOrder, known := c.left[name]
	return known && !inOrder
}

// Round returns the packets that are due for the other agents, at a tick of half a period or
// soon after a fresh claim or sum. It also returns the names of agents that were forgotten.
func (c *Core) Round(now time.Duration, soon bool) (out []schedule.Outgoing, forgotten []string) {
	c.run(now)
	c.setOwners(now)
	c.aggregator.SetDelay(c.peers.Delay(now), c.peers.Late(now))
	out, forgotten = c.peers.Round(now, soon, false, c.aggregator)
	for _, name := range forgotten {
		delete(c.lives, name)
		delete(c.sites, name)
		delete(c.left, name)
	}
	return out, forgotten
}

// LastRound returns the packets to send when the agent stops in order.
func (c *Core) LastRound(now time.Duration) []schedule.Outgoing {
	out, _ := c.peers.Round(now, true, true, c.aggregator)
	return out
}

// ReceivePackets takes packets, each of the agent that it names. It returns for each why it was dropped, if it was;
// the effects say whether to call Round soon.
func (c *Core) ReceivePackets(now time.Duration, packets ...*gossipv1.Packet) (drops []schedule.Drop, out Effects) {
	c.run(now)
	drops = make([]schedule.Drop, len(packets))
	soon := false
	for i, p := range packets {
		for _, d := range c.tokens {
			d.Heard(now, p.GetAgent())
		}
		switch m := p.GetTokens(); {
		case m != nil:
			c.setOwners(now)
			c.tokens[exchange.ScopeOf(m.GetGlobal())].Receive(now, p.GetAgent(), m)
			if m.GetSlots() != nil {
				c.beginSlots(now)
				c.slots.Receive(now, p.GetAgent(), slots.Decode(m.GetSlots()))
			}
			if m.GetQuotas() != nil {
				c.beginSlots(now)
				c.quotas.Receive(now, p.GetAgent(), quotas.Decode(m.GetQuotas()))
			}
			drops[i] = schedule.Accepted
		case now < c.stale:
			drops[i] = schedule.Stale
		default:
			drops[i] = c.receiveClaims(now, p)
			soon = c.peers.Pending()
		}
	}
	out = c.take()
	out.GossipSoon = out.GossipSoon || soon
	return drops, out
}

func (c *Core) receiveClaims(now time.Duration, p *gossipv1.Packet) schedule.Drop {
	from, drop := c.peers.Receive(now, p)
	if drop != schedule.Accepted {
		return drop
	}
	sender := aggregation.Sender{Agent: from.Agent, Life: from.Life, Promise: from.Promise}
	c.aggregator.Receive(now, sender, p.GetReplicas())
	if c.sites[from.Agent] == c.o.Site {
		c.aggregator.ReceiveSums(now, sender, from.Packet, p.GetSums())
	} else {
		c.aggregator.ReceiveSites(now, sender, from.Packet, p.GetSites())
	}
	c.peersChanged = c.peersChanged || p.GetLeaving()
	return drop
}

// PeerAddresses returns where other agents may be found, see [schedule.Peers.Addresses].
func (c *Core) PeerAddresses(now time.Duration) schedule.Addresses {
	return c.peers.Addresses(now)
}
