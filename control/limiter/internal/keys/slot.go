package keys

import (
	"runtime"

	"github.com/titrate/titrate/control/drc"
	"github.com/titrate/titrate/control/limiter/internal/members"
)

// The slot protocol: which of a slot and its state counts a key. No other file
// changes a slot's state reference or sets a TAT to moved.
//
//	form       reference  state         TAT     who counts
//	compact    0          none          a time  the TAT
//	attached   i+1        not counting  a time  the TAT; the state keeps what others do
//	contended  i+1        counting      moved   the state's ledger
//
//	attach        compact → attached      a free state is given to the slot
//	startLedger   attached → contended    the ledger starts with what the TAT says
//	demote        → compact               the TAT starts with what the ledger says
//
// Rules:
//
//   - A slot's reference changes only while the mutex of that state is locked. So a thread
//     that has locked the mutex and then found that the slot refers to the state owns the
//     key until it unlocks. lockState, attach and install return a state so.
//   - A slot that refers to a state is never given to another key.
//   - attach and startLedger lock the TAT: nobody else changes it meanwhile. A panic
//     unlocks it.
//   - No two states are locked at once.

// counter counts a key now. It is the TAT of the key's slot, or a state, whose mutex is then
// locked until the caller that asked for the counter unlocks it.
type counter struct {
	slot   slot // none: the key has no slot
	key    uint64
	tat    int64
	state  *state // nil: the TAT counts
	shared bool   // the key is shared by clients beyond the budget
}

// swap changes the TAT that counts; false when it has changed meanwhile.
func (c *counter) swap(to int64) bool { return c.slot.tat().CompareAndSwap(c.tat, to) }

// obtain sets c to the counter of a client, and gives the client a slot if it has none. That
// is its own, or the shared slot of the limit when the table is full. A state that it finds
// may not count yet, see startLedger.
func (s *Store) obtain(c *counter, g *Group, client string, now int64) {
	for {
		c.key, c.slot, c.shared = s.obtainSlot(g, client, now)
		if c.look(s) && !s.renewed(c, g, client, now) {
			return
		}
		runtime.Gosched()
	}
}

// renewed renews a slot that counts by earlier numbers, and unlocks its state. It reports whether it
// did: then look again.
func (s *Store) renewed(c *counter, g *Group, client string, now int64) bool {
	if c.state != nil {
		c.tat = c.slot.tat().Load()
	}
	if c.tat == moved || !c.isOld(g, now) {
		return false
	}
	s.renew(c, g, client, now)
	if c.state != nil {
		c.state.mu.Unlock()
	}
	return true
}

// find is obtain for a key that is not given a slot. A state that it finds counts.
func (s *Store) find(c *counter, g *Group, client string, now int64, shared bool) {
	for {
		c.key, c.slot = s.findSlot(g, client, shared)
		if c.slot.b == nil {
			return
		}
		ok := c.look(s)
		if ok && s.renewed(c, g, client, now) {
			continue
		}
		if ok && c.state != nil && !c.state.counting {
			c.tat = c.slot.tat().Load()
			c.state.mu.Unlock()
			c.state, ok = nil, c.tat > moved
		}
		if ok {
			return
		}
		runtime.Gosched()
	}
}

// look finds what counts the key of a slot. False: a change is under way, or the slot is
// another key's. Then look again.
func (c *counter) look(s *Store) bool {
	c.tat, c.state = c.slot.tat().Load(), nil // before the hash, see table.go
	if c.slot.state() != 0 {
		c.state = s.lockState(c.slot, c.key)
		return c.state != nil
	}
	return c.tat != locked && c.tat != moved && c.slot.hash() == c.key
}

// lockState returns the state of a key's slot with its mutex locked, for a change; nil if there is none.
func (s *Store) lockState(at slot, key uint64) *state {
	st := s.lockToLook(at, key)
	if st != nil {
		at.unset(looked)
	}
	return st
}

// lockToLook is the same for a caller that changes nothing.
func (s *Store) lockToLook(at slot, key uint64) *state {
	for {
		ref := at.state()
		if ref == 0 {
			return nil
		}
		st := s.states.at(ref - 1)
		if st == nil {
			continue
		}
		st.mu.Lock()
		same := at.state() == ref && s.states.at(ref-1) == st
		if same && st.hash == key {
			return st
		}
		st.mu.Unlock()
		if same { // the slot is another key's
			return nil
		}
	}
}

// spentTAT is a key's use as a TAT, whatever counts it; 0 if the slot is changing.
func (s *Store) spentTAT(at slot, key uint64, now int64) int64 {
	tat := at.tat().Load()
	if tat > moved {
		return tat
	}
	st := s.lockToLook(at, key)
	if st == nil {
		return 0
	}
	defer st.mu.Unlock()
	if !st.counting {
		return at.tat().Load()
	}
	st.ledger.Advance(s.seconds(now))
	return drc.TATFor(st.ledger.Spent(), now, st.limit.Rate)
}

// attach returns the state of a key's slot with its mutex locked, and gives the slot a
// state if it has none. It returns nil when there is no state for a key that has spent such
// a part of its burst, here (own) or elsewhere. It also does when the slot is another
// key's.
func (s *Store) attach(at slot, key uint64, m *members.View, now int64, part float64, own bool) *state {
	for {
		if st := s.lockState(at, key); st != nil {
			return st
		}
		if at.hash() != key {
			return nil
		}
		index, ok := s.grantState(m, now, part, own)
		if !ok {
			return nil
		}
		if st := s.install(at, key, index, now, own); st != nil {
			return st
		}
		s.states.release(index, own)
		runtime.Gosched()
	}
}

// install has a compact slot refer to a free state and returns the state with its mutex
// locked; nil when another thread was first. A panic leaves the mutex unlocked.
func (s *Store) install(at slot, key uint64, index uint32, now int64, own bool) (installed *state) {
	base, counted := s.states.recall(key)
	st := s.states.at(index)
	st.mu.Lock()
	defer func() {
		if installed == nil {
			st.mu.Unlock()
		}
	}()
	if !refer(at, key, index) {
		return nil
	}
	st.clear(key)
	st.index, st.own, st.heard, st.spentAt = index, own, now, now
	st.base, st.counted = base, counted
	s.states.touch(st)
	at.unset(looked)
	return st
}

// refer makes a compact slot refer to a state; false when another thread was first.
func refer(at slot, key uint64, index uint32) bool {
	tat, ok := at.lock(key)
	if !ok {
		return false
	}
	first := at.state() == 0
	if first {
		at.setState(index + 1)
	}
	at.unlock(tat)
	return first
}

// startLedger has a state, which is locked, count from what its slot has counted so far.
func (s *Store) startLedger(st *state, at slot, n Numbers, m *members.View, now int64, seconds float64) {
	if st.counting {
		return
	}
	tat, _ := at.lock(st.hash)
	to := tat
	defer func() { at.unlock(to) }()
	by := countedBy(m, at, n)
	spent := drc.SpentAt(min(tat, now+refill(at.deepest(by), by.Rate)), now, by.Rate)
	st.sums.Age = float64(max(0, now-st.spentAt)) * 1e-9
	st.start(s, n, m, seconds, spent, max(0, spent-drc.SpentAt(st.counted, now, n.Rate)))
	if m.Static() { // the slot has counted by the part
		st.part = tat
	}
	at.useWhole()
	to = moved
	if st.healed != 0 || st.meetsDebt() {
		s.noteHeal(st, now)
	}
}

// demote has the slot of a state count again and releases the state, whose mutex stays
// locked.
func (s *Store) demote(st *state, index uint32, now int64, seconds float64) {
	key, admitted := st.hash, st.base
	at, tat := s.slotOf(key, index), int64(0)
	if st.counting {
		st.ledger.Advance(seconds)
		admitted += st.ledger.Admitted()
		tat = drc.TATFor(st.ledger.Spent(), now, st.limit.Rate)
		if s.view.Load().Static() { // the slot counts by the part
			tat = max(tat, st.part)
		}
		if st.ledger.Spent() > st.limit.Burst {
			at.set(inDebt)
		}
		at.setVersion(uint16(st.limit.version))
	}
	at.setState(0)
	if st.counting {
		at.unlock(tat)
	}
	own := st.own
	s.countClaimed(st.claimedByOthers(), false)
	st.clear(0)
	s.states.remember(key, retired{admitted, tat, now})
	s.states.release(index, own)
}

// lock makes a structural change exclusive and returns the TAT to store when it is done.
// It fails when the slot does not belong to the key or a state counts it.
func (s slot) lock(key uint64) (int64, bool) {
	for {
		t := s.tat().Load()
		switch {
		case t == locked:
			runtime.Gosched()
		case t == moved || s.hash() != key:
			return 0, false
		case s.tat().CompareAndSwap(t, locked):
			return t, true
		}
	}
}

// unlock ends a structural change.
func (s slot) unlock(tat int64) { s.tat().Store(tat) }

// raise moves the slot's TAT up to a time, unless something else counts the key.
func (s slot) raise(to int64) {
	for {
		t := s.tat().Load()
		if t >= to || t == locked || t == moved || s.tat().CompareAndSwap(t, to) {
			return
		}
	}
}

// obtainSlot returns the key and the slot of a client, and gives it one if need be.
func (s *Store) obtainSlot(g *Group, client string, now int64) (key uint64, at slot, shared bool) {
	if g.perTenant {
		return g.tenantKey, s.dedicated.obtain(g.tenantKey, &g.tenantSlot), false
	}
	key = g.clientKey(client)
	if at, ok := s.table.obtain(key, now); ok {
		return key, at, false
	}
	s.stats.overflow.Add(1)
	return g.overflowKey, s.dedicated.obtain(g.overflowKey, &g.overflowSlot), true
}

// findSlot returns the key and the slot of a client; none if it has no slot.
func (s *Store) findSlot(g *Group, client string, shared bool) (key uint64, at slot) {
	switch {
	case g.perTenant:
		return g.tenantKey, s.dedicated.obtain(g.tenantKey, &g.tenantSlot)
	case shared:
		return g.overflowKey, s.dedicated.obtain(g.overflowKey, &g.overflowSlot)
	}
	key = g.clientKey(client)
	at, _ = s.table.find(key)
	return key, at
}

// slotOf returns the slot that refers to a state.
func (s *Store) slotOf(key uint64, index uint32) slot {
	if at, ok := s.table.find(key); ok && at.state() == index+1 {
		return at
	}
	at, _ := s.dedicated.find(key)
	return at
}

// locate returns the slot of a key by its hash alone.
func (s *Store) locate(key uint64) (slot, bool) {
	if at, ok := s.dedicated.find(key); ok {
		return at, true
	}
	return s.table.find(key)
}
