package limiter

import "github.com/titrate/titrate/control/config"

// The cost of some requests is known only from their response, such as the tokens of an
// answer. Such a request is decided and charged by an estimate, and its charge is
// corrected when the true cost is known:
//
//	extra = actual − estimate
//	extra > 0   debt: later requests of the client and of the tenant pay for it
//	extra < 0   given back, to the limits at once, to the share as credit
//
// Debt is bounded, so that one wrong number does not block a client forever: each limit's
// key owes at most one burst beyond its empty bucket. So it is blocked for at most
// 2·burst/rate; the flow owes at most debtSeconds of its share. What is beyond the bounds
// is forgiven. Reports always have the true cost: the allocator must see what a tenant
// really uses.

// debtSeconds bounds what a flow may owe for corrected costs, in seconds of its share.
const debtSeconds = 2

// Settle corrects a cost of a request that was admitted by an estimate: the one at a place of
// r.Costs, or at Plain. actual is the true cost, in cost units, ≥ 0 and at most MaxCost. What is
// not a number corrects nothing. Call it at most once per cost of an admitted request, and never
// for another one. It decides nothing. It returns the cost that the bound on debt forgave the
// client's limits, at most over them.
//
// Not exact, by choice: a limit that was SHADOW and would have refused the request was
// not charged its estimate, yet gets its refund. A client that had no key at its
// admission (see Options.Keys) gets no refund.
func (e *Engine) Settle(now int64, r *Request, place int, actual float64) (forgiven float64) {
	return e.settle(now, r, place, actual, true)
}

// settle is Settle. quotas: what limits with a quota were charged is corrected, too.
func (e *Engine) settle(now int64, r *Request, place int, actual float64, quotas bool) (forgiven float64) {
	by := costName(place + 1)
	if !(actual >= 0) || by >= unnamedCost {
		return 0
	}
	rt, ok := e.findRoute(r)
	if !ok {
		return 0
	}
	charged := r.costBy(by)
	extra := Micros(actual) - charged
	if extra == 0 || charged == 0 {
		return 0
	}
	if r.Mode != config.Off {
		c := newCall(now, r, rt)
		forgiven = e.correctLimits(&c, by, extra)
		if quotas {
			e.correctQuotas(&c, r.Mode, by, extra)
		}
	}
	if rt.counter(r) == by {
		e.correctFlow(now, r, rt, extra)
	}
	return forgiven
}

// correctFlow charges a request's flow the extra cost, or gives it back.
func (e *Engine) correctFlow(now int64, r *Request, rt *route, extra int64) {
	ok := true
	for ok && rt.flow != nil && !rt.flow.correct(e, now, extra, r.Mode) {
		e.unroute(rt.flow) // it has just been freed
		rt, ok = e.findRoute(r)
	}
	if ok && rt.flow != nil {
		rt.flow.correctClient(r.Client, extra)
		e.wake(rt.flow)
	}
}

// correctLimits charges the limits that count by a cost what it was more than estimated, or gives
// it back.
func (e *Engine) correctLimits(c *call, by costName, extra int64) (forgiven float64) {
	for _, l := range c.route.limits {
		if l.cost != by || !c.counts(l) {
			continue
		}
		weighed := c.weigh(l, extra)
		if e.isExact(l.exact) {
			e.oweTokens(c, l, weighed)
		}
		if extra < 0 {
			e.keys.Refund(c.keysOf(l), c.under(l), c.now, -weighed, false)
		} else if over := e.keys.Owe(c.keysOf(l), c.under(l), c.now, weighed); over > 0 {
			forgiven = max(forgiven, units(extra)-(units(weighed)-over)/c.weightOf(l))
		}
	}
	return forgiven
}

// correct corrects what the flow was charged by extra, in fixed point. It fails when the
// flow has been freed.
func (f *flow) correct(e *Engine, now, extra int64, asked config.Mode) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone() {
		return false
	}
	f.advance(e, now)
	f.report.sum.demand += extra
	f.report.sum.served += extra
	switch free := asked != config.Enforce || f.terms.mode != config.Enforce || f.credit.open.Load(); {
	case extra > 0 && free:
		f.measure(extra)
	case extra > 0:
		owed := max(0, -f.pace.pacer.Credit())
		debt := min(units(extra), max(0, debtSeconds*f.terms.vmax-owed))
		f.pace.pacer.Charge(debt)
		f.pace.controller.Step(0, debt, f.terms.others())
		f.measure(extra - int64(debt*unit))
		f.reconcile()
	case !free:
		f.pace.pacer.Add(units(-extra))
		f.reconcile()
	}
	f.publish()
	return true
}
