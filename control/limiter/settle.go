package limiter

import (
	"runtime"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/drc"
)

// The cost of some requests is known only from their response, such as the
// tokens of an answer. Such a request is decided and charged by an estimate, and
// settled when the truth is known:
//
//	extra = actual − estimate
//	extra > 0   debt: later requests of the client and of the tenant pay for it
//	extra < 0   given back, to the limits at once, to the share as credit
//
// Debt is bounded, so that one wrong number does not silence a client for ever:
// each limit's key owes at most one burst beyond its empty bucket, so it is
// silent for at most 2·burst/rate; the flow owes at most debtSeconds of its
// share. What is beyond the bounds is forgiven. Reports tell the true cost
// always: the allocator must see what a tenant really uses.

// debtSeconds bounds what a flow may owe for settled costs, in seconds of its
// share.
const debtSeconds = 2

// deepest is the most that a key may have spent: its burst, and as much again as
// debt from settled costs.
func deepest(n numbers) float64 { return 2 * n.burst }

// Settle corrects the charge of a request that was admitted with r.Cost as its
// estimate: actual, in cost units, is what it has cost in truth, ≥ 0 and at most
// MaxCost; what is not a number settles nothing. Call it at most once per
// admitted request, and never for another one. It decides nothing. It returns
// the cost that the bound on debt forgave the client's limits, at most over them.
//
// Not exact, by choice: a limit that was SHADOW and would have refused the
// request was not charged its estimate, yet gets its refund; a client that had no
// key of its own at its admission (see Options.Keys) gets no refund.
func (e *Engine) Settle(now int64, r *Request, actual float64) (forgiven float64) {
	if !(actual >= 0) {
		return 0
	}
	rt, ok := e.peekRoute(r)
	if !ok {
		return 0
	}
	extra := int64(min(actual, MaxCost)*unit+0.5) - r.cost()
	if extra == 0 {
		return 0
	}
	who := r.subject()
	for _, l := range rt.limits {
		switch {
		case l.classes&who.classes == 0 || l.mode == config.Off || r.Mode == config.Off:
		case extra < 0:
			e.giveBack(l, who.under(l), now, -extra, false)
		default:
			forgiven = max(forgiven, e.owe(l, who.under(l), now, extra))
		}
	}
	for ok && rt.flow != nil && !rt.flow.settle(e, now, extra, r.Mode) {
		e.unroute(rt.flow) // it has just been freed
		rt, ok = e.peekRoute(r)
	}
	if ok && rt.flow != nil {
		rt.flow.corrected(r.Client, extra)
		e.wake(rt.flow)
	}
	return forgiven
}

// owe charges a key that cannot refuse any more, up to its debt's bound, and
// returns what is beyond.
func (e *Engine) owe(l *limit, client string, now, cost int64) (forgiven float64) {
	m := e.member.Load()
	n := m.local(l.numbers(client))
	if !(n.rate > 0) {
		return units(cost)
	}
	for {
		hash, c, _ := e.place(l, client, now)
		tat, f := c.read(hash)
		if f == full {
			if s := e.held(c, hash); s != nil {
				return e.oweFull(s, c, n, m, now, units(cost))
			}
		}
		if f != compact {
			runtime.Gosched()
			continue
		}
		by := m.counted(c, n)
		spent := min(drc.SpentAt(tat, now, by.rate), c.deepest(by))
		charged := min(units(cost), deepest(by)-spent)
		after := now + span(spent+charged, by.rate)
		if spent+charged > by.burst {
			c.indebt()
		}
		if c.tat().CompareAndSwap(tat, after) {
			if m.replicas > 1 {
				e.tell(c, hash, n, m, now, int64(charged*unit), after)
			}
			return units(cost) - charged
		}
	}
}

// oweFull charges a key with a state, which is held, and releases it.
func (e *Engine) oweFull(s *state, c cell, n numbers, m *membership, now int64, cost float64) (forgiven float64) {
	defer s.mu.Unlock()
	at := e.seconds(now)
	s.begin(c, n, m, now, at)
	s.configure(n, m, at)
	e.states.touch(s, now)
	return cost - s.ledger.Owe(at, cost, deepest(n))
}

// settle corrects what the flow was charged by extra, in fixed point. It fails when
// the flow has been freed.
func (f *flow) settle(e *Engine, now, extra int64, asked config.Mode) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone() {
		return false
	}
	f.advance(e, now)
	f.sum.demand += extra
	f.sum.served += extra
	switch free := asked != config.Enforce || f.mode != config.Enforce || f.open.Load(); {
	case extra > 0 && free:
		f.phantom(extra)
	case extra > 0:
		owed := max(0, -f.pacer.Credit())
		debt := min(units(extra), max(0, debtSeconds*f.vmax-owed))
		f.pacer.Charge(debt)
		f.ctl.Step(0, debt, f.others())
		f.phantom(extra - int64(debt*unit))
		f.reconcile()
	case !free:
		f.pacer.Add(units(-extra))
		f.reconcile()
	}
	f.publish()
	return true
}
