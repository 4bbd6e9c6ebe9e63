package limiter

import (
	"math"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/limiter/internal/keys"
)

// Allowance is the rest of one limit for its client: the numbers of an answer's RateLimit
// fields.
type Allowance struct {
	// Limit is the limit's name, ShareName for the tenant's share of the pool,
	// "" when nothing bounds the request.
	Limit string
	// Rate in cost units/s and Burst in cost units, of all replicas together.
	Rate, Burst float64
	// Concurrency is the number of requests that may be in flight, over all replicas; such a limit has no Rate and
	// no Burst. 0: a limit with a rate.
	Concurrency int64
	// Amount may be used in a period of a calendar, over all replicas, cost units; such a limit has no Rate and no
	// Burst. Reset is the time until the next period then. 0: a limit without a quota.
	Amount float64
	// Per is the length of the period.
	Per config.Per
	// Cost of the request there, cost units.
	Cost float64
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

// Allowance returns what is left for a request that was decided with the given reason. It
// is the rest of the share when the tenant stage refused it, else the rest of the limit
// that leaves the least. Nothing is charged or counted. O(limits of the tenant), about as
// dear as Decide; only callers that report it to their clients need to call it.
func (e *Engine) Allowance(now int64, r *Request, why Reason) Allowance {
	rt, ok := e.findRoute(r)
	if !ok {
		return Allowance{}
	}
	c := newCall(now, r, rt)
	least, by := e.leastAllowance(&c)
	switch {
	case rt.flow == nil || why == None || why == ClientLimit:
		return least
	case rt.blocked:
		return Allowance{Limit: ShareName}
	case why == QueueTimeout && by != nil: // it waited for its limit
		return least
	}
	return rt.flow.allowance(c.cost)
}

// RefusedAllowance is Allowance for a request of one unit or less that a limit has just refused. Less
// than a unit is left, and the next one comes when the request may come again, so no key is looked up.
// Not ok for all others.
func (e *Engine) RefusedAllowance(r *Request, out Outcome) (a Allowance, ok bool) {
	if out.Verdict != Reject || out.Reason != ClientLimit || out.RetryAfter <= 0 {
		return Allowance{}, false
	}
	rt, ok := e.findRoute(r)
	if !ok {
		return Allowance{}, false
	}
	for _, l := range rt.slots {
		if l.name == out.Limit && l.slots != nil {
			s := subject{r.Client, r.Identities, 0}
			return l.noSlot(s.under(l)), true
		}
	}
	for _, l := range rt.limits {
		if l.name == out.Limit {
			if r.costBy(l.cost) > unit {
				break
			}
			s := subject{r.Client, r.Identities, 0}
			n, weight := s.keysOf(l).Numbers(s.under(l)), s.weightOf(l)
			next := out.RetryAfter
			return Allowance{Limit: l.name, Rate: n.Rate / weight, Burst: n.Burst / weight,
				Cost: units(r.costBy(l.cost)), Next: next, Wait: next}, true
		}
	}
	return Allowance{}, false
}

// Peek returns what Decide would answer now and what is left, and changes nothing:
// nothing is charged, counted or claimed. Wait means that the request would be held.
func (e *Engine) Peek(now int64, r *Request) (Outcome, Allowance) {
	rt, ok := e.findRoute(r)
	if !ok {
		return e.withoutRoute(), Allowance{}
	}
	c := newCall(now, r, rt)
	least, by := e.leastAllowance(&c)
	f := rt.flow
	switch {
	case rt.blocked:
		return blocked, Allowance{Limit: ShareName}
	case by != nil:
		return peekLimit(by, f != nil, least), least
	case f == nil:
		return Outcome{}, least
	}
	out, free := waitForShare, rt.mode == config.Off || f.credit.open.Load()
	covered := f.credit.covers(c.cost) ||
		f.credit.waiting.Load() == 0 && f.hasUnused(e.member.Load(), now, c.cost)
	switch passageOf(free, covered, rt.mode, rt.queue.Law) {
	case mustWait:
	case refused:
		out.Verdict = Reject
	default:
		return Outcome{}, least
	}
	left := f.allowance(c.cost)
	out.RetryAfter = left.Wait
	return out, left
}

// peekLimit is the answer to a request that a limit would refuse.
func peekLimit(by *limit, queue bool, left Allowance) Outcome {
	out := Outcome{Verdict: Reject, Reason: ClientLimit, RetryAfter: left.Wait, Limit: by.name}
	if queue && by.queued && left.Wait > 0 && left.Wait <= by.queue.MaxWait {
		out.Verdict = Wait
	}
	return out
}

// isLess reports whether fewer requests are left than of another allowance, if there is another.
func (a *Allowance) isLess(than *Allowance) bool {
	return than.Limit == "" || a.Remaining*than.Cost < than.Remaining*a.Cost
}

// leastAllowance returns the enforced limit that leaves the least, or the first limit that
// would refuse, which is then also returned. Limits that count different costs compare by the
// number of such requests that they leave. A concurrency limit counts only if it would refuse.
func (e *Engine) leastAllowance(c *call) (least Allowance, by *limit) {
	for _, l := range c.route.slots { // what is left of slots over all replicas is not known here
		if l.mode != config.Enforce || !c.counts(l) {
			continue
		}
		if l.quota != nil {
			a, known, passes := e.quotaAllowance(l, c)
			if !passes {
				return a, l
			}
			if known && a.isLess(&least) {
				least = a
			}
			continue
		}
		if !e.slotState(l, c).passes() {
			return l.noSlot(c.under(l)), l
		}
	}
	for _, l := range c.route.limits {
		if l.mode != config.Enforce || !c.counts(l) {
			continue
		}
		a, passes := allowanceOf(l, units(c.price.by(l.cost)), e.usage(c, l))
		switch {
		case !passes:
			return a, l
		case a.isLess(&least):
			least = a
		}
	}
	return least, nil
}

// allowanceOf returns what a limit leaves a client, and whether the cost asked about
// would pass.
func allowanceOf(l *limit, cost float64, u keys.Usage) (a Allowance, passes bool) {
	a = Allowance{Limit: l.name, Rate: u.Limit.Rate, Burst: u.Limit.Burst, Cost: cost}
	if rate, burst := u.Local.Rate, u.Local.Burst; rate > 0 {
		a.Remaining, a.Reset = max(0, burst-u.Spent), duration(u.Spent/rate)
		a.Next = duration((min(math.Floor(a.Remaining+tiny)+1, burst) - burst + u.Spent) / rate)
	}
	if u.Wait != keys.Never {
		a.Wait = time.Duration(u.Wait)
	}
	return a, u.Wait == 0
}

// allowance returns the allowance of the tenant's share for a request that may not pass at
// once.
func (f *flow) allowance(cost int64) Allowance {
	rate, queued := f.shareAndQueued()
	wait := retryAfter(f.credit.wait(cost, queued))
	next := min(wait, duration(1/rate))
	return Allowance{Limit: ShareName, Rate: rate, Burst: max(1, rate), Cost: units(cost), Reset: wait, Next: next,
		Wait: wait}
}

// shareAndQueued returns the flow's share and the cost that waits for it.
func (f *flow) shareAndQueued() (rate float64, queued int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.terms.vmax, f.eligibleCost()
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
