package aggregation

import "github.com/titrate/titrate/control/exchange"

// owners picks the owner of each key among the agents: the one with the highest score for
// the key (rendezvous hashing). When an agent comes, it takes about one key in N, from all
// others alike; when one goes, its keys are spread over the rest; no other key moves.
type owners struct {
	names  []string
	hashes []uint64
}

func (o *owners) add(name string) {
	o.names, o.hashes = append(o.names, name), append(o.hashes, exchange.OwnerHash(name))
}

// Owner returns the agent that owns a key, among those of SetOwners and this one.
func (t *Aggregator) Owner(key uint64) string { return t.owners.of(key) }

// of returns the owner of a key; there must be an agent.
func (o *owners) of(key uint64) string {
	best, most := 0, uint64(0)
	for i, h := range o.hashes {
		if s := exchange.OwnerScore(key, h); s > most {
			best, most = i, s
		}
	}
	return o.names[best]
}

// change is a step from one list of agents to another.
type change struct {
	before, now owners
	gone        map[string]bool
	joined      owners
}

func (o *owners) to(names, back []string) change {
	c := change{before: *o, gone: map[string]bool{}}
	was, again := map[string]bool{}, make(map[string]bool, len(back))
	for _, n := range back {
		again[n] = true
	}
	for _, n := range o.names {
		was[n], c.gone[n] = true, true
	}
	for _, n := range names {
		c.now.add(n)
		if !was[n] || again[n] {
			c.joined.add(n)
		}
		delete(c.gone, n)
	}
	return c
}

// of returns the owner of a key whose owner was known. It costs O(agents that joined),
// O(agents) if the owner has gone.
func (c *change) of(key uint64, owner string) string {
	if owner == "" || c.gone[owner] {
		return c.now.of(key)
	}
	most := exchange.OwnerScore(key, exchange.OwnerHash(owner))
	for i, a := range c.joined.hashes {
		if s := exchange.OwnerScore(key, a); s > most {
			owner, most = c.joined.names[i], s
		}
	}
	return owner
}
