package limiter

import (
	"time"

	"github.com/titrate/titrate/control/limiter/internal/keys"
	"github.com/titrate/titrate/control/limiter/internal/members"
	"github.com/titrate/titrate/control/limiter/internal/queue"
)

// The ticker's part: what waits leaves its queue here when its time has come.
//
//	held ──askLimits──► eligible ──release──► admitted
//	   └───────────expire──┴──────► rejected: it waited for too long

const (
	// recheck is the least time between two questions to a limit for a held request, in
	// nanoseconds, see askAgainAfter.
	recheck = int64(20 * time.Millisecond)
	// leastWait keeps a limit that refuses and says "now" from being asked again and again.
	leastWait = int64(100 * time.Microsecond)
	// batch bounds how many requests of one flow each step of a tick moves before other
	// threads get the flow's lock: a third of a millisecond of work.
	batch = 256
)

// Tick releases what may go now, expires what waited too long, and steps the controllers
// of active flows. It appends the events to out and returns it. One caller at a time,
// every 5 ms while Busy, every 50 ms or so otherwise.
func (e *Engine) Tick(now int64, out []Event) []Event {
	e.work.Lock()
	defer e.work.Unlock()
	e.expireShares(now)
	e.takeAwakened()
	m := e.member.Load()
	busy := false
	keep, from := e.lists.running[:0], len(out)
	for _, f := range e.lists.running {
		var s flowState
		if out, s = e.tickFlow(f, m, now, out); s.rests {
			e.rest(f, now)
		} else {
			keep = append(keep, f)
		}
		busy = busy || s.busy
	}
	clear(e.lists.running[len(keep):])
	e.lists.running = keep
	e.busy.Store(busy)
	out = e.releaseToSlots(now, from, out)
	out = e.tickTokens(now, out)
	out = e.tickSlots(now, out)
	e.freeIdle(now)
	e.keys.FreeIdle(now, keepIdle, freeBatch)
	return out
}

// Busy reports whether something is held or close to its share, so that Tick is wanted at
// 5 ms. It becomes true as soon as Enqueue holds a request.
func (e *Engine) Busy() bool { return e.waiting.Load() > 0 || e.busy.Load() }

// wake puts a flow into the ticker's list.
func (e *Engine) wake(f *flow) {
	if f.active.Load() || !f.active.CompareAndSwap(false, true) {
		return
	}
	e.fresh.Lock()
	defer e.fresh.Unlock()
	e.awakened = append(e.awakened, f)
}

// takeAwakened takes over the flows that became active.
func (e *Engine) takeAwakened() {
	e.fresh.Lock()
	defer e.fresh.Unlock()
	e.lists.running = append(e.lists.running, e.awakened...)
	clear(e.awakened)
	e.awakened = e.awakened[:0]
}

// flowState is the state of a flow after a tick.
type flowState struct {
	more  bool // a batch was not enough
	busy  bool // the credit may run out before a slow tick returns
	rests bool // it is off the ticker's list
}

// tickFlow ticks one flow, batch by batch.
func (e *Engine) tickFlow(f *flow, m *members.View, now int64, out []Event) ([]Event, flowState) {
	for {
		var s flowState
		if out, s = e.tickBatch(f, m, now, out); !s.more {
			return out, s
		}
	}
}

// tickBatch ticks one flow for at most a batch. Its lock is released even by a panic: the
// other threads must not hang on a flow that failed.
func (e *Engine) tickBatch(f *flow, m *members.View, now int64, out []Event) ([]Event, flowState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.advance(e, now)
	var s flowState
	if f.waits() > 0 {
		out, s.more = e.releaseDue(f, now, out)
	}
	f.stepLaw(e)
	f.publish()
	if s.rests = !s.more && f.isQuiet(m) && f.deactivate(); s.rests {
		f.meter.Store(nil)
	}
	s.busy = f.waits() > 0 || f.pace.published < max(f.credit.whole.Load()/2, f.pace.recent)
	return out, s
}

// deactivate takes a quiet flow off the ticker's list, unless something came meanwhile.
func (f *flow) deactivate() bool {
	f.active.Store(false)
	untouched := f.credit.amount.Load() == f.pace.published &&
		f.counts.turned.Load() == 0 && f.counts.bypassed.Load() == 0
	return untouched || !f.active.CompareAndSwap(false, true)
}

// releaseDue moves the requests of a flow whose time has come; more says that a batch was
// not enough.
func (e *Engine) releaseDue(f *flow, now int64, out []Event) (events []Event, more bool) {
	out, late := e.expire(f, now, out)
	out, held := e.askLimits(f, now, out)
	out, eligible := e.release(f, now, out)
	f.noteLimited(now)
	return out, late || held || eligible
}

// expire rejects what waited for too long, and of a blocked tenant whatever waits.
func (e *Engine) expire(f *flow, now int64, out []Event) (events []Event, more bool) {
	for n := 0; ; n++ {
		i := f.queue.NextDeadline()
		if i == queue.Nobody || f.queue.Entry(i).Deadline > now && !f.terms.blocked {
			return out, false
		}
		if n == batch {
			return out, true
		}
		o := f.timedOut(e, i, now)
		o.Waited = time.Duration(now - f.queue.Entry(i).Since)
		f.counts.rejected[o.Reason].Add(1)
		out = append(out, f.event(i, o))
		e.withdraw(f, i, now)
	}
}

// timedOut counts a request that waited for too long, for the stage that held it, and
// returns its answer: when, from now, a retry may succeed. Of a blocked tenant it returns
// that answer.
func (f *flow) timedOut(e *Engine, i int32, now int64) Outcome {
	en := f.queue.Entry(i)
	if !en.Eligible {
		f.counts.clientRejected.Add(en.Cost)
	} else {
		f.report.sum.rejected += en.Cost
		f.report.limited = true
	}
	o := Outcome{Verdict: Reject, Reason: QueueTimeout}
	switch {
	case f.terms.blocked:
		return blocked
	case en.Eligible:
		o.RetryAfter = retryAfter(f.credit.wait(0, f.queue.EligibleCost()))
	default:
		by := f.queue.LineOf(i).Hold
		e.count(by.by, didExpire)
		f.counts.heldLate.Add(1)
		o.RetryAfter = retryAfter(max(0, by.expected-now))
	}
	return o
}

// askLimits asks the limits of held requests whose time has come, the earliest first,
// while the share's queue has room.
func (e *Engine) askLimits(f *flow, now int64, out []Event) (events []Event, more bool) {
	q := f.queue
	for n := 0; ; n++ {
		i, at := q.NextRetry()
		if i == queue.Nobody || at > now || q.Eligible() >= f.terms.queueing.MaxRequests && !f.terms.policing() {
			return out, false
		}
		if n == batch {
			return out, true
		}
		out = e.askLimit(f, i, at, now, out)
	}
}

// askLimit makes the first held request of a client eligible if its limits admit it. They
// are asked as of the time for which they had announced that they would, not as of the tick
// that comes after. Otherwise each request would lose its limit half a tick.
func (e *Engine) askLimit(f *flow, i int32, due, now int64, out []Event) []Event {
	en := f.queue.Entry(i)
	at := max(due, now-recheck)
	rt := e.routeNow(f, en.Request.route)
	if rt.tenant != en.Request.route.tenant {
		e.putBackPaid(f, i, now) // its limits may be others
	}
	c := f.callOf(i, rt, at)
	ref := e.charge(&c, again)
	c.now = now
	switch {
	case ref.by == nil:
		return e.promote(f, i, &c, ref, out)
	case ref.isFinal():
		if ref.wait != keys.Never { // it was asked as of a time a little before now
			ref.wait = max(0, ref.wait-(now-at))
		}
		return e.finishHeld(f, i, now, f.refusedBy(e, ref, en.Cost), out)
	}
	f.queue.LineOf(i).Hold = holding{ref.by, at + ref.wait}
	en.Request.heldBy = ref.by
	f.queue.RetryAt(i, at+askAgainAfter(ref.wait))
	return out
}

// promote moves the first held request of a client, which its limits have admitted, on:
// to the share's queue, or out.
func (e *Engine) promote(f *flow, i int32, c *call, ref refusal, out []Event) []Event {
	q := f.queue
	en, line := q.Entry(i), q.LineOf(i)
	r := e.admitOrQueue(f, c, line)
	switch r.passage {
	case mustWait:
		w := &en.Request
		w.route, w.charged, w.shadow, w.mark, en.Class = c.route, ref.charged, ref.shadow, r.mark, r.class
		w.heldFor = c.now - en.Since
		q.Extend(i, c.now+int64(f.terms.queueing.MaxWait))
		f.countArrival(en.Cost)
		f.held.Load().add(line.Key, -1)
		q.Promote(i)
		return out
	case refused:
		e.refund(c, ref.charged)
		return e.finishHeld(f, i, c.now, f.rejected(r.reason, en.Cost, q.EligibleCost()), out)
	}
	var o Outcome
	e.setShadow(ref.shadow, &o)
	f.admit(c, r.passage, &o)
	o.Flight = nil // it was given when the request began to wait
	return e.finishHeld(f, i, c.now, o, out)
}

// finishHeld removes a held request and appends its event.
func (e *Engine) finishHeld(f *flow, i int32, now int64, o Outcome, out []Event) []Event {
	o.Waited = time.Duration(now - f.queue.Entry(i).Since)
	if o.Verdict == Reject {
		e.putBackPaid(f, i, now)
	}
	out = append(out, f.event(i, o))
	e.removeHeld(f, i)
	return out
}

// askAgainAfter returns when to ask a limit again that says how long to wait. What the
// others do, or a refund, may free it sooner, so not only then: after half of it.
func askAgainAfter(wait int64) int64 { return max(min(wait, max(recheck, wait/2)), leastWait) }

// askAllAgain has the limits of all held requests asked at the next tick: their numbers
// may be others.
func (f *flow) askAllAgain() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.queue != nil {
		f.queue.RetryAll()
	}
}

// routeNow returns the route that a held request would take by the configuration of now;
// the one it came by if that is gone.
func (e *Engine) routeNow(f *flow, came *route) *route {
	s := e.snap.Load()
	t := s.tenants[f.tenant]
	if t == nil || t == came.tenant {
		return came
	}
	if _, ok := s.pools[f.pool]; !ok {
		return came
	}
	return e.route(s, t, f.pool)
}
