package limiter

import (
	"time"

	"github.com/titrate/titrate/control/limiter/internal/queue"
)

// Requests that wait: how they join the queue of their flow (Enqueue), and how they
// leave it before their turn (Cancel). tick.go and release.go have the others.

// maxHeld bounds the requests of one flow that wait for their clients' limits, over all
// clients; requests that wait for the share have Queue.MaxRequests.
const maxHeld = 1 << 16

// flowQueue is the queue of a flow.
type flowQueue = queue.Queue[waiting, holding]

// waiting is the flow's record of a request in its queue.
type waiting struct {
	ticket  uint64
	route   *route // its limits were charged under
	charged charged
	ids     *Identities // copies
	price   price       // likewise
	classes uint64
	paid    charged // by tokens; until it is released, it is not spent
	mark    bool
	shadow  *limit // the SHADOW limit that would have refused it
	heldBy  *limit // the last limit that it waited for, nil if none
	heldFor int64  // how long limits have held it, once they have let it go, ns
}

// heldLonger is the name of what has held a request for most of the time that it waited: a limit or
// the tenant's share.
func (w *waiting) heldLonger(eligible bool, waited time.Duration) string {
	if w.heldBy == nil || eligible && int64(waited) > 2*w.heldFor {
		return ShareName
	}
	return w.heldBy.name
}

// holding names the limit that the held requests of one line wait for.
type holding struct {
	by       *limit
	expected int64 // when it may admit the first of them
}

// ruling is the decision of the tenant stage about a request under the flow's lock.
type ruling struct {
	passage passage
	reason  Reason // when refused
	mark    bool
	class   queue.Class // when it must wait
}

// Enqueue decides again, under the flow's lock, and holds the request when it has to
// wait. Then the verdict is Wait, the handle names it, and one Event with the ticket will
// come from Tick or Drain unless Cancel takes it back. After Admit and Reject the handle
// is 0 and no event comes. Keep ticking at 5 ms once something waits.
func (e *Engine) Enqueue(now int64, r *Request, ticket uint64) (out Outcome, h Handle) {
	for {
		rt := e.begin(now, r, &out)
		if rt == nil {
			return out, 0
		}
		c, ok := newCall(now, r, rt), false
		if rt.flow == nil || e.isExact(rt.exact) {
			out, h, ok = e.enqueueExact(&c, r, ticket)
		} else {
			out, h, ok = e.enqueue(&c, ticket)
		}
		if ok {
			return out, h
		}
		e.unroute(rt.flow) // it has just been freed
	}
}

// enqueue takes a request through both stages under the flow's lock; not ok says that
// the flow has just been freed.
func (e *Engine) enqueue(c *call, ticket uint64) (out Outcome, h Handle, ok bool) {
	f := c.route.flow
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone() {
		return out, 0, false
	}
	f.advance(e, c.now)
	f.publish()
	e.wake(f)
	out, h = e.admitOrHold(f, c, ticket)
	f.publish()
	if out.Verdict != Reject {
		out.Flight = c.route.flight
	}
	return out, h, true
}

// admitOrHold is the client stage of a request that may wait.
func (e *Engine) admitOrHold(f *flow, c *call, ticket uint64) (out Outcome, h Handle) {
	q, key := f.obtainQueue(), f.lineKey(c)
	entry := queue.Entry[waiting]{Since: c.now, Cost: c.cost}
	entry.Request = waiting{ticket: ticket, route: c.route, classes: c.classes, paid: c.paid}
	entry.Request.price.plain = c.price.plain     // push has the others
	if l := q.Find(key); l != nil && l.Held > 0 { // behind its own earlier ones
		by := l.Hold.by
		e.countDemand(c, by)
		ref := refusal{by: by, wait: e.waitBehind(c, l)}
		if ref.isFinal() || l.Held >= by.queue.MaxRequests || f.isFull() {
			return f.refusedBy(e, ref, c.cost), 0
		}
		return e.hold(f, c, key, entry, l.Hold)
	}
	ref := e.charge(c, decisive)
	if ref.by != nil {
		if ref.isFinal() || f.isFull() {
			return f.refusedBy(e, ref, c.cost), 0
		}
		return e.hold(f, c, key, entry, holding{ref.by, c.now + ref.wait})
	}
	r := e.admitOrQueue(f, c, q.Find(key))
	switch r.passage {
	case mustWait:
		entry.Request.charged, entry.Request.shadow = ref.charged, ref.shadow
		return e.queueEligible(f, c, key, entry, r)
	case refused:
		e.refund(c, ref.charged)
		return f.rejected(r.reason, c.cost, q.EligibleCost()), 0
	}
	e.setShadow(ref.shadow, &out)
	f.admit(c, r.passage, &out)
	return out, 0
}

// waitBehind estimates when the limit lets cost pass behind what its client has held. It
// errs by a third on the late side. To reject a few at once is better than to keep a
// queue at the very edge where its head times out.
func (e *Engine) waitBehind(c *call, l *queue.Line[holding]) int64 {
	by := l.Hold.by
	ahead, cost := c.weigh(by, l.HeldCost), c.costOf(by)
	if by.cost != c.route.cost { // the line counts what the pool does: its requests are taken to be like this one
		ahead = int64(l.Held) * cost
	}
	return max(0, l.Hold.expected-c.now) + e.keys.Delay(c.keysOf(by), c.under(by), c.now, ahead+cost)/3*4
}

// isFull reports whether no more requests may wait for their clients' limits.
func (f *flow) isFull() bool { return f.queue.Held() >= maxHeld || f.queue.Len() >= queue.MaxPlaces }

// hold lets a request wait for a limit.
func (e *Engine) hold(f *flow, c *call, key uint64, entry queue.Entry[waiting], by holding) (Outcome, Handle) {
	entry.Deadline = c.now + int64(by.by.queue.MaxWait)
	entry.Request.heldBy = by.by
	e.count(by.by, didHold)
	if !c.held {
		f.countHeld()
	}
	f.held.Load().add(key, 1)
	i, h := e.push(f, c, key, entry)
	if l := f.queue.LineOf(i); l.Held == 1 {
		l.Hold = by
		f.queue.RetryAt(i, c.now+askAgainAfter(by.expected-c.now))
	}
	wait := time.Duration(max(0, by.expected-c.now))
	return Outcome{Verdict: Wait, Reason: ClientLimit, RetryAfter: wait, Limit: by.by.name}, h
}

// queueEligible lets a request wait for the share.
func (e *Engine) queueEligible(f *flow, c *call, key uint64, entry queue.Entry[waiting], r ruling) (Outcome, Handle) {
	entry.Eligible, entry.Request.mark, entry.Class = true, r.mark, r.class
	entry.Deadline = c.now + int64(f.terms.queueing.MaxWait)
	f.countArrival(c.cost)
	if !c.held {
		f.counts.waited.Add(1)
	}
	_, h := e.push(f, c, key, entry)
	out := waitForShare
	out.RetryAfter = time.Duration(f.credit.wait(0, f.queue.EligibleCost()))
	return out, h
}

func (e *Engine) push(f *flow, c *call, key uint64, entry queue.Entry[waiting]) (int32, Handle) {
	entry.Request.ids, entry.Request.price.named = c.ids.clone(), c.named.clone()
	i := f.queue.Push(key, c.client, entry)
	e.waiting.Add(1)
	return i, newHandle(f.place.id, i, f.queue.Generation(i))
}

// countArrival counts a request that begins to wait for the share.
func (f *flow) countArrival(cost int64) {
	f.pace.pending += units(cost)
	f.report.sum.demand += cost
}

// admitOrQueue is the tenant stage of a request that all limits admit, under the flow's
// lock. What may not pass at once joins the queue, unless the queue or its law refuses it.
// line is the requests of the client, nil if it has none.
func (e *Engine) admitOrQueue(f *flow, c *call, line *queue.Line[holding]) ruling {
	q := f.queue
	p := f.pass(e, c, f.terms.mode, f.terms.queueing.Law, q.Eligible())
	switch {
	case p >= byUnused && p <= inShadow:
		f.countBypassed(f.counts.bypassed.Swap(0))
	case p == refused:
		return f.turnAway(TenantShare, c.cost)
	case p == mustWait && (q.Eligible() >= f.terms.queueing.MaxRequests || q.Len() >= queue.MaxPlaces):
		return f.turnAway(QueueFull, c.cost)
	case p == mustWait:
		f.stepLaw(e)
		return f.applyLaw(e, c, line)
	}
	return ruling{passage: p}
}

// turnAway counts a request that the tenant stage rejects.
func (f *flow) turnAway(why Reason, cost int64) ruling {
	f.countRefused(cost)
	return ruling{passage: refused, reason: why}
}

// callOf is the call of a request in the queue, as of now.
func (f *flow) callOf(i int32, rt *route, now int64) call {
	en := f.queue.Entry(i)
	who := subject{f.queue.LineOf(i).Client, en.Request.ids, en.Request.classes}
	return call{now: now, cost: en.Cost, route: rt, price: en.Request.price, subject: who, paid: en.Request.paid}
}

// Cancel takes back a held request whose caller has gone: it is charged nothing, and
// leaves no backlog. It returns false when its event was or is being delivered, or the
// handle is 0 or old.
func (e *Engine) Cancel(now int64, h Handle) bool {
	if h.flow() == tokenFlow {
		return e.cancelTokenWait(now, h)
	}
	f := e.flowBy(h)
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.queue == nil || !f.queue.Waits(h.place(), h.generation()) {
		return false
	}
	f.advance(e, now)
	e.withdraw(f, h.place(), now)
	f.counts.cancelled.Add(1)
	f.publish()
	return true
}

// withdraw takes a request out of the queue unserved: refunded, and out of S.
func (e *Engine) withdraw(f *flow, i int32, now int64) {
	en, line := f.queue.Entry(i), f.queue.LineOf(i)
	e.putBackPaid(f, i, now)
	if !en.Eligible {
		e.removeHeld(f, i)
	} else {
		c := f.callOf(i, en.Request.route, now)
		e.refund(&c, en.Request.charged)
		f.pace.controller.Remove(units(en.Cost))
		f.correctClient(line.Client, -en.Cost)
		if en.Class == queue.Front {
			f.law.frontCost -= en.Cost // it leaves the rate to those behind
		}
		f.queue.Remove(i)
		e.waiting.Add(-1)
	}
	if f.queue.Eligible() == 0 {
		f.pace.pacer.Idle()
	}
	f.reconcile()
}

// removeHeld takes a request that waits for a limit out of the queue.
func (e *Engine) removeHeld(f *flow, i int32) {
	f.held.Load().add(f.queue.LineOf(i).Key, -1)
	f.queue.Remove(i)
	e.waiting.Add(-1)
}
