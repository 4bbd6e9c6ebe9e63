package limiter

import (
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/limiter/internal/fairness"
	"github.com/titrate/titrate/control/limiter/internal/hash"
)

// The tenant stage. It is written once: passageOf is the order of its questions, pass
// asks them of a request and pays. Decide and observe call pass without a lock, the
// queue calls it under the flow's lock (queue.go), Peek asks passageOf and pays nothing.

// decide takes a request through both stages without a lock. Not ok: the flow has just
// been freed, and nothing was charged.
func (f *flow) decide(e *Engine, c *call, out *Outcome) (ok bool) {
	rt := c.route
	if f.held.Load().any(f, c) {
		out.Verdict = Wait
		return true
	}
	if rt.queues() && !f.credit.open.Load() && !f.credit.covers(c.cost) && e.limitsAdmit(c) {
		if f.gone() {
			return false
		}
		*out = waitForShare // it would be charged and refunded
		return true
	}
	ref := e.charge(c, first)
	switch {
	case ref.by == nil:
		return f.decideByShare(e, c, &ref, out)
	case ref.isFinal():
		*out = f.refusedBy(e, ref, c.cost)
		e.wake(f)
	default:
		*out = Outcome{Verdict: Wait, Reason: ClientLimit, RetryAfter: time.Duration(ref.wait), Limit: ref.by.name}
	}
	return true
}

// decideByShare takes a request that all limits admit through the tenant stage. A request that
// does not pass is not charged.
func (f *flow) decideByShare(e *Engine, c *call, ref *refusal, out *Outcome) (ok bool) {
	p := f.pass(e, c, c.route.mode, c.route.queue.Law, int(f.credit.waiting.Load()))
	if p >= mustWait {
		e.refund(c, ref.charged)
		if f.gone() {
			return false
		}
	}
	switch p {
	case mustWait:
		*out = waitForShare
		return true
	case refused:
		f.counts.turned.Add(c.cost)
		*out = f.rejected(TenantShare, c.cost, 0)
	default:
		e.setShadow(ref.shadow, out)
		f.admit(c, p, out)
	}
	e.wake(f)
	return true
}

// passage says how the tenant stage lets a request pass, or why it does not. From byUnused to inShadow it passes
// without credit.
type passage uint8

const (
	byCredit   passage = iota // the credit has paid for it
	byUnused                  // the pool's unused capacity has paid for it
	unmeasured                // OFF, or the shares are lost and OnLoss is OPEN: it is load only
	inShadow                  // the share would not let it pass at once, SHADOW does
	mustWait                  // it does not pass: it has to join the queue
	refused                   // it would have to wait, and there is no queue
)

// passageOf is the tenant stage up to the queue. free says that nothing is decided, and
// paid that the credit covers the request.
func passageOf(free, paid bool, mode config.Mode, law config.Law) passage {
	switch {
	case free:
		return unmeasured
	case paid:
		return byCredit
	case mode == config.Shadow:
		return inShadow
	case law != config.Police:
		return mustWait
	}
	return refused
}

// pass is the tenant stage for a request that all limits admit, while so many requests
// wait for the share. It needs no lock. A request that passes is counted in the flow, and a
// request that does not has changed nothing but the meter of clients. (A caller that has the
// flow's lock has just advanced the flow, and catchUp does nothing.)
func (f *flow) pass(e *Engine, c *call, mode config.Mode, law config.Law, waiting int) passage {
	free := mode == config.Off || f.credit.open.Load()
	p := passageOf(free, !free && waiting == 0 && f.credit.take(c.cost), mode, law)
	switch {
	case p >= inShadow && waiting == 0 && f.takeUnused(e.member.Load(), c.now, c.cost):
		p = byUnused
	case p == refused && (f.borrow(c) || f.catchUp(e, c.now) && f.credit.take(c.cost)):
		p = byCredit
	}
	if p >= byUnused && p <= inShadow {
		f.counts.bypassed.Add(c.cost)
	}
	if m := f.meter.Load(); m != nil && p <= byUnused {
		m.Charge(hash.Client(f.salt, c.client), c.cost)
	}
	return p
}

// catchUp brings the credit up to date when it is more than a millisecond old and no
// other thread is at it: a slow tick must not cost a request.
func (f *flow) catchUp(e *Engine, now int64) bool {
	if !f.mu.TryLock() {
		return false
	}
	defer f.mu.Unlock()
	if e.seconds(now)-f.pace.at < 1e-3 {
		return false
	}
	f.advance(e, now)
	f.publish()
	return true
}

// borrow takes cost from a credit that does not cover it, for a client within its equal
// part: the further beyond it a client is, the less. The other clients wait for what it
// takes.
func (f *flow) borrow(c *call) bool {
	m := f.meter.Load()
	if m == nil {
		m = fairness.New()
		if !f.meter.CompareAndSwap(nil, m) {
			m = f.meter.Load()
		}
	}
	if m == nil { // it was taken away meanwhile: the flow rests
		return false
	}
	key := hash.Client(f.salt, c.client)
	pressure := m.Pressure(key, c.cost)
	room := min(1, fairness.Spare(pressure)/(1-backPressure)) * float64(max(m.Room(), burst*c.cost))
	if f.credit.overdraw(c.cost, int64(room)) {
		return true
	}
	if pressure < 1 {
		m.Charge(key, c.cost)
	}
	return false
}

// admit counts a request that passed the tenant stage, and adds that to its outcome by the
// client stage: what a limit in SHADOW has said stays.
func (f *flow) admit(c *call, p passage, out *Outcome) {
	if p == inShadow && !out.Shadow {
		*out = Outcome{Reason: TenantShare, Shadow: true, Limit: ShareName}
	}
	f.countAdmitted(out, c.cost)
	out.Flight = c.route.flight
}

func (f *flow) countAdmitted(out *Outcome, cost int64) {
	f.counts.admitted.Add(1)
	if out.Shadow {
		if out.Reason == ClientLimit {
			f.counts.limitShadowed.Add(1)
		}
		f.counts.shadowed.Add(1)
		f.counts.shadowedCost.Add(cost)
	}
}

// waitForShare is the answer to a request that would have to wait for its share.
var waitForShare = Outcome{Verdict: Wait, Reason: TenantShare, Limit: ShareName}

// refusedBy is the answer to a request that a limit has refused.
func (f *flow) refusedBy(e *Engine, ref refusal, cost int64) Outcome {
	f.counts.rejected[ClientLimit].Add(1)
	f.counts.clientRejected.Add(cost)
	return e.refusalBy(ref)
}

// refusalBy is that answer, counted for the limit.
func (e *Engine) refusalBy(ref refusal) Outcome {
	e.count(ref.by, didRefuse)
	return Outcome{Verdict: Reject, Reason: ClientLimit, RetryAfter: retryAfter(ref.wait), Limit: ref.by.name}
}

// rejected is the answer to a request that the tenant stage has refused.
func (f *flow) rejected(why Reason, cost, queued int64) Outcome {
	f.counts.rejected[why].Add(1)
	return Outcome{Verdict: Reject, Reason: why, RetryAfter: retryAfter(f.credit.wait(cost, queued)), Limit: ShareName}
}

// correctClient corrects the meter: a client's requests have cost so much more than it
// was charged, or less.
func (f *flow) correctClient(client string, extra int64) {
	m := f.meter.Load()
	switch {
	case m == nil:
	case extra > 0:
		m.Charge(hash.Client(f.salt, client), extra)
	default:
		m.Repay(hash.Client(f.salt, client), -extra)
	}
}

// advanceMeter lets the meter of clients follow, and makes one when clients compete.
func (f *flow) advanceMeter(h float64) {
	m := f.meter.Load()
	switch {
	case m != nil && !m.Worn():
		m.Advance(h, f.pace.controller.Rate()*f.slack())
		m.SetRoom(int64(2 * f.pace.controller.Params().Bucket * unit))
	case m != nil, f.report.limited, f.eligible() > 0:
		f.meter.Store(fairness.New())
	}
}
