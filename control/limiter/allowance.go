package limiter

import (
	"math"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/drc"
)

// Allowance is what one policy leaves its client: what the RateLimit fields of
// an answer say.
type Allowance struct {
	// Limit is the limit's name, ShareName for the tenant's share of the pool,
	// "" when nothing bounds the request.
	Limit string
	// Rate in cost units/s and Burst in cost units, of all replicas together.
	Rate, Burst float64
	// Remaining is the cost that could pass at once, ≥ 0.
	Remaining float64
	// Reset is the time until Remaining is the whole burst again, ≥ 0.
	Reset time.Duration
	// Next is the time until Remaining has grown by one unit, or to the whole burst
	// if less is missing; 0 when nothing is missing, or nothing will come.
	Next time.Duration
	// Wait is the time until the request asked about could pass, ≥ 0; 0 also
	// when it never can.
	Wait time.Duration
}

// tiny is a cost below which what is missing of a unit is rounding.
const tiny = 1e-6

// ShareName is the Limit of an Allowance that is the tenant's share of the pool.
const ShareName = "tenant-share"

// Allowance returns what is left for a request that was decided with the given
// reason: of the share when the tenant stage refused it, else of the limit that
// leaves the least. Nothing is charged or counted. O(limits of the tenant), about
// as dear as Decide; only those who want to tell their clients need to call it.
func (e *Engine) Allowance(now int64, r *Request, why Reason) Allowance {
	rt, ok := e.peekRoute(r)
	if !ok {
		return Allowance{}
	}
	least, by := e.inspect(rt, r.subject(), now, r.cost())
	switch {
	case rt.flow == nil || why == None || why == ClientLimit:
		return least
	case rt.blocked:
		return Allowance{Limit: ShareName}
	case why == QueueTimeout && by != nil: // it waited for its limit
		return least
	}
	return rt.flow.allowance(r.cost())
}

// Peek returns what Decide would answer now and what is left, and changes
// nothing: nothing is charged, counted or claimed. Wait means that the request
// would be held.
func (e *Engine) Peek(now int64, r *Request) (Outcome, Allowance) {
	rt, ok := e.peekRoute(r)
	if !ok {
		return e.unrouted(r), Allowance{}
	}
	least, by := e.inspect(rt, r.subject(), now, r.cost())
	f := rt.flow
	switch {
	case rt.blocked:
		return blocked, Allowance{Limit: ShareName}
	case by != nil && by.queued && f != nil && int64(least.Wait) <= int64(by.queue.MaxWait) && least.Wait > 0:
		return Outcome{Verdict: Wait, Reason: ClientLimit, RetryAfter: least.Wait, Limit: by.name}, least
	case by != nil:
		return Outcome{Verdict: Reject, Reason: ClientLimit, RetryAfter: least.Wait, Limit: by.name}, least
	case f == nil || rt.mode != config.Enforce || f.open.Load() || f.offers(r.cost()):
		return Outcome{}, least
	}
	out := Outcome{Verdict: Wait, Reason: TenantShare, Limit: ShareName}
	if rt.queue.Law == config.Police {
		out.Verdict = Reject
	}
	left := f.allowance(r.cost())
	out.RetryAfter = left.Wait
	return out, left
}

// peekRoute is resolve without counting.
func (e *Engine) peekRoute(r *Request) (*route, bool) {
	s := e.snap.Load()
	if s == nil {
		return nil, false
	}
	t, ok := s.tenants[r.Tenant]
	if !ok && e.unknown == UnknownDefault {
		t, ok = s.tenants[config.DefaultTenant]
	}
	if !ok {
		return nil, false
	}
	return e.route(s, t, r.Pool), true
}

// unrouted is what becomes of a request that has no route.
func (e *Engine) unrouted(r *Request) Outcome {
	switch {
	case e.snap.Load() == nil && e.boot == BootOpen, e.snap.Load() != nil && e.unknown == UnknownBypass:
		return Outcome{}
	case e.snap.Load() == nil:
		return Outcome{Verdict: Reject, Reason: NotConfigured}
	}
	return Outcome{Verdict: Reject, Reason: UnknownTenant}
}

// inspect returns the enforced limit that leaves the least, or the first one that
// would refuse, which is then also returned.
func (e *Engine) inspect(rt *route, who subject, now, cost int64) (least Allowance, by *limit) {
	for _, l := range rt.limits {
		if l.mode != config.Enforce || l.classes&who.classes == 0 {
			continue
		}
		a, ok := e.look(l, who.under(l), now, cost)
		switch {
		case !ok:
			return a, l
		case least.Limit == "" || a.Remaining < least.Remaining:
			least = a
		}
	}
	return least, nil
}

// look returns what a limit leaves a client, and whether cost would pass.
func (e *Engine) look(l *limit, client string, now, cost int64) (Allowance, bool) {
	told := l.numbers(client)
	n := e.member.Load().local(told)
	spent, wait := e.spent(l, client, n, now, cost)
	a := Allowance{Limit: l.name, Rate: told.rate, Burst: told.burst}
	if n.rate > 0 {
		a.Remaining, a.Reset = max(0, n.burst-spent), duration(spent/n.rate)
		a.Next = duration((min(math.Floor(a.Remaining+tiny)+1, n.burst) - n.burst + spent) / n.rate)
	}
	if wait != never {
		a.Wait = time.Duration(wait)
	}
	return a, wait == 0
}

// spent returns what is gone of a client's burst and how long cost would have to
// wait. It charges nothing and counts no demand.
func (e *Engine) spent(l *limit, client string, n numbers, now, cost int64) (gone float64, wait int64) {
	c, tat, s := e.find(l, client, false)
	if s != nil {
		defer s.mu.Unlock()
		at := e.seconds(now)
		s.configure(n, e.member.Load(), at)
		s.ledger.Advance(at)
		return s.ledger.Spent(), nanoseconds(s.ledger.Wait(at, units(cost)))
	}
	by := e.member.Load().counted(c, n)
	gcra := drc.GCRA{Rate: by.rate, Burst: by.burst}
	if c.b == nil {
		return 0, gcra.Wait(now, now, units(cost))
	}
	tat = min(tat, now+span(c.deepest(by), by.rate))
	return n.burst - by.burst + drc.SpentAt(tat, now, by.rate), gcra.Wait(tat, now, units(cost))
}

// allowance is what the tenant's share leaves a request that it does not let
// pass at once.
func (f *flow) allowance(cost int64) Allowance {
	rate, queued := f.ahead()
	wait := retryAfter(f.wait(cost, queued))
	next := min(wait, duration(1/rate))
	return Allowance{Limit: ShareName, Rate: rate, Burst: max(1, rate), Reset: wait, Next: next, Wait: wait}
}

// ahead returns the flow's share and the cost that waits for it.
func (f *flow) ahead() (rate float64, queued int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.q == nil {
		return f.vmax, 0
	}
	return f.vmax, f.q.eligibleCost
}

// duration converts seconds; what is not a number, negative or beyond a year is
// held within [0, a year].
func duration(seconds float64) time.Duration {
	const year = 365 * 24 * 3600
	if !(seconds > 0) {
		return 0
	}
	return time.Duration(math.Min(seconds, year) * 1e9)
}

// OnLoss returns a pool's policy for lost shares; false: there is no such pool, or
// no configuration yet.
func (e *Engine) OnLoss(pool string) (config.OnLoss, bool) {
	s := e.snap.Load()
	if s == nil {
		return config.Freeze, false
	}
	i, ok := s.pools[pool]
	if !ok {
		return config.Freeze, false
	}
	return s.list[i].OnLoss, true
}
