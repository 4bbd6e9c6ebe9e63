package limiter

import (
	"math"
	"runtime"

	"github.com/titrate/titrate/control/config"
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
		if l.mode == config.Off || l.classes&who.classes == 0 {
			continue
		}
		wait, shared, ok := e.take(l, who.under(l), now, cost, why == retry || why == ask && l.queued)
		switch {
		case ok:
			r.taken |= 1 << i
			if shared {
				r.shared |= 1 << i
			}
		case l.mode == config.Shadow:
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
		tat, f := c.read(hash)
		if f == full {
			if s := e.held(c, hash); s != nil {
				wait, ok := e.takeFull(s, c, n, m, now, cost, again)
				return wait, shared, ok
			}
		}
		if f != compact {
			runtime.Gosched()
			continue
		}
		if tat <= now {
			c.undivide()
		}
		by := m.counted(c, n)
		if tat > now+span(by.burst, by.rate) { // in debt, or the limit was raised since
			if room := now + span(c.deepest(by), by.rate); tat > room {
				c.tat().CompareAndSwap(tat, room)
				continue
			}
		}
		after, ok := drc.Take(tat, now, by.rate, by.burst, units(cost))
		if !ok {
			return drc.GCRA{Rate: by.rate, Burst: by.burst}.Wait(tat, now, units(cost)), shared, false
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
// that each stay below these bounds stay below the limit together. A key for which
// there is no state is held to its part of the limit.
func (e *Engine) tell(c cell, hash uint64, n numbers, m *membership, now, cost, tat int64) {
	part := 1 / (2 * m.replicas)
	used := c.usage(now, cost)
	by := m.counted(c, n)
	spent := drc.SpentAt(tat, now, by.rate)
	if spent < n.burst*part && used <= n.rate*part+1 {
		return
	}
	share := spent / max(1, by.burst)
	if _, named := e.named(hash); named {
		share = math.Inf(1) // of a tenant as a whole: of these there are few, and many clients depend on each
	}
	if s := e.attach(c, hash, m, now, share, true); s != nil {
		defer s.mu.Unlock()
		s.begin(c, n, m, now, e.seconds(now))
		e.states.touch(s, now)
		return
	}
	c.divide(hash, n, m, now)
}

// takeFull charges a key with a state, which is held, and releases it.
func (e *Engine) takeFull(s *state, c cell, n numbers, m *membership, now, cost int64, again bool) (wait int64, ok bool) {
	defer s.mu.Unlock()
	at := e.seconds(now)
	s.begin(c, n, m, now, at)
	s.configure(n, m, at)
	e.states.touch(s, now)
	if again {
		if seconds := s.ledger.Wait(at, units(cost)); seconds > 0 {
			return nanoseconds(seconds), false
		}
	}
	if s.ledger.Take(at, units(cost), e.uniform(&s.random)) {
		return 0, true
	}
	return nanoseconds(s.ledger.Wait(at, units(cost))), false
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
		if l.mode == config.Enforce && l.classes&who.classes != 0 && !e.wouldTake(l, who.under(l), now, cost) {
			return false
		}
	}
	return true
}

func (e *Engine) wouldTake(l *limit, client string, now, cost int64) bool {
	m := e.member.Load()
	n := m.local(l.numbers(client))
	c, tat, s := e.find(l, client, false)
	if s != nil {
		defer s.mu.Unlock()
		at := e.seconds(now)
		s.configure(n, m, at)
		return s.ledger.Wait(at, units(cost)) == 0
	}
	if c.b == nil {
		return units(cost) <= n.burst
	}
	n = m.counted(c, n)
	_, ok := drc.Take(min(tat, now+span(c.deepest(n), n.rate)), now, n.rate, n.burst, units(cost))
	return ok
}

// giveBack undoes a take. A key that has lost its slot since was idle by then:
// there is nothing to give.
func (e *Engine) giveBack(l *limit, client string, now, cost int64, shared bool) {
	m := e.member.Load()
	n := m.local(l.numbers(client))
	for {
		c, tat, s := e.find(l, client, shared)
		switch {
		case s != nil:
			defer s.mu.Unlock()
			s.refund(e.seconds(now), units(cost))
			e.states.touch(s, now)
			return
		case c.b == nil || c.tat().CompareAndSwap(tat, drc.Return(tat, now, m.counted(c, n).rate, units(cost))):
			return
		}
	}
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
