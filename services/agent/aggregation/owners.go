package aggregation

import (
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/services/agent/owners"
)

// Owner returns the agent that owns a key, among those of SetOwners and this one.
func (t *Aggregator) Owner(key uint64) string { return t.owners.Of(key) }

// change is a step from one list of agents to another.
type change struct {
	now    owners.Agents
	gone   map[string]bool
	joined owners.Agents
}

func changeOf(before *owners.Agents, names, back []string) change {
	c := change{gone: map[string]bool{}}
	was, again := map[string]bool{}, make(map[string]bool, len(back))
	for _, n := range back {
		again[n] = true
	}
	for _, n := range before.Names {
		was[n], c.gone[n] = true, true
	}
	for _, n := range names {
		c.now.Add(n)
		if !was[n] || again[n] {
			c.joined.Add(n)
		}
		delete(c.gone, n)
	}
	return c
}

// of returns the owner of a key whose owner was known. It costs O(agents that joined),
// O(agents) if the owner has gone.
func (c *change) of(key uint64, owner string) string {
	if owner == "" || c.gone[owner] {
		return c.now.Of(key)
	}
	if name, score := c.joined.Best(key); score > exchange.OwnerScore(key, exchange.OwnerHash(owner)) {
		return name
	}
	return owner
}
