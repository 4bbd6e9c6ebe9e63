package limiter

import (
	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/limiter/internal/keys"
)

// A proxy that does not ask for each request can still be held to limits and shares. It is given a rate, decides by
// itself, and reports later how many requests it has admitted and refused. The caller divides this replica's part
// among such proxies:
//
//	Parts    what may be used now of each limit, and of the share
//	Account  what was used, and the demand that the replica claims for it
//
// Slots of concurrency limits and units of quotas cannot be given by a rate: those limits are left out.

// Part is this replica's part of one limit's key, or of its tenant's share of a pool.
type Part struct {
	Limit     string  // name of the limit; ShareName
	Key       uint64  // of the client's key or of the flow: equal Parts have equal keys
	Weight    float64 // of the request's cost there, at least 1
	keys.Part         // Rate, Burst, Free and Debt, of weighted cost
}

// shareBurst is the time, in seconds, of its rate that a share lets pass at once.
const shareBurst = 0.5

// Parts appends what bounds a request's kind now: its enforced limits with a rate, and its tenant's share. Not known:
// no tenant or no configuration is known. It charges and counts nothing.
func (e *Engine) Parts(now int64, r *Request, to []Part) (parts []Part, known bool) {
	rt, ok := e.findRoute(r)
	if !ok {
		return to, false
	}
	c := newCall(now, r, rt)
	for _, l := range rt.limits {
		if l.mode == config.Enforce && c.counts(l) {
			g, client := c.keysOf(l), c.under(l)
			to = append(to, Part{l.name, g.Key(client), c.weightOf(l), e.keys.Part(g, client, now)})
		}
	}
	if rt.blocked {
		return append(to, Part{Limit: ShareName, Weight: 1}), true
	}
	for ok && rt.flow != nil && rt.mode == config.Enforce && !rt.flow.credit.open.Load() {
		if p, ok := rt.flow.part(e, now); ok {
			e.wake(rt.flow)
			return append(to, p), true
		}
		e.unroute(rt.flow) // it has just been freed
		rt, ok = e.findRoute(r)
	}
	return to, true
}

// part is the rate of the flow's controller now. It fails when the flow has been freed.
func (f *flow) part(e *Engine, now int64) (p Part, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone() {
		return p, false
	}
	f.advance(e, now)
	f.publish()
	rate := f.pace.controller.Rate()
	return Part{ShareName, f.terms.key, 1, keys.Part{Rate: rate, Burst: f.terms.vmax, Free: shareBurst * rate}}, true
}

// Usage is another process's count of requests of one kind.
type Usage struct {
	Admitted, Refused uint64  // requests since the last call
	By                string  // name of the limit that refused them; ShareName
	Demand            float64 // requests/s, from now on for Hold seconds
	Hold              float64
	Short             bool // it has less than its demand
}

// Account charges limits and share with requests that another process has admitted, and counts the refused ones.
// Nothing is refused here: what is beyond a limit is a debt of its key.
func (e *Engine) Account(now int64, r *Request, u Usage) {
	rt, ok := e.findRoute(r)
	if !ok {
		e.stats.bypassed.Add(u.Admitted)
		return
	}
	if rt.stated {
		e.countDefaults(rt, r, u.Admitted+u.Refused)
	}
	c := newCall(now, r, rt)
	byShare := u.By == ShareName
	for _, l := range rt.limits {
		if c.counts(l) {
			e.accountLimit(&c, l, &u)
			byShare = byShare && l.name != u.By
		}
	}
	f := rt.flow
	if f == nil {
		e.stats.unknownPool.Add(u.Admitted)
		return
	}
	f.counts.bypassed.Add(c.cost * int64(u.Admitted))
	f.counts.admitted.Add(u.Admitted)
	switch refused := c.cost * int64(u.Refused); {
	case u.Refused == 0:
	case byShare:
		f.counts.turned.Add(refused)
		f.counts.rejected[TenantShare].Add(u.Refused)
	default:
		f.counts.clientRejected.Add(refused)
		f.counts.rejected[ClientLimit].Add(u.Refused)
	}
	e.wake(f)
}

func (e *Engine) accountLimit(c *call, l *limit, u *Usage) {
	cost := c.costOf(l)
	d := keys.Demand{Rate: u.Demand * units(cost), Hold: u.Hold, Refused: u.Short}
	e.keys.Account(c.keysOf(l), c.under(l), c.now, cost*int64(u.Admitted), d)
	if e.isExact(l.exact) && u.Admitted > 0 {
		k := c.tokenKey(l)
		e.tokensOf(l).Spend(&k, c.now, cost*int64(u.Admitted))
	}
	if l.name == u.By && u.Refused > 0 {
		e.tallyMany(l, didRefuse, u.Refused)
	}
}
