package limiter

import (
	"math"
	"time"

	"github.com/titrate/titrate/control/config"
)

// recheck is the least time between two questions to a limit for a held request, see
// again.
const recheck = int64(20 * time.Millisecond)

// leastWait keeps a limit that refuses and says "now" from being asked for ever.
const leastWait = int64(100 * time.Microsecond)

// Tick releases what may go now, expires what waited too long, and steps the
// controllers of active flows. It appends the events to out and returns it. One
// caller at a time, every 5 ms while Busy, every 50 ms or so otherwise.
func (e *Engine) Tick(now int64, out []Event) []Event {
	e.work.Lock()
	defer e.work.Unlock()
	e.expireShares(now)
	e.gather()
	m := e.member.Load()
	busy := false
	keep := e.running[:0]
	for _, f := range e.running {
		var strained, rest bool
		out, strained, rest = e.visit(f, m, now, out)
		busy = busy || strained
		if rest {
			e.rest(f, now)
		} else {
			keep = append(keep, f)
		}
	}
	clear(e.running[len(keep):])
	e.running = keep
	e.busy.Store(busy)
	e.freeIdle(now)
	e.freeReserved(now)
	return out
}

// batch bounds how many requests of one flow each step of a tick moves before other
// threads get the flow's lock: a third of a millisecond of work.
const batch = 256

// visit ticks one flow.
func (e *Engine) visit(f *flow, m *membership, now int64, out []Event) (events []Event, strained, rest bool) {
	for more := true; more; {
		out, strained, rest, more = e.visitOnce(f, m, now, out)
	}
	return out, strained, rest
}

// visitOnce ticks one flow for at most a batch. Its lock is given back even by a
// panic: the other threads must not hang on a flow that failed.
func (e *Engine) visitOnce(f *flow, m *membership, now int64, out []Event) (events []Event, strained, rest, more bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out, more = e.tickFlow(f, now, out)
	if rest = !more && f.quiet(m) && f.lie(); rest {
		f.meter.Store(nil)
	}
	return out, f.strained(), rest, more
}

// Busy reports whether something is held or close to its share, so that Tick is
// wanted at 5 ms. It becomes true as soon as Enqueue holds a request.
func (e *Engine) Busy() bool { return e.heldNow.Load() > 0 || e.busy.Load() }

// gather takes over the flows that became active.
func (e *Engine) gather() {
	e.fresh.Lock()
	defer e.fresh.Unlock()
	e.running = append(e.running, e.awakened...)
	clear(e.awakened)
	e.awakened = e.awakened[:0]
}

// lie takes a quiet flow off the ticker's list, unless something came meanwhile.
func (f *flow) lie() bool {
	f.active.Store(false)
	untouched := f.credit.Load() == f.published && f.turned.Load() == 0 && f.bypassed.Load() == 0
	return untouched || !f.active.CompareAndSwap(false, true)
}

// strained reports whether the credit may run out before a slow tick returns.
func (f *flow) strained() bool {
	return f.q != nil && f.q.len() > 0 || f.published < max(f.brim.Load()/2, f.recent)
}

// tickFlow steps one flow. more tells that a batch was not enough.
func (e *Engine) tickFlow(f *flow, now int64, out []Event) (events []Event, more bool) {
	f.advance(e, now)
	if f.q != nil && f.q.len() > 0 {
		var late, held, eligible bool
		out, late = e.expire(f, now, out)
		out, held = e.promoteHeld(f, now, out)
		out, eligible = e.release(f, now, out)
		f.judge(now)
		more = late || held || eligible
	}
	f.manage(e)
	f.publish()
	return out, more
}

// expire rejects what waited for too long, and of a blocked tenant whatever waits.
func (e *Engine) expire(f *flow, now int64, out []Event) (events []Event, more bool) {
	q := f.q
	for n := 0; len(q.ends) > 0; n++ {
		i := q.ends[0]
		en := &q.entries[i]
		if en.deadline > now && !f.blocked {
			break
		}
		if n == batch {
			return out, true
		}
		o := f.timedOut(en, now)
		o.Waited = time.Duration(now - en.since)
		f.counts.rejected[o.Reason].Add(1)
		ev := f.event(en, o)
		e.withdraw(f, i, now)
		out = append(out, ev)
	}
	return out, false
}

// timedOut counts a request that waited for too long, for the stage that held
// it, and returns its answer: when, from now, a retry may succeed. Of a blocked
// tenant it returns that answer.
func (f *flow) timedOut(en *entry, now int64) Outcome {
	if !en.eligible {
		f.counts.clientRejected.Add(en.cost)
	} else {
		f.sum.rejected += en.cost
		f.limited = true
	}
	o := Outcome{Verdict: Reject, Reason: QueueTimeout}
	switch {
	case f.blocked:
		return blocked
	case en.eligible:
		o.RetryAfter = retryAfter(f.wait(0, f.q.eligibleCost))
	default:
		o.RetryAfter = retryAfter(max(0, f.q.subs[en.sub].expected-now))
	}
	return o
}

// promoteHeld asks the limits of held requests whose time has come, the earliest first,
// while the share's queue has room.
func (e *Engine) promoteHeld(f *flow, now int64, out []Event) (events []Event, more bool) {
	q := f.q
	for n := 0; len(q.retry) > 0; n++ {
		si := q.retry[0]
		if q.subs[si].retryAt > now || q.eligible >= f.queueing.MaxRequests && f.queueing.Law != config.Police {
			break
		}
		if n == batch {
			return out, true
		}
		out = e.promoteFirst(f, si, now, out)
	}
	return out, false
}

// promoteFirst makes the first held request of a client eligible if its limits admit
// it. They are asked as of the time for which they had announced that they would, not
// as of the tick that comes after: or each request would lose its limit half a tick.
func (e *Engine) promoteFirst(f *flow, si int32, now int64, out []Event) []Event {
	q := f.q
	s := &q.subs[si]
	i := s.firstHeld
	en := &q.entries[i]
	rt := e.routeNow(f, en)
	at := max(s.retryAt, now-recheck)
	ref := e.charge(rt, q.who(en), at, en.cost, retry)
	if ref.by == nil || ref.hopeless() {
		return e.settle(f, si, i, rt, ref, at, now, out)
	}
	s.by, s.expected = ref.by, at+ref.wait
	q.postpone(si, at+again(ref.wait))
	return out
}

// stir has the limits of all held requests asked at the next tick: their numbers may
// be others.
func (f *flow) stir() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.q != nil {
		f.q.stir()
	}
}

// again returns when to ask a limit again that says how long to wait. What the others
// do, or a refund, may free it sooner, so not only then: after half of it.
func again(wait int64) int64 {
	return max(min(wait, max(recheck, wait/2)), leastWait)
}

// settle moves the first held request of a client, whose limits were asked as of
// at, on: to the share's queue, or out.
func (e *Engine) settle(f *flow, si, i int32, rt *route, ref refusal, at, now int64, out []Event) []Event {
	q := f.q
	s, en := &q.subs[si], &q.entries[i]
	if ref.by != nil {
		if ref.wait != never { // it was asked as of a time a little before now
			ref.wait = max(0, ref.wait-(now-at))
		}
		return e.finish(f, i, now, f.refusedBy(ref, en.cost), out)
	}
	v := e.meet(f, rt, q.who(en), s, now, en.cost)
	switch v.Verdict {
	case Admit:
		o := v.admits(ref.shadow.seen())
		f.count(o.Shadow, en.cost)
		return e.finish(f, i, now, o, out)
	case Reject:
		e.refund(rt, q.who(en), now, en.cost, ref.charged)
		return e.finish(f, i, now, f.rejected(v.reason, en.cost, q.eligibleCost), out)
	}
	en.route, en.charged, en.shadow, en.mark, en.class = rt, ref.charged, ref.shadow, v.mark, v.class
	q.extend(i, now+int64(f.queueing.MaxWait))
	f.arrived(en.cost)
	f.waiters.Load()[s.key%waiterBits].Add(-1)
	q.admit(si)
	return out
}

// finish removes a held (not eligible) request and emits its event.
func (e *Engine) finish(f *flow, i int32, now int64, o Outcome, out []Event) []Event {
	en := &f.q.entries[i]
	o.Waited = time.Duration(now - en.since)
	ev := f.event(en, o)
	f.waiters.Load()[f.q.subs[en.sub].key%waiterBits].Add(-1)
	f.q.remove(i)
	e.heldNow.Add(-1)
	return append(out, ev)
}

// routeNow returns the route that a held request would take by the
// configuration of now; the one it came by if that is gone.
func (e *Engine) routeNow(f *flow, en *entry) *route {
	s := e.snap.Load()
	t := s.tenants[f.tenant]
	if t == nil || t == en.route.tenant {
		return en.route
	}
	if _, ok := s.pools[f.pool]; !ok {
		return en.route
	}
	return e.route(s, t, f.pool)
}

// release lets go what the pacer pays for, in the order of the queue.
func (e *Engine) release(f *flow, now int64, out []Event) (events []Event, more bool) {
	q := f.q
	free := f.mode != config.Enforce || f.open.Load()
	step := max(int64(1e-3*f.ctl.Rate()*unit), f.spendable()/256)
	for n := 0; ; n++ {
		credit := q.eligibleCost // is enough for all
		if !free {
			credit = f.spendable()
		}
		i := q.next(credit, step)
		if i == nobody || n == batch {
			f.save()
			f.reconcile()
			return out, i != nobody
		}
		en := &q.entries[i]
		if free {
			f.ctl.Remove(units(en.cost))
		} else {
			var gone bool
			if out, gone = e.leave(f, i, now, out); gone {
				continue
			}
			f.pacer.Charge(units(en.cost))
		}
		out = append(out, f.admitted(en, now))
		q.serve(i)
		e.heldNow.Add(-1)
	}
}

// spendable is the credit that no subqueue has yet: what the controller has
// released, or, as on the fast path, enzyme that is free ahead of it. Without the
// latter the part of a request that a step leaves unbound would keep a short queue
// from ever emptying, and everybody would wait a tick.
func (f *flow) spendable() int64 {
	return int64(math.Round((f.pacer.Credit()+f.ctl.Free())*unit)) - f.q.banked
}

// save tells the pacer what the queue saves for: what subqueues have, and what the
// next head is short of.
func (f *flow) save() {
	i := f.q.turn()
	if i == nobody {
		f.pacer.Idle()
		return
	}
	en := &f.q.entries[i]
	f.pacer.Affords(units(f.q.banked + en.cost - f.q.subs[en.sub].deficit))
}

// event is what becomes of a request that is still in the queue.
func (f *flow) event(en *entry, o Outcome) Event {
	return Event{en.ticket, o, f.tenant, f.q.subs[en.sub].client, f.pool}
}

// admitted counts a released request and returns its event.
func (f *flow) admitted(en *entry, now int64) Event {
	f.sum.served += en.cost
	f.admits.Add(1)
	f.counts.late.Add(1)
	if en.mark {
		f.counts.marked.Add(1)
		f.sum.marked += en.cost
		f.limited = true
	}
	o := en.shadow.seen()
	o.Mark, o.Waited = en.mark, time.Duration(now-en.since)
	if o.Shadow {
		f.counts.shadowed.Add(1)
		f.counts.shadowedCost.Add(en.cost)
	}
	return f.event(en, o)
}

// drained is when to come back after a refusal by a process that ends.
const drained = time.Second

// Drain ends all waiting, for shutdown: what waits is admitted when the boot
// policy is OPEN and rejected as queue_timeout when it is CLOSED. Call it after
// the last Enqueue.
func (e *Engine) Drain(now int64, out []Event) []Event {
	e.work.Lock()
	defer e.work.Unlock()
	for _, f := range e.live() {
		out = e.drainFlow(f, now, out)
	}
	return out
}

func (e *Engine) drainFlow(f *flow, now int64, out []Event) []Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.q == nil || f.q.len() == 0 {
		return out
	}
	f.advance(e, now)
	defer f.publish()
	for i := range f.q.entries {
		en := &f.q.entries[i]
		if !en.used {
			continue
		}
		ev := f.event(en, Outcome{
			Verdict: Reject, Reason: QueueTimeout, RetryAfter: drained, Waited: time.Duration(now - en.since),
		})
		if e.boot == BootOpen {
			ev = f.admitted(en, now)
		} else {
			f.counts.rejected[QueueTimeout].Add(1)
			f.sum.rejected += en.cost
		}
		e.withdraw(f, int32(i), now)
		out = append(out, ev)
	}
	return out
}
