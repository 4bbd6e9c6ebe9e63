package limiter

import (
	"sync/atomic"

	"github.com/titrate/titrate/control/budget"
	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/limiter/internal/keys"
)

// The client stage: every limit of the tenant that holds for the request's pool and
// class is charged, or none is.

// limit is a config.Limit compiled.
type limit struct {
	tenant    string
	name      string
	mode      config.Mode
	strict    bool
	perTenant bool
	queued    bool
	queue     config.Queue
	pools     []string
	identity  uint8  // where it finds its client
	classes   uint64 // that it applies to
	keys      keys.Group
	plans     map[string]*keys.Group // of requests that name a plan; nil: it has none
	planAt    uint8                  // where it finds that name, as identity
	bounds    *bounds                // of the rate that a request states; nil: it states none
	rateAt    uint8                  // where it finds that rate, as identity
	part      budget.ID              // of the budgets of EXACT keys
	cost      costName               // that it counts,
	plain     bool                   // which is the plain one, without weights,
	counted   string                 // and the cost's name
	exact     exactness
	slots     *slotNumbers               // of a concurrency limit; nil: it is none
	quota     *quotaNumbers              // of a limit with a quota; nil: it has none
	own       *config.Overrides          // of its slots or amounts, by key; those of rates are in keys
	begun     *atomic.Int64              // when a change of configuration made it EXACT; 0: not used since; nil: none
	tally     atomic.Pointer[limitTally] // once it did not let a request pass at once
}

// ownOf returns the override of a client that is apart from the limit.
func (l *limit) ownOf(client string) (config.Override, bool) {
	if l.own == nil {
		return config.Override{}, false
	}
	return l.own.Find(l.keys.OverrideKey(client))
}

// call is one request on its way through the stages.
type call struct {
	now, cost int64 // cost counts for the pool
	route     *route
	price     // what limits count
	subject
	paid charged // by tokens, see exact.go
	held bool    // it has waited for an owner, and is counted as waited
}

func newCall(now int64, r *Request, rt *route) call {
	p := price{r.cost(), r.Costs}
	return call{now: now, cost: p.at(rt), route: rt, price: p,
		subject: subject{r.Client, r.Identities, uint64(r.Classes) | every}}
}

// refusal is the answer of the client stage.
type refusal struct {
	by     *limit // nil: all limits admit
	wait   int64  // nanoseconds until it may pass; keys.Never
	shadow *limit // the first SHADOW limit that would have refused
	charged
}

// charged says which limits of a route a request has been charged to.
type charged struct {
	limits   uint64 // bit i: limit i
	overflow uint64 // bit i: and there to the key that clients beyond the budget share
}

// isFinal reports whether waiting for the limit is no use: the wait is longer than its
// queue allows, or there is no queue.
func (r refusal) isFinal() bool { return !r.by.queued || r.wait > int64(r.by.queue.MaxWait) }

// attempt says what a charge is made for. A limit that refuses counts the request as
// demand once: when it is first rejected or begins to wait.
type attempt uint8

const (
	decisive attempt = iota // what a limit refuses is rejected or held
	first                   // what a limit with a queue refuses comes again, to be held
	again                   // of a held request
)

// charge takes cost from every limit of the route that is not paid by tokens. When one
// refuses, those already charged are refunded: a request is charged to all or none.
func (e *Engine) charge(c *call, why attempt) refusal {
	var r refusal
	for i, l := range c.route.limits {
		if !c.counts(l) || c.paid.limits>>i&1 != 0 {
			continue
		}
		probe := why == again || why == first && l.queued
		wait, shared, ok := e.keys.Take(c.keysOf(l), c.under(l), c.now, c.costOf(l), probe)
		switch {
		case ok:
			r.limits |= 1 << i
			if shared {
				r.overflow |= 1 << i
			}
			if e.isExact(l.exact) {
				e.oweTokens(c, l, c.costOf(l))
			}
		case l.mode == config.Shadow:
			if r.shadow == nil {
				r.shadow = l
			}
		default:
			e.refund(c, r.charged)
			return refusal{by: l, wait: wait}
		}
	}
	return r
}

// refund gives back what charge has taken.
func (e *Engine) refund(c *call, ch charged) {
	for i := 0; ch.limits>>i != 0; i++ {
		if ch.limits>>i&1 != 0 {
			l := c.route.limits[i]
			e.keys.Refund(c.keysOf(l), c.under(l), c.now, c.costOf(l), ch.overflow>>i&1 != 0)
			if e.isExact(l.exact) {
				e.oweTokens(c, l, -c.costOf(l))
			}
		}
	}
}

// limitsAdmit reports whether all limits of the route would admit the request now. It
// charges nothing and counts no demand.
func (e *Engine) limitsAdmit(c *call) bool {
	for i, l := range c.route.limits {
		if c.paid.limits>>i&1 != 0 {
			continue
		}
		if l.mode == config.Enforce && c.counts(l) && !e.keys.WouldTake(c.keysOf(l), c.under(l), c.now, c.costOf(l)) {
			return false
		}
	}
	return true
}

// chargeWatched charges the limits that admit a request and names the first that would
// have refused it.
func (e *Engine) chargeWatched(c *call) (out Outcome) {
	for _, l := range c.route.limits {
		if !c.counts(l) {
			continue
		}
		wait, _, ok := e.keys.Take(c.keysOf(l), c.under(l), c.now, c.costOf(l), false)
		if ok && e.isExact(l.exact) {
			e.oweTokens(c, l, c.costOf(l))
		}
		if !ok && !out.Shadow {
			e.setShadow(l, &out)
			out.RetryAfter = retryAfter(wait)
		}
	}
	return out
}

// countDemand counts a request as demand on a limit that is not asked to admit it yet,
// because earlier requests of the client wait. What the replica claims must include it.
func (e *Engine) countDemand(c *call, l *limit) {
	client, cost := c.under(l), c.costOf(l)
	if _, shared, ok := e.keys.Take(c.keysOf(l), client, c.now, cost, false); ok {
		e.keys.Refund(c.keysOf(l), client, c.now, cost, shared)
	}
}

// setShadow sets the outcome of a request that all limits admit, and counts it; l is the
// SHADOW limit that would have refused it, nil if there is none.
func (e *Engine) setShadow(l *limit, out *Outcome) {
	if l != nil {
		e.count(l, didShadow)
		out.Reason, out.Shadow, out.Limit = ClientLimit, true, l.name
	}
}
