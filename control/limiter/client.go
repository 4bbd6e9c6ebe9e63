package limiter

import (
	"math"
	"runtime"

	"github.com/titrate/titrate/control/drc"
)

// numbers is what a limit allows one key, in force at this replica.
type numbers struct {
	rate, burst float64
	strict      bool
}

// never is the wait for what cannot ever pass.
const never = math.MaxInt64

// refusal is the answer of the client stage.
type refusal struct {
	by     *limit // nil: all limits admit
	wait   int64  // nanoseconds until it may pass; never
	shadow *limit // the first SHADOW limit that would have refused
	charged
}

// seen is the outcome of a request that all limits admit; l is the SHADOW one that
// would have refused it, nil if there is none.
func (l *limit) seen() Outcome {
	if l == nil {
		return Outcome{}
	}
	return Outcome{Reason: ClientLimit, Shadow: true, Limit: l.name}
}

// shadowed is the outcome of a request that SHADOW let pass the tenant stage:
// what a limit has said comes first.
func shadowed(seen Outcome) Outcome {
	if seen.Shadow {
		return seen
	}
	return Outcome{Reason: TenantShare, Shadow: true, Limit: ShareName}
}

// charged says which limits of a route a request has been charged to.
type charged struct {
	taken  uint64 // bit i: limit i
	shared uint64 // bit i: and there to the overflow key
}

// hopeless reports whether waiting for the limit is no use: the wait is longer
// than its queue allows, or there is no queue.
func (r refusal) hopeless() bool {
	return !r.by.queued || r.wait > int64(r.by.queue.MaxWait)
}

// attempt says what a charge is made for. A limit that refuses counts the
// request as demand once: when it is first rejected or begins to wait.
type attempt uint8

const (
	final attempt = iota // what a limit refuses is rejected or held
	ask                  // what a limit with a queue refuses comes again, to be held
	retry                // of a held request
)

// charge takes cost from every limit of the route. When one refuses, those
// already charged are refunded: a request meets all or none.
func (e *Engine) charge(rt *route, who subject, now, cost int64, why attempt) refusal {
	var r refusal
	for i := range rt.limits {
		l := rt.limits[i]
		if l.mode == Off || l.classes&who.classes == 0 {
			continue
		}
		wait, shared, ok := e.take(l, who.under(l), now, cost, why == retry || why == ask && l.queued)
		switch {
		case ok:
			r.taken |= 1 << i
			if shared {
				r.shared |= 1 << i
			}
		case l.mode == Shadow:
			if r.shadow == nil {
				r.shadow = l
			}
		default:
			e.refund(rt, who, now, cost, r.charged)
			return refusal{by: l, wait: wait}
		}
	}
	return r
}

// refund gives back what charge has taken.
func (e *Engine) refund(rt *route, who subject, now, cost int64, c charged) {
	for i := 0; c.taken>>i != 0; i++ {
		if c.taken>>i&1 != 0 {
			l := rt.limits[i]
			e.giveBack(l, who.under(l), now, cost, c.shared>>i&1 != 0)
		}
	}
}

// place returns the key and slot of a client under a limit: its own, or the one
// that clients share when the table is full.
func (e *Engine) place(l *limit, client string, now int64) (hash uint64, c cell, shared bool) {
	if l.perTenant {
		return l.tenantKey, e.reserve(l.tenantKey, &l.tenantCell), false
	}
	hash = clientKey(l.prefix, client)
	if c, ok := e.table.obtain(hash, now); ok {
		return hash, c, false
	}
	e.stats.overflow.Add(1)
	return l.overflowKey, e.reserve(l.overflowKey, &l.overflowCell), true
}

// take charges one key. It returns how long to wait when it refuses, and
// whether the key charged is the one shared by the clients beyond the budget.
func (e *Engine) take(l *limit, client string, now, cost int64, again bool) (wait int64, shared, ok bool) {
	m := e.member.Load()
	n := m.local(l.numbers(client))
	for {
		hash, c, shared := e.place(l, client, now)
		tat := c.tat().Load()
		if full := c.full(); full != 0 {
			if wait, ok, same := e.takeFull(c, full-1, hash, n, m, now, cost, again); same {
				return wait, shared, ok
			}
			continue
		}
		if tat == locked || tat == moved || c.hash() != hash {
			runtime.Gosched()
			continue
		}
		if tat > now+span(n.burst, n.rate) { // in debt, or the limit was raised since
			if room := now + span(c.deepest(n), n.rate); tat > room {
				c.tat().CompareAndSwap(tat, room)
				continue
			}
		}
		after, ok := drc.Take(tat, now, n.rate, n.burst, units(cost))
		if !ok {
			return drc.GCRA{Rate: n.rate, Burst: n.burst}.Wait(tat, now, units(cost)), shared, false
		}
		if c.tat().CompareAndSwap(tat, after) {
			if m.replicas > 1 {
				e.tell(c, hash, n, m, now, cost, after)
			}
			return 0, shared, true
		}
	}
}

// tell promotes a key whose use is worth telling the others: so many gateways
// that each stay below these bounds stay below the limit together.
func (e *Engine) tell(c cell, hash uint64, n numbers, m *membership, now, cost, tat int64) {
	part := 1 / (2 * m.replicas)
	used := c.usage(now, cost)
	if drc.SpentAt(tat, now, n.rate) < n.burst*part && used <= n.rate*part+1 {
		return
	}
	if index, ok := e.attach(c, hash, now); ok {
		s := e.states.at(index)
		s.mu.Lock()
		if s.hash == hash && !s.live {
			e.promote(s, c, n, m, now)
		}
		s.mu.Unlock()
	}
}

// attach gives a slot full state.
func (e *Engine) attach(c cell, hash uint64, now int64) (uint32, bool) {
	if full := c.full(); full != 0 {
		return full - 1, true
	}
	index, ok := e.states.take(hash, now)
	if !ok {
		e.stats.unpromoted.Add(1)
		return 0, false
	}
	// Held, or Claims could give the state back before the slot points to it.
	s := e.states.at(index)
	s.mu.Lock()
	if s.hash != hash { // it has already
		s.mu.Unlock()
		return 0, false
	}
	tat, ok := c.lock(hash)
	if ok && c.full() == 0 {
		c.setFull(index + 1)
		c.unlock(tat)
		s.mu.Unlock()
		return index, true
	}
	full := c.full()
	if ok {
		c.unlock(tat)
	}
	s.clear(0)
	s.mu.Unlock()
	e.states.give(index, hash, 0)
	return full - 1, ok && full != 0
}

// promote moves a key from its TAT to its ledger. The state is locked.
func (e *Engine) promote(s *state, c cell, n numbers, m *membership, now int64) {
	tat, ok := c.lock(s.hash)
	if !ok {
		return
	}
	tat = min(tat, now+span(c.deepest(n), n.rate))
	s.begin(n, m, e.seconds(now), drc.SpentAt(tat, now, n.rate))
	c.unlock(moved)
}

// takeFull charges a promoted key; same is false when the state has left it.
func (e *Engine) takeFull(c cell, index uint32, hash uint64, n numbers, m *membership, now, cost int64, again bool) (wait int64, ok, same bool) {
	s := e.states.at(index)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hash != hash {
		return 0, false, false
	}
	if !s.live {
		if e.promote(s, c, n, m, now); !s.live {
			return 0, false, false
		}
	}
	at := e.seconds(now)
	s.configure(n, m, at)
	if again {
		if seconds := s.ledger.Wait(at, units(cost)); seconds > 0 {
			return nanoseconds(seconds), false, true
		}
	}
	if s.ledger.Take(at, units(cost), e.uniform(&s.random)) {
		return 0, true, true
	}
	return nanoseconds(s.ledger.Wait(at, units(cost))), false, true
}

// nanoseconds converts a wait; what does not fit is never.
func nanoseconds(seconds float64) int64 {
	if !(seconds < math.MaxInt64/2e9) {
		return never
	}
	return int64(seconds * 1e9)
}

// admits reports whether all limits of the route would admit cost now. It
// charges nothing and counts no demand.
func (e *Engine) admits(rt *route, who subject, now, cost int64) bool {
	for _, l := range rt.limits {
		if l.mode == Enforce && l.classes&who.classes != 0 && !e.wouldTake(l, who.under(l), now, cost) {
			return false
		}
	}
	return true
}

func (e *Engine) wouldTake(l *limit, client string, now, cost int64) bool {
	m := e.member.Load()
	n := m.local(l.numbers(client))
	hash, c := e.placed(l, client, false)
	if c.b == nil {
		return units(cost) <= n.burst
	}
	tat := c.tat().Load()
	if full := c.full(); full != 0 {
		s := e.states.at(full - 1)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.hash == hash && s.live {
			at := e.seconds(now)
			s.configure(n, m, at)
			return s.ledger.Wait(at, units(cost)) == 0
		}
	}
	if tat == locked || tat == moved {
		return true // in between forms: the charge itself will tell
	}
	_, ok := drc.Take(min(tat, now+span(c.deepest(n), n.rate)), now, n.rate, n.burst, units(cost))
	return ok
}

// giveBack undoes a take. A key that has lost its slot since was idle by then:
// there is nothing to give.
func (e *Engine) giveBack(l *limit, client string, now, cost int64, shared bool) {
	n := e.member.Load().local(l.numbers(client))
	for {
		hash, c := e.placed(l, client, shared)
		if c.b == nil {
			return
		}
		tat := c.tat().Load()
		if full := c.full(); full != 0 {
			done, same := e.giveBackFull(full-1, hash, now, cost)
			if done {
				return
			}
			if !same {
				continue
			}
		}
		if tat == locked || tat == moved || c.hash() != hash {
			runtime.Gosched()
			continue
		}
		if c.tat().CompareAndSwap(tat, drc.Return(tat, now, n.rate, units(cost))) {
			return
		}
	}
}

// giveBackFull refunds a promoted key. It is not done when the ledger has not
// begun: the count is still in the TAT.
func (e *Engine) giveBackFull(index uint32, hash uint64, now, cost int64) (done, same bool) {
	s := e.states.at(index)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hash != hash {
		return false, false
	}
	if s.live {
		s.refund(e.seconds(now), units(cost))
	}
	return s.live, true
}

// placed is place without taking a slot; no bucket means there is none.
func (e *Engine) placed(l *limit, client string, shared bool) (uint64, cell) {
	switch {
	case l.perTenant:
		return l.tenantKey, e.reserve(l.tenantKey, &l.tenantCell)
	case shared:
		return l.overflowKey, e.reserve(l.overflowKey, &l.overflowCell)
	}
	hash := clientKey(l.prefix, client)
	c, _ := e.table.find(hash)
	return hash, c
}

// span is the time in nanoseconds that a burst takes to refill.
func span(burst, rate float64) int64 {
	if !(rate > 0) {
		return 0
	}
	return int64(min(math.Round(burst/rate*1e9), 1<<61))
}
