package core

import (
	"crypto/sha256"
	"encoding/binary"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
	"github.com/titrate/titrate/proto/link"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/gossip/schedule"
	"github.com/titrate/titrate/services/agent/tokens"
)

// processNumber is the process's for owners of keys: two processes of one agent have different ones. A process that
// chooses its name and generation finds none that has the number of another process.
func processNumber(p Process) uint64 {
	h := sha256.New()
	_, _ = h.Write(binary.LittleEndian.AppendUint64([]byte(p.Gateway), p.Generation)) // never fails
	return binary.LittleEndian.Uint64(h.Sum(nil))
}

// isLinked reports whether a gateway's process, by its number, has a link here.
func (c *Core) isLinked(process uint64) bool {
	g := c.processes[process]
	return g != nil && g.state == connected
}

// allowed returns what the configuration in force allows a key of an EXACT limit.
func (c *Core) allowed(name *exchange.KeyName) (key uint64, p grant.Params, ok bool) {
	if key, p, ok = c.allowedIn(false, name); ok {
		return key, p, true
	}
	if c.own == nil {
		return 0, p, false
	}
	return c.own.ExactKey(name)
}

// OwnLimits are limits of this agent besides the configuration: those of the rate limit service.
type OwnLimits interface {
	// ExactKey is as [limiter.ExactKey].
	ExactKey(name *exchange.KeyName) (key uint64, p grant.Params, ok bool)
	// Revision changes with them.
	Revision() int64
}

// SetOwnLimits is called before the first event, if at all.
func (c *Core) SetOwnLimits(own OwnLimits) { c.own = own }

// revision changes with what allowed says.
func (c *Core) revision() (sum int64) {
	if in := c.applied.Configuration(); in != nil {
		sum = in.Revision() + c.lapses.count
	}
	if c.own != nil {
		sum += c.own.Revision()
	}
	return sum
}

// logDropped logs agents whose requests for tokens were dropped.
func (c *Core) logDropped(now time.Duration) {
	all := slices.Concat(c.tokens[exchange.OfSite].Complaints(now), c.tokens[exchange.OfAll].Complaints(now))
	for _, of := range all {
		details := []any{"agent", of.Agent, "dropped", of.Count, "reason", of.Why.String()}
		if g := c.processes[of.Number]; g != nil && of.Agent == c.o.Name {
			details = append(details, "gateway", g.Gateway)
		}
		c.log(slog.LevelWarn, "requests of an agent for tokens of EXACT limits are dropped: unusable: a number is out "+
			"of its bounds; unknown: the configuration here has no such limit; processes: it names too many",
			details...)
	}
}

// TokensDue returns the time for the next TickTokens; 0: none.
func (c *Core) TokensDue() time.Duration {
	due := c.tokens[exchange.OfSite].Due()
	for _, at := range []time.Duration{c.tokens[exchange.OfAll].Due(), c.slots.Due(), c.quotas.Due()} {
		if at != 0 && (due == 0 || at < due) {
			due = at
		}
	}
	return due
}

// TickTokens does what is due for the keys of EXACT limits and of concurrency limits that this agent owns.
func (c *Core) TickTokens(now time.Duration) Effects {
	c.run(now)
	for _, d := range c.tokens {
		d.Tick(now)
	}
	c.slots.Tick(now)
	c.quotas.Tick(now)
	return c.take()
}

// sendTokens puts out the messages about tokens for gateways and other agents.
func (c *Core) sendTokens() {
	for scope, d := range c.tokens {
		answers, packets := d.Take()
		for _, number := range slices.Sorted(maps.Keys(answers)) {
			answers[number].Global = scope == exchange.OfAll
			c.answer(number, answers[number])
		}
		for _, to := range slices.Sorted(maps.Keys(packets)) {
			for _, m := range packets[to] {
				m.Global = scope == exchange.OfAll
				c.sendAgent(to, m)
			}
		}
	}
}

// answer puts out a message of an owner for a gateway here.
func (c *Core) answer(process uint64, m link.Message) {
	if g := c.processes[process]; g != nil {
		c.send(g, m)
	}
}

// answerAll puts out messages of owners for gateways here, by process.
func answerAll[M link.Message](c *Core, answers map[uint64][]M) {
	for _, number := range slices.Sorted(maps.Keys(answers)) {
		for _, m := range answers[number] {
			c.answer(number, m)
		}
	}
}

// sendAgent puts out a message of gateways and owners here for another agent.
func (c *Core) sendAgent(to string, m *gossipv1.Tokens) {
	p := &gossipv1.Packet{Agent: c.o.Name, Incarnation: c.o.Incarnation, Tokens: m}
	c.out.Packets = append(c.out.Packets, schedule.Outgoing{To: to, Packet: p})
}

// chargeSites charges the owners here what other sites have admitted.
func (c *Core) chargeSites() {
	for _, key := range c.aggregator.TakeAbroad() {
		s, used := c.aggregator.Abroad(key, c.ran)
		c.tokens[exchange.OfSite].Abroad(c.ran, key, &s, used, c.aggregator.Sites(), c.aggregator.Lag())
	}
}

// loseTokens counts what gateways without a link hold as spent.
func (c *Core) loseTokens(now time.Duration) {
	for _, number := range slices.Sorted(maps.Keys(c.processes)) { // in the same order in each run
		if g := c.processes[number]; g.state == disconnected && now-g.since >= tokens.DeadAfter {
			c.lose(now, number)
		}
	}
}
