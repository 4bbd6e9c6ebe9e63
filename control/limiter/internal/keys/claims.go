package keys

import (
	"github.com/titrate/titrate/control/drc"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter/internal/members"
)

// SetSums takes in what the other replicas do with keys. A key that they use gets a
// state here, too, even one that this replica has not seen. When complete, a key that is
// not named from here on is claimed by nobody else.
func (s *Store) SetSums(now int64, sums []exchange.KeySum, complete bool) {
	m := s.view.Load()
	if complete {
		s.round.Add(1)
	}
	if m.Replicas <= 1 {
		return
	}
	for i := range sums {
		s.hear(&sums[i], m, now)
	}
}

func (s *Store) hear(k *exchange.KeySum, m *members.View, now int64) {
	sums := drc.LedgerSums{
		Admitted: k.Admitted, Claims: k.Claims, Active: k.Active, Unsaturated: k.Unsaturated,
		Spent: k.Spent, Absent: m.Absent, Epoch: k.Epoch,
	}
	at, ok := s.locate(k.Key)
	inUse := k.Claims > 0 || k.Active > 0 || k.Spent > 0
	if !ok && inUse {
		at, ok = s.table.obtain(k.Key, now)
	}
	if !ok || at.state() == 0 && !inUse {
		return
	}
	st := s.attach(at, k.Key, m, now, 1, false)
	if st == nil {
		return
	}
	defer st.mu.Unlock()
	st.round, st.heard = s.round.Load(), now
	if k.Claims > 0 || k.Active > 0 || k.Admitted != st.sums.Admitted || k.Epoch != st.sums.Epoch {
		s.states.touch(st, now)
	}
	if sums.Spent != st.sums.Spent {
		st.spentAt = now
	}
	sums.Age = float64(now-st.spentAt) * 1e-9
	st.hear(s.seconds(now), sums)
}

// Claims appends to c the keys that change, and a part of those that sleep.
func (s *Store) Claims(now int64, c *exchange.Claims) {
	m := s.view.Load()
	c.Withdrawn = s.states.withdrawals(c.Withdrawn)
	round := s.round.Load()
	awake := s.states.takeAwake()
	stay, next := awake[:0], 0
	defer func() { s.states.keepAwake(append(stay, awake[next:]...)) }() // also after a panic
	for _, i := range awake {
		next++
		if s.claim(i, m, now, round, true, c) {
			stay = append(stay, i)
		}
	}
	from, n := s.states.refreshRange(m)
	used := uint32(s.states.used.Load()) // not 0 if n is not
	for i := range n {
		s.claim((from+i)%used, m, now, round, false, c)
	}
}

// claim announces one contended key, or releases its state when neither this replica nor
// another has a use for it. It skips a state that is not awake as asked for, and reports
// whether an awake one stays awake.
func (s *Store) claim(index uint32, m *members.View, now int64, round uint32, awake bool, c *exchange.Claims) bool {
	st := s.states.at(index)
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.awake != awake {
		return false
	}
	st.awake = false
	if st.hash == 0 {
		return false
	}
	seconds := s.seconds(now)
	if st.round != round {
		st.hearNothing(seconds)
	}
	if st.idle(m, now, seconds) {
		if st.announced {
			c.Withdrawn = append(c.Withdrawn, st.hash)
		}
		s.demote(st, index, now, seconds)
		return false
	}
	if st.counting && m.Replicas > 1 {
		c.Keys = append(c.Keys, st.claim(m, seconds))
	}
	st.awake = awake && !st.calm(now)
	return st.awake
}

// claim returns what to announce of a key that a ledger counts.
func (st *state) claim(m *members.View, seconds float64) exchange.KeyClaim {
	st.configure(st.limit, m, seconds)
	st.announced = true
	l := st.ledger.Publish(seconds)
	st.claims = l.Claim > 0 || l.Active > 0
	return exchange.KeyClaim{
		Key: st.hash, Claim: l.Claim, Active: l.Active, Unsaturated: l.Unsaturated,
		Admitted: st.base + l.Admitted, Spent: l.Spent,
	}
}

// calm reports whether nothing happens to the key: no replica claims it, nobody has asked
// for it lately, and it refills slowly.
func (st *state) calm(now int64) bool {
	return !st.claims && st.limit.Rate <= sleepy && !st.claimedByOthers() && now-st.changed > lately
}

// idle reports whether the state holds nothing that its slot cannot. A replica that is
// alone again keeps no states at all.
func (st *state) idle(m *members.View, now int64, seconds float64) bool {
	if m.Replicas <= 1 {
		return true
	}
	if st.sums.Claims > 0 || st.sums.Active > 0 || st.sums.Unsaturated > 0 {
		return false
	}
	switch {
	case !st.counting && st.sums.Spent > 0:
		return now-st.heard >= keepHeard
	case !st.counting: // a second, for a thread that is just attaching it
		return float64(now-st.heard)*1e-9 >= max(1, 2*m.Lag)
	}
	return st.ledger.Idle(seconds)
}
