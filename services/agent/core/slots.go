package core

import (
	"maps"
	"slices"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	agentslots "github.com/titrate/titrate/services/agent/slots"
)

// slotLimit returns how many slots the configuration in force gives a key of a concurrency limit.
func (c *Core) slotLimit(name *exchange.KeyName) (key uint64, limit int64, ok bool) {
	in := c.applied.Configuration()
	if in == nil {
		return 0, 0, false
	}
	return limiter.SlotKey(in, c.Clock(c.ran), name)
}

// slotOwners gives the owners of slots the agents of now.
func (c *Core) slotOwners(now time.Duration) {
	lives, digest := c.tokens[exchange.OfSite].Agents()
	c.slotPart(now)
	c.slots.Changed(now, lives, digest)
	c.quotas.Changed(now, lives)
}

// slotPart gives the owners of slots the number of all agents, and of those reached: a site is as a side of a cut.
func (c *Core) slotPart(now time.Duration) {
	reached, of := c.reached(now, c.abroad)
	c.slots.SetPart(now, reached, of)
	c.quotas.SetAlone(reached < of)
}

// beginSlots brings the part up to date before the first key. While there are keys, Tick does.
func (c *Core) beginSlots(now time.Duration) {
	if c.slots.Keys()+c.quotas.Keys() == 0 {
		c.slotPart(now)
	}
}

// sendSlots puts out the messages about slots for gateways and other agents.
func (c *Core) sendSlots() {
	answers, packets := c.slots.Take()
	answerAll(c, answers)
	for _, to := range slices.Sorted(maps.Keys(packets)) {
		for _, m := range agentslots.Encode(packets[to]) {
			c.sendAgent(to, &gossipv1.Tokens{Slots: m})
		}
	}
}
