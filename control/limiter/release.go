package limiter

import (
	"math"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/limiter/internal/queue"
)

// How eligible requests leave the queue: released in turn, or all at once when the process
// ends.

// release lets go what the pacer pays for, in the order of the queue.
func (e *Engine) release(f *flow, now int64, out []Event) (events []Event, more bool) {
	q := f.queue
	free := f.terms.mode != config.Enforce || f.credit.open.Load()
	step := max(int64(1e-3*f.pace.controller.Rate()*unit), f.spendable()/256)
	for n := 0; ; n++ {
		credit := q.EligibleCost() // is enough for all
		if !free {
			credit = f.spendable()
		}
		i := q.Next(credit, step)
		if i == queue.Nobody || n == batch {
			f.setSaving()
			f.reconcile()
			return out, i != queue.Nobody
		}
		cost := q.Entry(i).Cost
		if free {
			f.pace.controller.Remove(units(cost))
		} else {
			var discarded bool
			if out, discarded = e.discardLate(f, i, now, out); discarded {
				continue
			}
			drawn := min(cost, f.pace.drawn)
			f.pace.drawn -= drawn
			f.pace.pacer.Charge(units(cost - drawn))
			f.pace.passed += cost - drawn
		}
		out = append(out, f.released(e, i, now))
		q.Serve(i)
		e.waiting.Add(-1)
	}
}

// spendable is the credit that no line has yet. The controller has released it, or it is drawn
// from the pool's unused capacity, or, as on the fast path, enzyme that is free before the step.
// Without the latter the part of a request that a step leaves unbound would keep a short queue
// from ever emptying, and every request would wait a tick.
func (f *flow) spendable() int64 {
	credit := int64(math.Round((f.pace.pacer.Credit() + f.pace.controller.Free()) * unit))
	return credit + f.pace.drawn - f.queue.Saved()
}

// setSaving sets what the pacer saves for: what lines have, and what the next head is short
// of.
func (f *flow) setSaving() {
	i := f.queue.Head()
	if i == queue.Nobody {
		f.pace.pacer.Idle()
		return
	}
	f.pace.pacer.Affords(units(f.queue.Saved() + f.queue.Missing(i)))
}

// event returns the event of a request that is still in the queue.
func (f *flow) event(i int32, o Outcome) Event {
	en := f.queue.Entry(i)
	return Event{Ticket: en.Request.ticket, Outcome: o, Tenant: f.tenant, Client: f.queue.LineOf(i).Client,
		Pool: f.pool, HeldBy: en.Request.heldLonger(en.Eligible, o.Waited)}
}

// released counts a released request and returns its event.
func (f *flow) released(e *Engine, i int32, now int64) Event {
	en := f.queue.Entry(i)
	w := &en.Request
	f.report.sum.served += en.Cost
	if w.mark {
		f.counts.marked.Add(1)
		f.report.sum.marked += en.Cost
		f.report.limited = true
	}
	o := Outcome{Mark: w.mark, Waited: time.Duration(now - en.Since)}
	e.setShadow(w.shadow, &o)
	f.countAdmitted(&o, en.Cost)
	return f.event(i, o)
}

// drained is the wait after a refusal by a process that ends.
const drained = time.Second

// Drain ends all waiting, for shutdown: what waits is admitted when the boot policy is
// OPEN and rejected as queue_timeout when it is CLOSED. A request for which a concurrency limit has no slot here is
// rejected. Call it after the last Enqueue.
func (e *Engine) Drain(now int64, out []Event) []Event {
	e.work.Lock()
	defer e.work.Unlock()
	from := len(out)
	for _, f := range e.live() {
		out = e.drainFlow(f, now, out)
	}
	out = e.releaseToSlots(now, from, out)
	return e.drainTokens(now, out) // and refuses the requests that wait for a slot
}

func (e *Engine) drainFlow(f *flow, now int64, out []Event) []Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.waits() == 0 {
		return out
	}
	f.advance(e, now)
	defer f.publish()
	f.queue.All(func(i int32) {
		if e.settings.boot == BootOpen {
			out = append(out, f.released(e, i, now))
		} else {
			en := f.queue.Entry(i)
			f.counts.rejected[QueueTimeout].Add(1)
			f.report.sum.rejected += en.Cost
			waited := time.Duration(now - en.Since)
			o := Outcome{Verdict: Reject, Reason: QueueTimeout, RetryAfter: drained, Waited: waited}
			out = append(out, f.event(i, o))
		}
		e.withdraw(f, i, now)
	})
	return out
}
