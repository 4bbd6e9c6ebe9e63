package keys

import (
	"maps"

	"github.com/titrate/titrate/control/drc"
	"github.com/titrate/titrate/control/limiter/internal/hash"
)

// After a change of limits Claims walks over all states. A ledger that nobody uses here counts by the new
// numbers from then on: the others rely on what it announces. Until the walks of all replicas have ended,
// what others have announced of such a key may count by the numbers before.

// keepChanged is the time for which changes are kept, in nanoseconds: replicas do not all have a change at
// once, and a walk takes 3.2 s.
const keepChanged = int64(10e9)

// changed has the limits that have changed recently, by Group.ID.
type changed struct{ groups map[uint64]*Group }

// Changed notes which limits have changed, or are made, by Group.ID. It has one caller at a time.
func (s *Store) Changed(groups map[uint64]*Group) {
	if len(groups) == 0 {
		return
	}
	if before := s.changed.Load(); before != nil {
		all := maps.Clone(before.groups)
		maps.Copy(all, groups)
		groups = all
	}
	s.changed.Store(&changed{groups})
}

// endChanged forgets changes that all states follow.
func (s *Store) endChanged(now int64) {
	if w := &s.walk; w.changed != nil && w.next >= w.end && now >= w.changedUntil {
		s.changed.CompareAndSwap(w.changed, nil)
		w.changed = nil
	}
}

// numbersOf returns what the limit of a state that counts allows now.
func (s *Store) numbersOf(st *state) Numbers {
	if g := s.changedOf(st.limit); g != nil && g.version != st.limit.version {
		return g.numbersOfKey(st.hash)
	}
	return st.limit
}

// changedOf returns the group of a limit that has changed recently; else nil.
func (s *Store) changedOf(n Numbers) *Group {
	if c := s.changed.Load(); c != nil {
		return c.groups[n.limit]
	}
	return nil
}

// newLedger returns the ledger of a key that has spent so much.
func (s *Store) newLedger(n Numbers, p drc.LedgerParams, seconds, spent float64) drc.Ledger {
	l := drc.FromSpent(p, seconds, spent)
	if s.changedOf(n) != nil {
		l.Settle(seconds)
	}
	return l
}

// numbersOfKey is Numbers for a client of which only the hash of its key is known.
func (g *Group) numbersOfKey(key uint64) Numbers {
	n := g.base
	if o, ok := g.own.Find(g.beforeReset(key)); ok && !g.perTenant {
		n = n.Of(o)
	} else if g.byKey != nil {
		if other, ok := g.byKey()[key]; ok {
			n = other
		}
	}
	n.version, n.limit = g.version, g.id
	return n
}

// beforeReset returns the hash that a key had before its client was reset.
func (g *Group) beforeReset(key uint64) uint64 {
	if g.own == nil {
		return key
	}
	for client, at := range g.resets {
		if before := g.OverrideKey(client); hash.Reset(before, at) == key {
			return before
		}
	}
	return key
}

func (g *Group) hashOverrides() map[uint64]Numbers {
	by := make(map[uint64]Numbers, len(g.overrides))
	for client, n := range g.overrides {
		by[g.Key(client)] = n
	}
	return by
}
