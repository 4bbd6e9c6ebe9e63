package core

import (
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/titrate/titrate/services/agent/gossip/schedule"
	"github.com/titrate/titrate/services/agent/tokens"

	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
)

// processNumber is the process's for owners of keys: two processes of one agent have different ones.
func processNumber(p Process) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(p.Gateway)) // never fails
	return h.Sum64() ^ p.Generation
}

// isLinked reports whether a gateway's process, by its number, has a link here.
func (c *Core) isLinked(process uint64) bool {
	g := c.processes[process]
	return g != nil && g.state == connected
}

// TokensDue is when TickTokens has something to do; 0: nothing.
func (c *Core) TokensDue() time.Duration { return c.tokens.Due() }

// TickTokens does what is due for the keys of EXACT limits that this agent owns.
func (c *Core) TickTokens(now time.Duration) Effects {
	c.tokens.Tick(now)
	return c.take()
}

// sendTokens puts out what gateways and other agents are to be told of tokens.
func (c *Core) sendTokens() {
	answers, packets := c.tokens.Take()
	for _, number := range slices.Sorted(maps.Keys(answers)) {
		if g := c.processes[number]; g != nil {
			c.send(g, answers[number])
		}
	}
	for _, to := range slices.Sorted(maps.Keys(packets)) {
		for _, m := range packets[to] {
			p := &gossipv1.Packet{Agent: c.o.Name, Incarnation: c.o.Incarnation, Tokens: m}
			c.out.Packets = append(c.out.Packets, schedule.Outgoing{To: to, Packet: p})
		}
	}
}

// loseTokens counts what gateways without a link hold as spent.
func (c *Core) loseTokens(now time.Duration) {
	for _, number := range slices.Sorted(maps.Keys(c.processes)) { // in the same order in each run
		if g := c.processes[number]; g.state == disconnected && now-g.since >= tokens.DeadAfter {
			c.tokens.Lost(now, number)
		}
	}
}
