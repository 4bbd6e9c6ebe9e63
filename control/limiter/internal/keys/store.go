package keys

import (
	"math"
	"sync/atomic"

	"github.com/titrate/titrate/control/drc"
	"github.com/titrate/titrate/control/limiter/internal/fixed"
	"github.com/titrate/titrate/control/limiter/internal/hash"
	"github.com/titrate/titrate/control/limiter/internal/members"
)

// Store counts the keys of all limits at one replica. Its methods may be called from any
// thread, but for Claims and FreeIdle: one caller at a time.
type Store struct {
	table     table
	dedicated dedicated
	states    states
	stats     counts
	view      *atomic.Pointer[members.View]
	hearing   hearing
	repeat    atomic.Bool
	changed   atomic.Pointer[changed] // nil: no limit has changed recently
	walk      walk                    // Claims alone uses it
	rand      func() float64
	start     int64
}

type counts struct{ overflow, unpromoted, displaced, delayed atomic.Uint64 }

// Options are fixed for a store's life.
type Options struct {
	Keys      int                           // keys that the table has room for
	Contended int                           // states, at most MaxContended
	View      *atomic.Pointer[members.View] // of the other replicas, never nil
	Rand      func() float64                // uniform in [0,1); nil: a generator per key
	Start     int64                         // nanoseconds, not after the first time given
}

// Init allocates the table of a store.
func (s *Store) Init(o Options) {
	s.table = newTable(o.Keys)
	s.states.init(o.Contended)
	s.states.wakes.start = o.Start
	s.view, s.rand, s.start = o.View, o.Rand, o.Start
}

// seconds converts the caller's nanoseconds to the ledgers' seconds.
func (s *Store) seconds(now int64) float64 { return float64(now-s.start) * 1e-9 }

// uniform returns a random number in [0,1).
func (s *Store) uniform(generator *uint64) float64 {
	if s.rand != nil {
		return s.rand()
	}
	return hash.Uniform(generator)
}

// Take charges a client's key. It returns how long to wait when the key refuses, and
// whether the key is the one shared by the clients beyond the budget. probe asks before
// it charges: a refusal then counts no demand.
func (s *Store) Take(g *Group, client string, now, cost int64, probe bool) (wait int64, shared, ok bool) {
	return s.take(g, client, now, cost, probe, false)
}

// take is Take. owned: a token of the key's owner has paid already.
func (s *Store) take(
	g *Group, client string, now, cost int64, probe, owned bool,
) (wait int64, shared, ok bool) {
	m := s.view.Load()
	n := g.Numbers(client)
	var c counter
	for {
		s.obtain(&c, g, client, now)
		if c.state != nil {
			wait, ok := s.takeContended(&c, n, m, now, cost, probe, owned)
			return wait, c.shared, ok
		}
		if c.tat <= now {
			c.slot.useWhole()
		}
		by := countedBy(m, c.slot, n)
		if c.tat > now+refill(by.Burst, by.Rate) { // in debt, or counted by numbers that are not known
			if room := now + refill(c.slot.deepest(by), by.Rate); c.tat > room {
				c.swap(room)
				continue
			}
		}
		after, ok := drc.Take(c.tat, now, by.Rate, by.Burst, fixed.Units(cost))
		if !ok {
			return drc.GCRA{Rate: by.Rate, Burst: by.Burst}.Wait(c.tat, now, fixed.Units(cost)), c.shared, false
		}
		if c.swap(after) {
			if m.Replicas > 1 {
				s.promoteIfBusy(c.slot, c.key, n, m, now, cost, after, owned)
			}
			return 0, c.shared, true
		}
	}
}

// takeContended charges a key with a state, and unlocks the state.
func (s *Store) takeContended(
	c *counter, n Numbers, m *members.View, now, cost int64, probe, owned bool,
) (wait int64, ok bool) {
	st, seconds, units := c.state, s.seconds(now), fixed.Units(cost)
	defer st.mu.Unlock()
	s.count(st, c.slot, n, m, now, seconds)
	st.owned = owned
	if probe {
		if wait := st.wait(n, m, now, seconds, units); wait > 0 {
			return wait, false
		}
	}
	if st.endCut(m); st.isCutOff(m) {
		if st.takeCutOff(n, m, now, seconds, units, s.uniform(&st.random)) {
			return 0, true
		}
	} else if st.ledger.Take(seconds, units, s.uniform(&st.random)) {
		return 0, true
	}
	return st.wait(n, m, now, seconds, units), false
}

// count has a state, which is locked, count its key by the numbers of now.
func (s *Store) count(st *state, at slot, n Numbers, m *members.View, now int64, seconds float64) {
	s.startLedger(st, at, n, m, now, seconds)
	st.configure(n, m, now, seconds)
	s.goOn(st, now)
	s.states.touch(st)
}

// promoteIfBusy gives a key a state when its use is worth announcing: many gateways that
// each stay below these bounds stay below the limit together. A key for which there is
// no state is held to its part of the limit.
func (s *Store) promoteIfBusy(
	at slot, key uint64, n Numbers, m *members.View, now, cost, tat int64, owned bool,
) {
	part := 1 / (2 * m.Replicas)
	used := at.addRecent(now, cost)
	by := countedBy(m, at, n)
	spent := drc.SpentAt(tat, now, by.Rate)
	if spent < n.Burst*part && used <= n.Rate*part+1 {
		return
	}
	share := spent / max(1, by.Burst)
	if _, ok := s.dedicated.find(key); ok {
		share = math.Inf(1) // there are few of these keys, and many clients depend on each
	}
	if st := s.attach(at, key, m, now, share, true); st != nil {
		defer st.mu.Unlock()
		s.startLedger(st, at, n, m, now, s.seconds(now))
		st.owned = owned
		s.states.touch(st)
		return
	}
	at.useFraction(key, n, m, now)
}

// Refund undoes a Take. A key that has lost its slot since then had its whole burst
// again: there is nothing to give back.
func (s *Store) Refund(g *Group, client string, now, cost int64, shared bool) {
	m := s.view.Load()
	n := g.Numbers(client)
	var c counter
	for {
		s.find(&c, g, client, now, shared)
		switch {
		case c.state != nil:
			defer c.state.mu.Unlock()
			c.state.refund(m, now, s.seconds(now), fixed.Units(cost))
			s.states.touch(c.state)
			return
		case c.slot.b == nil || c.swap(drc.Return(c.tat, now, countedBy(m, c.slot, n).Rate, fixed.Units(cost))):
			return
		}
	}
}

// Mirror charges a key with what its owner has admitted. It counts for the other replicas too, up to the debt that
// sums of others may bring.
func (s *Store) Mirror(g *Group, client string, now, cost int64) (shared bool) {
	_, shared, ok := s.take(g, client, now, cost, false, true)
	if !ok {
		s.owe(g, client, now, cost, true)
	}
	return shared
}

// Owe charges a key that cannot refuse any more, up to the bound of its debt, and
// returns the cost beyond the bound.
func (s *Store) Owe(g *Group, client string, now, cost int64) (forgiven float64) {
	return s.owe(g, client, now, cost, false)
}

// owe is Owe, or Mirror of what Take refuses.
func (s *Store) owe(g *Group, client string, now, cost int64, mirror bool) (forgiven float64) {
	m := s.view.Load()
	n := g.Numbers(client)
	if !(n.Rate > 0) {
		return fixed.Units(cost)
	}
	var c counter
	for {
		s.obtain(&c, g, client, now)
		if c.state != nil {
			return s.oweContended(&c, n, m, now, fixed.Units(cost), mirror)
		}
		by := countedBy(m, c.slot, n)
		spent := min(drc.SpentAt(c.tat, now, by.Rate), c.slot.deepest(by))
		charged := min(fixed.Units(cost), deepestDebt(by)-spent)
		after := now + refill(spent+charged, by.Rate)
		if spent+charged > by.Burst {
			c.slot.set(inDebt)
		}
		if c.swap(after) {
			if m.Replicas > 1 {
				s.promoteIfBusy(c.slot, c.key, n, m, now, int64(charged*unit), after, mirror)
			}
			return fixed.Units(cost) - charged
		}
	}
}

// oweContended is owe for a key with a state; it unlocks the state.
func (s *Store) oweContended(
	c *counter, n Numbers, m *members.View, now int64, cost float64, mirror bool,
) (forgiven float64) {
	st, seconds := c.state, s.seconds(now)
	defer st.mu.Unlock()
	s.count(st, c.slot, n, m, now, seconds)
	st.owned = mirror
	switch {
	case st.isCutOff(m):
		st.oweCutOff(n, m, now, cost)
	case mirror && st.sums.Gap == 0 && (st.healed == 0 || now-st.healed >= reportWithin):
		// The owner decides, and no gateway is unreachable. What was assumed of a gateway that came back after T2 is no
		// debt.
		st.ledger.Forgive(seconds, st.ledger.Top())
	}
	deepest := deepestDebt(n)
	if mirror && !n.Strict { // a STRICT ledger refills less while members are absent, and its owner does not
		deepest = max(deepest, st.ledger.Deepest())
	}
	return cost - st.ledger.Owe(seconds, cost, deepest)
}

// WouldTake reports whether Take would admit now. It charges nothing and counts no
// demand.
func (s *Store) WouldTake(g *Group, client string, now, cost int64) bool {
	m := s.view.Load()
	n := g.Numbers(client)
	var c counter
	s.find(&c, g, client, now, false)
	if st := c.state; st != nil {
		defer st.mu.Unlock()
		seconds := s.seconds(now)
		st.configure(n, m, now, seconds)
		s.goOn(st, now)
		return st.wait(n, m, now, seconds, fixed.Units(cost)) == 0
	}
	if c.slot.b == nil {
		return fixed.Units(cost) <= n.Local(m).Burst
	}
	n = countedBy(m, c.slot, n)
	_, ok := drc.Take(c.cappedTAT(n, now), now, n.Rate, n.Burst, fixed.Units(cost))
	return ok
}

// Burst is the most that a client's idle key can take at once, in cost units.
func (s *Store) Burst(g *Group, client string) float64 {
	return g.Numbers(client).Local(s.view.Load()).Burst
}

// cappedTAT is the TAT, at most where the numbers let it be.
func (c *counter) cappedTAT(n Numbers, now int64) int64 {
	return min(c.tat, now+refill(c.slot.deepest(n), n.Rate))
}

// Usage is a client's use of a limit.
type Usage struct {
	Limit Numbers // of all replicas together
	Local Numbers // that this replica goes by
	Spent float64 // of Local.Burst, cost units
	Known float64 // the part of Spent that was certainly admitted, see [drc.Ledger.Known]
	Wait  int64   // nanoseconds until the cost asked about may pass; Never
}

// Usage returns what a client has used, and how long cost would have to wait. It charges
// nothing and counts no demand.
func (s *Store) Usage(g *Group, client string, now, cost int64) Usage {
	m := s.view.Load()
	u := Usage{Limit: g.Numbers(client)}
	u.Local = u.Limit.Local(m)
	var c counter
	s.find(&c, g, client, now, false)
	if st := c.state; st != nil {
		defer st.mu.Unlock()
		seconds := s.seconds(now)
		st.configure(u.Limit, m, now, seconds)
		s.goOn(st, now)
		st.ledger.Advance(seconds)
		u.Spent, u.Wait = st.spent(u.Limit, m, now), st.wait(u.Limit, m, now, seconds, fixed.Units(cost))
		u.Known = min(u.Spent, st.ledger.Known())
		return u
	}
	by := countedBy(m, c.slot, u.Limit)
	gcra := drc.GCRA{Rate: by.Rate, Burst: by.Burst}
	if c.slot.b == nil {
		u.Wait = gcra.Wait(now, now, fixed.Units(cost))
		return u
	}
	tat := c.cappedTAT(by, now)
	u.Spent, u.Wait = u.Local.Burst-by.Burst+drc.SpentAt(tat, now, by.Rate), gcra.Wait(tat, now, fixed.Units(cost))
	u.Known = u.Spent
	return u
}

// Delay is the time in nanoseconds that a client's limit takes to admit cost at the rate
// that this replica may count on. That rate is its fair part among the replicas that use
// the key.
func (s *Store) Delay(g *Group, client string, now, cost int64) int64 {
	n := g.Numbers(client).Local(s.view.Load())
	return refill(fixed.Units(cost), n.Rate*s.fairPart(g, client, now))
}

func (s *Store) fairPart(g *Group, client string, now int64) float64 {
	var c counter
	s.find(&c, g, client, now, false)
	if c.state == nil {
		return 1
	}
	defer c.state.mu.Unlock()
	fair, _ := c.state.ledger.Shares()
	return fair
}

// Others returns what the other replicas do with a client's key, and the part of the
// limit that is fair for this replica; not ok: the key is not contended.
func (s *Store) Others(g *Group, client string) (sums drc.LedgerSums, fair float64, ok bool) {
	key, at := s.findSlot(g, client, false)
	if at.b == nil {
		return sums, 1, false
	}
	st := s.lockState(at, key)
	if st == nil {
		return sums, 1, false
	}
	defer st.mu.Unlock()
	fair = 1
	if st.counting {
		fair, _ = st.ledger.Shares()
	}
	return st.sums, fair, true
}

// Stats are counters since the start and gauges of now.
type Stats struct {
	Capacity  int    // keys that the table has room for
	Contended int    // keys with a state
	Budget    int    // the most of them
	Own       int    // of them by this replica's own use
	Dedicated int    // keys with a slot outside the table
	Overflow  uint64 // requests counted by a key that clients beyond the budget share
	// Unpromoted counts requests and news of keys for which there was no state, and
	// Displaced keys that made room for another one.
	Unpromoted, Displaced uint64
	Delayed               uint64 // visits of keys that had to wait for a later Claims, see mostVisits
}

// Stats returns the counters.
func (s *Store) Stats() Stats {
	return Stats{
		Capacity: len(s.table.buckets) * slotsPerBucket, Contended: int(s.states.inUse.Load()),
		Budget: int(s.states.budget), Delayed: s.stats.delayed.Load(),
		Own: int(s.states.own.Load()), Dedicated: s.dedicated.len(),
		Overflow: s.stats.overflow.Load(), Unpromoted: s.stats.unpromoted.Load(), Displaced: s.stats.displaced.Load(),
	}
}

// Live counts the keys that have spent something at now. O(table).
func (s *Store) Live(now int64) int { return s.table.live(now) }
