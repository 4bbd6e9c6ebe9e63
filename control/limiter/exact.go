package limiter

import (
	"slices"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
	"github.com/titrate/titrate/control/limiter/internal/keys"
	"github.com/titrate/titrate/control/limiter/internal/tokens"
)

// EXACT limits. The key of such a limit has one bucket, which its owner among the agents
// keeps (packages grant and tokens). A request pays these limits first, with tokens, limit
// by limit, and then goes the way of all requests:
//
//	Decide ──► pay ──► decide                         a token was here
//	   │ Wait
//	Enqueue ─► line of the key ── the owner's answer ──► next EXACT limit … ─► enqueue
//	                  └── waited for tokens.Hold, or no owner ──► the ledger decides
//
// A request that waits keeps the tokens that it has paid other limits with; when it is
// refused or goes away they are put back. So limits are charged all or none. A request waits
// for tokens.Hold at most, for all its limits together, so two requests cannot wait for each
// other for ever.
//
// The ledger of each key is charged, too (mirror). So it knows what is spent when the owner is
// unreachable. Then the ledger decides, and what it admits is reported to the owner later as a
// debt of the bucket.

// A limit that states no precision is EXACT while the agents are near enough to each other, which the sums
// say. When that begins, the ledger of a key knows what is spent, and sends it to the owner (knownSpent). It
// waits until what both sides of a cut have admitted too much is repaid (isInDebt). When it ends, the
// replica gives back what it has of buckets, and the ledger goes on, which was charged all the time.

// exactness says when the owners of a limit's keys grant tokens; the most is the last.
type exactness uint8

const (
	never exactness = iota
	whileNear
	always
	overSites // always, by owners among the agents of all sites
)

// exactnessOf says when a limit is EXACT. One with a queue, or that is not enforced, never is.
func exactnessOf(c *config.Limit) exactness {
	switch {
	case c.Mode != config.Enforce || c.Queued() || c.Concurrency > 0 || c.Quota != nil:
		return never
	case c.Scope == config.GlobalScope:
		return overSites
	case c.Precision == config.Unstated:
		return whileNear
	case c.Precision == config.Exact:
		return always
	}
	return never
}

// isExact reports whether what is EXACT so far is EXACT now.
func (e *Engine) isExact(x exactness) bool {
	return x >= always || x == whileNear && e.near.Load() != 0
}

// setNear puts limits that state no precision under owners, or takes them from owners.
func (e *Engine) setNear(now int64, near bool) {
	if near == (e.near.Load() != 0) {
		return
	}
	if near {
		e.tokens[exchange.OfSite].While(now, true)
		e.near.Store(max(now, 1))
		return
	}
	e.near.Store(0)
	e.tokens[exchange.OfSite].While(now, false)
}

// decideExact is Decide for a request with EXACT limits; not done: its flow has just been
// freed, and nothing was charged.
func (e *Engine) decideExact(c *call, out *Outcome) (done bool) {
	if len(c.route.slots) > 0 {
		return e.decideSlots(c, out)
	}
	return e.decidePaid(c, out)
}

// decidePaid is decideExact for a request that has its slots.
func (e *Engine) decidePaid(c *call, out *Outcome) (done bool) {
	silent, left := uint64(0), uint64(0) // bit i: limit i is left to the ledger
	for i, l := range c.route.limits {
		if !e.isExact(l.exact) || !c.counts(l) {
			continue
		}
		k := c.tokenKey(l)
		if e.isInDebt(c, l, &k) {
			silent |= 1 << i
			continue
		}
		e.beginPart(c, l, &k)
		switch wait, got := e.tokensOf(l).Take(&k, c.now, c.costOf(l)); got {
		case grant.Admitted:
			e.mirror(c, i, l)
		case grant.Refused:
			*out = e.refuseExact(c, refusal{by: l, wait: wait})
			return true
		case grant.Waits:
			*out = Outcome{Verdict: Wait, Reason: ClientLimit, Limit: l.name}
			e.putBack(c)
			return true
		case grant.Unanswered: // charge asks the ledger
			silent |= 1 << i
		case grant.Unowned:
			left |= 1 << i
		}
	}
	if c.route.flow == nil {
		*out, done = e.decideByLimits(c), true
	} else {
		done = c.route.flow.decide(e, c, out)
	}
	if done && out.Verdict != Wait {
		e.countByLedger(c, silent, left)
	}
	if !done || out.Verdict != Admit {
		e.putBack(c)
	}
	return done
}

// countByLedger counts for the limits that the ledger decides, since owners are unreachable or are not asked.
func (e *Engine) countByLedger(c *call, silent, left uint64) {
	for i := 0; (silent|left)>>i != 0; i++ {
		switch l := c.route.limits[i]; {
		case silent>>i&1 != 0:
			e.count(l, didLedger)
		case left>>i&1 != 0:
			e.countLeft(l, c.now)
		}
	}
}

// refuseExact is the answer to a request that an EXACT limit has refused.
func (e *Engine) refuseExact(c *call, why refusal) Outcome {
	e.putBack(c)
	f := c.route.flow
	if f == nil {
		e.stats.rejected[ClientLimit].Add(1)
		return e.refusalBy(why)
	}
	e.wake(f)
	return f.refusedBy(e, why, c.cost)
}

// tokenKey returns the key of a request and what the limit allows it.
func (w *subject) tokenKey(l *limit) tokens.Key { return l.tokenKey(w.planOf(l), w.under(l)) }

// tokenKey returns the key of a client of a plan.
func (l *limit) tokenKey(plan, client string) tokens.Key {
	g := l.keysOf(plan)
	n := g.Numbers(client)
	k := tokens.Key{Hash: g.Key(client), Tenant: l.tenant, Limit: l.name, Plan: plan, Part: l.part,
		Numbers: tokens.Numbers{Rate: n.Rate, Burst: n.Burst, Strict: n.Strict, While: l.exact == whileNear,
			Version: n.Version()}}
	if !l.perTenant {
		k.Client = client
	}
	return k
}

// tokensOf has the tokens of a limit.
func (e *Engine) tokensOf(l *limit) *tokens.Store[*tokenWait] {
	return &e.tokens[exchange.ScopeOf(l.exact == overSites)]
}

// allow gives a key of an EXACT limit the numbers of now, and reports whether its limit is known and of the scope.
func (e *Engine) allow(scope int, k *tokens.Key) bool {
	s := e.snap.Load()
	if s == nil || s.tenants[k.Tenant] == nil {
		return false
	}
	limits := s.tenants[k.Tenant].limits
	i := slices.IndexFunc(limits, func(l *limit) bool { return l.name == k.Limit })
	switch {
	case i < 0, limits[i].exact == never, exchange.ScopeOf(limits[i].exact == overSites) != scope,
		k.Plan != "" && limits[i].plans[k.Plan] == nil:
		return false
	}
	k.Numbers = limits[i].tokenKey(k.Plan, k.Client).Numbers
	return true
}

// mirror notes that limit i was paid with a token, and charges its ledger, which does not
// decide now.
func (e *Engine) mirror(c *call, i int, l *limit) {
	client := c.under(l)
	c.paid.limits |= 1 << i
	if e.keys.Mirror(c.keysOf(l), client, c.now, c.costOf(l)) {
		c.paid.overflow |= 1 << i
	}
}

// putBack gives back the tokens that a request has paid with.
func (e *Engine) putBack(c *call) {
	for i := 0; c.paid.limits>>i != 0; i++ {
		if c.paid.limits>>i&1 == 0 {
			continue
		}
		l := c.route.limits[i]
		client := c.under(l)
		k := c.tokenKey(l)
		e.tokensOf(l).PutBack(&k, c.now, c.costOf(l))
		e.keys.Refund(c.keysOf(l), client, c.now, c.costOf(l), c.paid.overflow>>i&1 != 0)
	}
	c.paid = charged{}
}

// putBackPaid is putBack for a request in the queue of a flow.
func (e *Engine) putBackPaid(f *flow, i int32, now int64) {
	w := &f.queue.Entry(i).Request
	if w.paid.limits == 0 {
		return
	}
	c := f.callOf(i, w.route, now)
	e.putBack(&c)
	w.paid = charged{}
}

// oweTokens reports to the owner of a limit's key the cost that was admitted without its tokens.
func (e *Engine) oweTokens(c *call, l *limit, cost int64) {
	k := c.tokenKey(l)
	e.tokensOf(l).Owe(&k, c.now, cost)
}

// usage returns the use of a limit by a client, by the owner's bucket if that is known here, else by
// the ledger; as the numbers that the request has.
func (e *Engine) usage(c *call, l *limit) keys.Usage {
	u := e.keys.Usage(c.keysOf(l), c.under(l), c.now, c.costOf(l))
	if e.isExact(l.exact) {
		k := c.tokenKey(l)
		if spent, wait, ok := e.tokensOf(l).Usage(&k, c.now, c.costOf(l)); ok {
			u.Local, u.Spent, u.Wait = u.Limit, spent, wait
		}
	}
	if l.bounds == nil {
		return u
	}
	return unweighed(u, c.weightOf(l))
}

// enqueueExact is Enqueue for a request with EXACT limits; not ended: its flow has just been
// freed, and nothing was charged.
func (e *Engine) enqueueExact(c *call, r *Request, ticket uint64) (out Outcome, h Handle, ended bool) {
	if len(c.route.slots) > 0 {
		return e.enqueueSlots(c, r, ticket)
	}
	ledger := uint64(0) // bit i: limit i is left to the ledger
	for i, l := range c.route.limits {
		if !e.isExact(l.exact) || !c.counts(l) {
			continue
		}
		k := c.tokenKey(l)
		if e.isInDebt(c, l, &k) {
			ledger |= 1 << i
			e.count(l, didLedger)
			continue
		}
		wait, got := e.tokensOf(l).Take(&k, c.now, c.costOf(l))
		if got == grant.Waits {
			w := e.newTokenWait(c, r, ticket, i, ledger)
			if wait, got = e.tokensOf(l).Join(&k, c.now, e.knownSpent(c, l, &k), &w.Waiter); got == grant.Waits {
				c.route.flow.countHeld()
				out = Outcome{Verdict: Wait, Reason: ClientLimit, RetryAfter: e.tokensOf(l).Hold(), Limit: l.name,
					Flight: c.route.flight}
				return out, w.handle, true
			}
			e.freeTokenWait(w)
		}
		switch got {
		case grant.Admitted:
			e.mirror(c, i, l)
		case grant.Refused:
			return e.refuseExact(c, refusal{by: l, wait: wait}), 0, true
		case grant.Unanswered, grant.Unowned:
			ledger |= 1 << i
			e.countUnasked(l, c.now, got)
		}
	}
	return e.enqueuePaid(c, ticket)
}

// enqueuePaid takes a request that has paid its EXACT limits through the rest; not ended: its
// flow has just been freed, and nothing is charged any more.
func (e *Engine) enqueuePaid(c *call, ticket uint64) (out Outcome, h Handle, ended bool) {
	if c.route.flow == nil {
		out, ended = e.decideByLimits(c), true
	} else {
		out, h, ended = e.enqueue(c, ticket)
	}
	if !ended || out.Verdict == Reject {
		e.putBack(c)
	}
	return out, h, ended
}

// countHeld counts a request that begins to wait for a limit, not for the share. Without a flow it
// counts nothing.
func (f *flow) countHeld() {
	if f != nil {
		f.counts.waited.Add(1)
		f.counts.held.Add(1)
	}
}
