package limiter

import (
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/limiter/internal/keys"
)

// Decide decides a request at now. Wait means that it would have to be held: nothing was
// charged and nothing waits; call Enqueue if its caller can be woken later, and reject it
// otherwise.
func (e *Engine) Decide(now int64, r *Request) (out Outcome) {
	var c call // newCall would copy it
	for {
		rt := e.begin(now, r, &out)
		if rt == nil {
			return out
		}
		c.now, c.route, c.price = now, rt, price{r.cost(), r.Costs}
		c.cost = c.price.at(rt)
		c.client, c.ids, c.classes = r.Client, r.Identities, uint64(r.Classes)|every
		switch {
		case rt.flow == nil || e.isExact(rt.exact):
			if e.decideExact(&c, &out) {
				return out
			}
		case rt.flow.decide(e, &c, &out):
			return out
		}
		e.unroute(rt.flow) // it has just been freed
	}
}

// begin returns the route of a request. It returns nil when it has answered the request:
// there is no route, or neither owners nor the tenant stage are needed. A route without a flow
// has EXACT limits, or had some a moment ago.
func (e *Engine) begin(now int64, r *Request, out *Outcome) *route {
	if r.Mode != config.Enforce {
		*out = e.observe(now, r)
		return nil
	}
	rt, ok := e.findRoute(r)
	if ok && rt.stated {
		e.countDefaults(rt, r, 1)
	}
	switch {
	case !ok:
		*out = e.countWithoutRoute()
	case rt.flow == nil && !e.isExact(rt.exact):
		c := newCall(now, r, rt)
		*out = e.decideByLimits(&c)
	case rt.blocked:
		*out = e.refuseBlocked(rt.flow, newCall(now, r, rt).cost)
	default:
		return rt
	}
	return nil
}

// countDefaults counts n requests whose plan a limit of their route does not know, or whose stated rate a limit does
// not take.
func (e *Engine) countDefaults(rt *route, r *Request, n uint64) {
	w := subject{ids: r.Identities}
	for _, l := range rt.limits {
		if l.bounds != nil {
			e.countStated(&w, l, n)
		}
		if l.plans == nil {
			continue
		}
		switch plan := w.planNamed(l); {
		case plan == "":
			e.stats.planMissing.Add(n)
			return
		case l.plans[plan] == nil:
			e.stats.planUnknown.Add(n)
			return
		}
	}
}

// countWithoutRoute answers a request that has no route and counts it.
func (e *Engine) countWithoutRoute() Outcome {
	out := e.withoutRoute()
	switch {
	case out.Verdict == Reject:
		e.stats.rejected[out.Reason].Add(1)
	case e.snap.Load() == nil:
		e.stats.booted.Add(1)
	default:
		e.stats.bypassed.Add(1)
	}
	return out
}

// findRoute returns the request's route; not ok if it has no tenant.
func (e *Engine) findRoute(r *Request) (*route, bool) {
	s := e.snap.Load()
	if s == nil {
		return nil, false
	}
	t, ok := s.tenants[r.Tenant]
	if !ok && e.settings.unknown == UnknownDefault {
		t, ok = s.tenants[config.DefaultTenant]
	}
	if !ok {
		return nil, false
	}
	return e.route(s, t, r.Pool), true
}

// CountedAs returns the tenant and the pool of the configuration that a request counts for. A tenant that is not
// configured counts as DefaultTenant, if there is one; the pool is "" if it is not configured. It returns false for a
// request that no limit can apply to.
func (e *Engine) CountedAs(r *Request) (tenant, pool string, ok bool) {
	rt, ok := e.findRoute(r)
	if !ok {
		return "", "", false
	}
	if rt.flow != nil {
		pool = rt.flow.pool
	}
	return rt.tenant.name, pool, true
}

// withoutRoute is the answer to a request that has no route.
func (e *Engine) withoutRoute() Outcome {
	switch configured := e.snap.Load() != nil; {
	case !configured && e.settings.boot == BootOpen, configured && e.settings.unknown == UnknownBypass:
		return Outcome{}
	case !configured:
		return Outcome{Verdict: Reject, Reason: NotConfigured}
	}
	return Outcome{Verdict: Reject, Reason: UnknownTenant}
}

// decideByLimits decides a request to an unknown pool: it has no share and no queue, but
// its client's limits hold.
func (e *Engine) decideByLimits(c *call) (out Outcome) {
	ref := e.charge(c, decisive)
	if ref.by != nil {
		e.stats.rejected[ClientLimit].Add(1)
		return e.refusalBy(ref)
	}
	e.stats.unknownPool.Add(1)
	e.setShadow(ref.shadow, &out)
	return out
}

// observe decides a request whose own mode is not Enforce: the caller may ask for less
// than enforcement, such as a proxy's route that is to be watched first. It is always
// admitted. SHADOW then holds for every limit and for the share, whatever their own
// modes; OFF charges no limit and measures the traffic as load on the pool. It takes no slot of a concurrency limit.
func (e *Engine) observe(now int64, r *Request) Outcome {
	rt, ok := e.findRoute(r)
	if !ok {
		e.stats.bypassed.Add(1)
		out := e.withoutRoute()
		if out.Verdict == Admit || r.Mode == config.Off {
			return Outcome{}
		}
		return Outcome{Reason: out.Reason, Shadow: true}
	}
	c := newCall(now, r, rt)
	var out Outcome
	if r.Mode == config.Shadow {
		out = e.chargeWatched(&c)
		e.watchSlots(&c, &out, nil, true)
	}
	f := rt.flow
	if f == nil {
		e.stats.unknownPool.Add(1)
		return out
	}
	p := f.pass(e, &c, max(r.Mode, rt.mode), rt.queue.Law, int(f.credit.waiting.Load()))
	f.admit(&c, p, &out)
	e.wake(f)
	return out
}

// blocked is the answer to all requests of a tenant whose quota has a max of 0: waiting
// does not help.
var blocked = Outcome{Verdict: Reject, Reason: TenantShare, Limit: ShareName}

// refuseBlocked refuses a request of such a tenant and counts it as demand.
func (e *Engine) refuseBlocked(f *flow, cost int64) Outcome {
	f.counts.turned.Add(cost)
	f.counts.rejected[TenantShare].Add(1)
	e.wake(f)
	return blocked
}

// retryAfter turns a wait into advice: 0 when waiting does not help, and never 0 when it
// does.
func retryAfter(wait int64) time.Duration {
	if wait == keys.Never {
		return 0
	}
	return time.Duration(max(1, wait))
}
