package limiter

import (
	"maps"

	"github.com/titrate/titrate/control/drc"
	"github.com/titrate/titrate/control/exchange"
)

// SetSums takes in what the other replicas claim.
func (e *Engine) SetSums(now int64, s *exchange.Sums) {
	e.admin.Lock()
	defer e.admin.Unlock()
	old := e.member.Load()
	m := newMembership(s, old.version+1)
	if m.same(old) {
		m = old
	}
	e.member.Store(m)
	e.setFlowSums(s.Flows, m)
	if m.isolation == exchange.Connected {
		e.round.Add(1) // a key not named from here on is claimed by nobody
	}
	if m.replicas <= 1 {
		return
	}
	for i := range s.Keys {
		e.hearKey(&s.Keys[i], m, now)
	}
}

// heardFlows is what the others claim of flows, by FlowKey. Each flow looks it up when
// it is next stepped.
type heardFlows struct {
	version uint64
	flows   map[uint64]drc.Sums
}

// setFlowSums keeps the sums for the flows; a flow left out is claimed by nobody
// else, unless this replica hears too little to know.
func (e *Engine) setFlowSums(sums []exchange.FlowSum, m *membership) {
	old := e.heard.Load()
	heard := make(map[uint64]drc.Sums, len(sums))
	if m.isolation != exchange.Connected {
		maps.Copy(heard, old.flows)
	}
	if m.replicas > 1 {
		for _, s := range sums {
			heard[s.Key] = drc.Sums{Claims: s.Claims, Active: s.Active, Unsaturated: s.Unsaturated}
		}
	}
	e.heard.Store(&heardFlows{old.version + 1, heard})
}

// hearKey takes in what the others do with one key. A key that they use gets
// full state here too, even one that this replica has not seen.
func (e *Engine) hearKey(k *exchange.KeySum, m *membership, now int64) {
	sums := drc.LedgerSums{
		Admitted: k.Admitted, Claims: k.Claims, Active: k.Active, Unsaturated: k.Unsaturated,
		Spent: k.Spent, Absent: m.absent, Epoch: k.Epoch,
	}
	c, ok := e.locate(k.Key)
	inUse := k.Claims > 0 || k.Active > 0 || k.Spent > 0
	if !ok && inUse {
		c, ok = e.table.obtain(k.Key, now)
	}
	if !ok || c.full() == 0 && !inUse {
		return
	}
	s := e.attach(c, k.Key, m, now, 1, false)
	if s == nil {
		return
	}
	defer s.mu.Unlock()
	s.round, s.heard = e.round.Load(), now
	if k.Claims > 0 || k.Active > 0 || k.Admitted != s.sums.Admitted || k.Epoch != s.sums.Epoch {
		e.states.touch(s, now)
	}
	if sums.Spent != s.sums.Spent {
		s.spent = now
	}
	sums.Age = float64(now-s.spent) * 1e-9
	s.hear(e.seconds(now), sums)
}

// Claims appends to c what this replica announces now; call it every period P,
// also while nobody listens: what was announced a lag ago is what may be used.
func (e *Engine) Claims(now int64, c *exchange.Claims) {
	e.work.Lock()
	defer e.work.Unlock()
	e.gather()
	m := e.member.Load()
	for _, f := range e.running {
		f.claim(e, m, now, c)
	}
	e.claimKeys(m, now, c)
}

// claimKeys announces the keys that change, and a part of those that sleep.
func (e *Engine) claimKeys(m *membership, now int64, c *exchange.Claims) {
	c.Withdrawn = e.states.withdrawals(c.Withdrawn)
	round := e.round.Load()
	awake := e.states.awake()
	stay, next := awake[:0], 0
	defer func() { e.states.stay(append(stay, awake[next:]...)) }() // also after a panic
	for _, i := range awake {
		next++
		if e.claimKey(i, m, now, round, true, c) {
			stay = append(stay, i)
		}
	}
	from, n := e.states.turn(m)
	used := uint32(e.states.used.Load()) // not 0 if n is not
	for i := range n {
		e.claimKey((from+i)%used, m, now, round, false, c)
	}
}

// claim announces a flow's claim, or its end.
func (f *flow) claim(e *Engine, m *membership, now int64, c *exchange.Claims) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.advance(e, now)
	if f.gone() {
		return
	}
	defer f.publish()
	claim := f.ctl.Publish()
	if m.replicas > 1 && (claim.Active > 0 || claim.Claim > f.trace()) {
		f.told = true
		c.Flows = append(c.Flows, exchange.FlowClaim{Key: f.key, Claim: claim.Claim, Active: claim.Active, Unsaturated: claim.Unsaturated})
		return
	}
	if f.told {
		f.told = false
		c.Withdrawn = append(c.Withdrawn, f.key)
	}
}

// claimKey announces one contended key, or gives its state back when neither this
// replica nor another has a use for it. Of those that are awake it tells whether they
// stay so; of the others it passes those over that are.
func (e *Engine) claimKey(index uint32, m *membership, now int64, round uint32, awake bool, c *exchange.Claims) bool {
	s := e.states.at(index)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.awake != awake {
		return false
	}
	s.awake = false
	if s.hash == 0 {
		return false
	}
	at := e.seconds(now)
	if s.round != round {
		s.silent(at)
	}
	if s.idle(m, now, at) {
		if s.told {
			c.Withdrawn = append(c.Withdrawn, s.hash)
		}
		e.detach(s, index, now, at)
		return false
	}
	if s.live && m.replicas > 1 {
		c.Keys = append(c.Keys, s.claim(m, at))
	}
	s.awake = awake && !s.calm(now)
	return s.awake
}

// calm tells that nothing happens to the key: nobody claims it, nobody has asked for it
// lately, and it refills slowly.
func (s *state) calm(now int64) bool {
	return !s.claims && s.limit.rate <= sleepy && s.sums.Claims == 0 && s.sums.Active == 0 && s.sums.Unsaturated == 0 && now-s.changed > lately
}

// claim returns what to announce of a live key.
func (s *state) claim(m *membership, at float64) exchange.KeyClaim {
	s.configure(s.limit, m, at)
	s.told = true
	l := s.ledger.Publish(at)
	s.claims = l.Claim > 0 || l.Active > 0
	return exchange.KeyClaim{
		Key: s.hash, Claim: l.Claim, Active: l.Active, Unsaturated: l.Unsaturated,
		Admitted: s.base + l.Admitted, Spent: l.Spent,
	}
}

// idle reports whether the state holds nothing that the compact form cannot. A
// replica that is alone again keeps no states at all.
func (s *state) idle(m *membership, now int64, at float64) bool {
	if m.replicas <= 1 {
		return true
	}
	if s.sums.Claims > 0 || s.sums.Active > 0 || s.sums.Unsaturated > 0 {
		return false
	}
	switch {
	case !s.live && s.sums.Spent > 0:
		return now-s.heard >= keepHeard
	case !s.live: // a second, for whoever is just attaching it
		return float64(now-s.heard)*1e-9 >= max(1, 2*m.lag)
	}
	return s.ledger.Idle(at)
}
