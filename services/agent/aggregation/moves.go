package aggregation

import (
	"slices"
	"time"

	"github.com/titrate/titrate/services/agent/owners"
)

// Agents that go to another site, and sites that end. What an agent has claimed at its former site ends there, and the
// next owner there claims what is left of its sums.

// handover is the time for the next owner of a key to claim it, after the owner went to another site.
const handover = 2 * time.Second

// disownAgent forgets what an agent has claimed while it was of this site: it is of another one now.
func (t *Aggregator) disownAgent(now time.Duration, agent string) {
	for _, p := range slices.Clone(t.sortedRemotes()) {
		if p.agent == agent {
			t.removeRemote(p.name)
			t.release(now, p.name)
		}
	}
}

// orphan notes the claims of owners that are not of a site any more.
func (t *Aggregator) orphan(now time.Duration, s *site) {
	for _, u := range s.uses.values {
		if u.used && u.orphaned == 0 && !slices.Contains(s.owners.Names, u.from.agent) {
			u.orphaned, s.orphans = now, true
		}
	}
}

// endOrphans ends the claims that no other owner has confirmed. If their owner is of another site now, they end after
// handover, else after T2, as do claims of a gateway that is unreachable.
func (t *Aggregator) endOrphans(now time.Duration, s *site) {
	if !s.orphans || len(s.owners.Names) == 0 {
		return
	}
	s.orphans = false
	for _, u := range s.uses.values {
		if u.orphaned == 0 {
			continue
		}
		after := t.o.T2
		if at := t.siteOf[u.from.agent]; at != nil && at != s || slices.Contains(t.owners.Names, u.from.agent) {
			after = handover
		}
		if now-u.orphaned < after {
			s.orphans = true
			continue
		}
		u.orphaned, u.used = 0, false
		t.endProxy(now, s, u.Key, u)
	}
}

// endSite ends all that a site claims.
func (t *Aggregator) endSite(now time.Duration, s *site) {
	for _, u := range s.uses.values {
		t.endProxy(now, s, u.Key, u)
	}
	for name, at := range t.siteOf {
		if at == s {
			delete(t.siteOf, name)
		}
	}
	s.owners, s.queue, s.uses = owners.Agents{}, [2][]uint64{}, newOrdered[*siteUse]()
	s.ended, s.silent = max(now, 1), false
}
