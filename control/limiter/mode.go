package limiter

import (
	"github.com/titrate/titrate/control/config"
)

// Whoever asks may ask for less than enforcement, see Request.Mode: a proxy's
// route that is to be watched first. SHADOW then holds for every limit and for
// the share, whatever their own modes; OFF charges no limit and measures the
// traffic as load on the pool.

// lenient decides a request whose own mode is not Enforce. It is always admitted.
func (e *Engine) lenient(now int64, r *Request) Outcome {
	rt, ok := e.peekRoute(r)
	if !ok {
		out := e.unrouted(r)
		if out.Verdict == Admit || r.Mode == config.Off {
			e.stats.bypassed.Add(1)
			return Outcome{}
		}
		e.stats.bypassed.Add(1)
		return Outcome{Reason: out.Reason, Shadow: true}
	}
	cost := r.cost()
	var out Outcome
	if r.Mode == config.Shadow {
		out = e.watch(rt, r.subject(), now, cost)
	}
	f := rt.flow
	if f == nil {
		e.stats.unknownPool.Add(1)
		return out
	}
	if r.Mode == config.Off || rt.mode == config.Off || f.eligible.Load() > 0 || !f.take(cost) {
		f.bypassed.Add(cost)
		if r.Mode == config.Shadow && rt.mode != config.Off && !f.open.Load() && !out.Shadow {
			out = Outcome{Reason: TenantShare, Shadow: true, Limit: ShareName}
		}
	}
	f.admits.Add(1)
	if out.Shadow {
		f.counts.shadowed.Add(1)
		f.counts.shadowedCost.Add(cost)
	}
	e.wake(f)
	out.Flight = rt.flight
	return out
}

// watch charges the limits that admit a request and names the first that would
// have refused it.
func (e *Engine) watch(rt *route, who subject, now, cost int64) (out Outcome) {
	for _, l := range rt.limits {
		if l.mode == config.Off || l.classes&who.classes == 0 {
			continue
		}
		wait, _, ok := e.take(l, who.under(l), now, cost, false)
		if !ok && !out.Shadow {
			out = Outcome{Reason: ClientLimit, Shadow: true, Limit: l.name, RetryAfter: retryAfter(wait)}
		}
	}
	return out
}
