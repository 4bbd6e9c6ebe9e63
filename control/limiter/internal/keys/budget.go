package keys

import (
	"github.com/titrate/titrate/control/drc"
	"github.com/titrate/titrate/control/limiter/internal/hash"
	"github.com/titrate/titrate/control/limiter/internal/members"
)

// How many keys have a state, and what they cost.
//
// Budget. The states of all replicas hold much the same keys: the keys that any replica
// announces. Once three quarters are in use, each of N replicas gives states by its own use
// only while it has less than Contended/N. So what all replicas announce together fits
// everywhere. A key beyond the budget is counted in its slot by 1/N of the limit, which
// holds without any message between replicas:
//
//	whole       the slot counts by rate and burst until the use is worth announcing
//	fractional  there was no state for it: rate/N and max(min(1, burst), burst/N)
//
// A key that has spent more than twice as much of its burst as the least spent of a few
// others takes the state of that one. So inventing names takes no state from clients
// that are near their limits.

const (
	// lately is the time, in nanoseconds, in which a thread that has just attached a state
	// surely uses it.
	lately = int64(1e9)
	// sampled is the number of states that are compared when a state must make room.
	sampled = 16
	// ratio is the factor by which a key must have spent more of its burst than the key
	// that makes room for it. Clients that have spent alike do not displace each other.
	ratio = 2
)

// ownBudget is the number of keys to which this replica may give a state by its own use.
func (p *states) ownBudget(m *members.View) int32 {
	return max(1, p.budget/int32(min(m.Replicas, float64(p.budget))))
}

// grantState returns a state for a key that has spent such a part of its burst, 1 being
// all, here (own) or elsewhere. It is a free state, or the state of a key that has spent
// less.
func (s *Store) grantState(m *members.View, now int64, part float64, own bool) (index uint32, ok bool) {
	if p := &s.states; !own || p.inUse.Load() < p.budget/4*3 || p.own.Load() < p.ownBudget(m) {
		if index, ok = s.states.take(own); ok {
			return index, true
		}
	}
	if !s.displace(now, part, own) {
		s.stats.unpromoted.Add(1)
		return 0, false
	}
	return s.states.take(own)
}

// displace releases the state of the key that has spent the least of a few; false if
// each has spent too much to make room.
func (s *Store) displace(now int64, part float64, own bool) bool {
	end := uint64(s.states.end())
	if end == 0 {
		return false
	}
	least, at := part/ratio, int64(-1)
	for range min(sampled, end) {
		index := uint32(s.states.seed.Add(1) * hash.MulA >> 20 % end)
		if spent, ok := s.spentPart(index, now, own); ok && spent < least {
			least, at = spent, int64(index)
		}
	}
	return at >= 0 && s.makeRoom(uint32(at), now, own)
}

// spentPart returns the part of its burst that the key of a state has spent. It is not ok if the
// key cannot make room: a thread uses it now, or own asks only for keys of this replica's use.
func (s *Store) spentPart(index uint32, now int64, own bool) (part float64, ok bool) {
	st := s.states.at(index)
	if st == nil || !st.mu.TryLock() {
		return 0, false
	}
	defer st.mu.Unlock()
	return st.spentPart(s.seconds(now), now, own)
}

func (st *state) spentPart(seconds float64, now int64, own bool) (part float64, ok bool) {
	switch {
	case st.hash == 0 || own && !st.own:
		return 0, false
	case !st.counting: // how large its burst is this replica does not know
		return 0, now-st.heard > lately && !st.claimedByOthers()
	}
	st.ledger.Advance(seconds)
	return st.ledger.Spent() / max(1, st.limit.Burst), true
}

// makeRoom releases a state, unless it has become another key's meanwhile.
func (s *Store) makeRoom(index uint32, now int64, own bool) bool {
	st := s.states.at(index)
	if st == nil {
		return false
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if _, ok := st.spentPart(s.seconds(now), now, own); !ok {
		return false
	}
	s.stats.displaced.Add(1)
	if st.announced {
		s.states.withdraw(st.hash)
	}
	s.demote(st, index, now, s.seconds(now))
	return true
}

// useFraction has a compact slot count by 1/N of the limit from now on. What it has
// spent stays.
func (s slot) useFraction(key uint64, n Numbers, m *members.View, now int64) {
	tat, ok := s.lock(key)
	if !ok {
		return
	}
	defer func() { s.unlock(tat) }()
	if s.state() != 0 || s.is(fractional) {
		return
	}
	spent, own := drc.SpentAt(tat, now, n.Local(m).Rate), n.fraction(m)
	s.set(fractional)
	tat = max(tat, now+refill(min(spent, s.deepest(own)), own.Rate))
}

// useWhole has a slot count by the whole limit again: it has a state, or nothing is
// spent.
func (s slot) useWhole() {
	s.unset(fractional)
}
