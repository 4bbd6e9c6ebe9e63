package limiter

import (
	"time"

	"github.com/titrate/titrate/control/config"
)

// maxHeld bounds the requests of one flow that wait for their clients' limits,
// over all clients; those that wait for the share have Queue.MaxRequests.
const maxHeld = 1 << 16

// verdict is the tenant stage's answer under the lock.
type verdict struct {
	Verdict
	reason Reason
	mark   bool
	shadow bool
	class  uint8 // of a Wait: front or back
}

// Enqueue decides again, under the flow's lock, and holds the request when it
// has to wait: then the verdict is Wait, the handle names it, and one Event with
// the ticket will come from Tick or Drain unless Cancel takes it back. After
// Admit and Reject the handle is 0 and no event comes. Keep ticking at 5 ms once
// something waits.
func (e *Engine) Enqueue(now int64, r *Request, ticket uint64) (Outcome, Handle) {
	if r.Mode != config.Enforce {
		return e.lenient(now, r), 0
	}
	for {
		rt, out, done := e.resolve(r)
		switch {
		case done:
			return out, 0
		case rt.flow == nil:
			return e.limitsOnly(rt, r, now, r.cost()), 0
		case rt.blocked:
			return e.shutOut(rt.flow, r.cost()), 0
		}
		if out, h, ok := e.enqueueBy(rt, r, now, ticket); ok {
			return out, h
		}
		e.unroute(rt.flow)
	}
}

// enqueueBy is Enqueue by a route; not ok says that its flow has just been freed.
func (e *Engine) enqueueBy(rt *route, r *Request, now int64, ticket uint64) (out Outcome, h Handle, ok bool) {
	f := rt.flow
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone() {
		return out, 0, false
	}
	f.advance(e, now)
	f.publish()
	e.wake(f)
	out, h = e.enqueue(f, rt, r.subject(), now, r.cost(), ticket)
	f.publish()
	if out.Verdict != Reject {
		out.Flight = rt.flight
	}
	return out, h, true
}

func (e *Engine) enqueue(f *flow, rt *route, who subject, now, cost int64, ticket uint64) (Outcome, Handle) {
	q := f.queue()
	key := f.line(rt, who)
	en := entry{ticket: ticket, since: now, cost: cost, route: rt}
	if s := q.find(key); s != nil && s.held > 0 { // behind its own earlier ones
		e.want(s.by, who.under(s.by), now, cost)
		ref := refusal{by: s.by, wait: e.turn(s, who.under(s.by), now, cost)}
		if ref.hopeless() || s.held >= s.by.queue.MaxRequests || q.full() {
			return f.refusedBy(ref, cost), 0
		}
		return e.hold(f, key, who, en, s.by, s.expected)
	}
	ref := e.charge(rt, who, now, cost, final)
	if l := ref.by; l != nil {
		if ref.hopeless() || q.full() {
			return f.refusedBy(ref, cost), 0
		}
		return e.hold(f, key, who, en, l, now+ref.wait)
	}
	en.charged, en.shadow = ref.charged, ref.shadow
	v := e.meet(f, rt, who, q.find(key), now, cost)
	switch v.Verdict {
	case Admit:
		out := v.admits(ref.shadow.seen())
		f.count(out.Shadow, cost)
		return out, 0
	case Reject:
		e.refund(rt, who, now, cost, ref.charged)
		return f.rejected(v.reason, cost, q.eligibleCost), 0
	}
	en.eligible, en.mark, en.class = true, v.mark, v.class
	en.deadline = now + int64(f.queueing.MaxWait)
	f.arrived(cost)
	h := e.push(f, q.subOf(key, who.client), who, en)
	return Outcome{Verdict: Wait, Reason: TenantShare, RetryAfter: time.Duration(f.wait(0, q.eligibleCost)), Limit: ShareName}, h
}

// admits is the outcome of a request that the tenant stage admits at once.
func (v verdict) admits(seen Outcome) Outcome {
	if v.shadow {
		return shadowed(seen)
	}
	return seen
}

// count counts a request that was admitted under the lock.
func (f *flow) count(shadow bool, cost int64) {
	f.admits.Add(1)
	if shadow {
		f.counts.shadowed.Add(1)
		f.counts.shadowedCost.Add(cost)
	}
}

// want tells a limit of demand that it is not asked to admit yet, because earlier
// requests of the client wait: what the replica claims must count it.
func (e *Engine) want(l *limit, client string, now, cost int64) {
	if _, shared, ok := e.take(l, client, now, cost, false); ok {
		e.giveBack(l, client, now, cost, shared)
	}
}

// turn estimates when the limit lets cost pass behind what its client has held.
// It errs by a third on the late side: rejecting a few at once is kinder than
// keeping a queue at the very edge where its head times out.
func (e *Engine) turn(s *sub, client string, now, cost int64) int64 {
	rate := e.member.Load().local(s.by.numbers(client)).rate * e.part(s.by, client)
	return max(0, s.expected-now) + span(units(s.heldCost+cost), rate)/3*4
}

// part is the part of a client's limit that this replica may use: its fair one
// among those that use the key.
func (e *Engine) part(l *limit, client string) float64 {
	_, _, s := e.find(l, client, false)
	if s == nil {
		return 1
	}
	defer s.mu.Unlock()
	fair, _ := s.ledger.Shares()
	return fair
}

// full reports whether no more requests may wait for their clients' limits.
func (q *queue) full() bool { return q.held >= maxHeld || q.len() >= maxPlaces }

// hold lets a request wait for a limit.
func (e *Engine) hold(f *flow, key uint64, who subject, en entry, l *limit, expected int64) (Outcome, Handle) {
	si := f.q.subOf(key, who.client)
	s := &f.q.subs[si]
	if s.held == 0 {
		s.by, s.expected, s.retryAt = l, expected, en.since+again(expected-en.since)
	}
	en.deadline = en.since + int64(l.queue.MaxWait)
	f.waiters.Load()[key%waiterBits].Add(1)
	h := e.push(f, si, who, en)
	return Outcome{Verdict: Wait, Reason: ClientLimit, RetryAfter: time.Duration(max(0, expected-en.since)), Limit: l.name}, h
}

func (e *Engine) push(f *flow, si int32, who subject, en entry) Handle {
	en.ids, en.classes = who.ids.clone(), who.classes
	i := f.q.push(si, en)
	e.heldNow.Add(1)
	f.counts.waited.Add(1)
	return newHandle(f.id, i, f.q.entries[i].generation)
}

// arrived counts a request that begins to wait for the share.
func (f *flow) arrived(cost int64) {
	f.pending += units(cost)
	f.sum.demand += cost
}

// meet lets a request that all limits admit meet the tenant's share. Wait says
// that it joins the queue.
func (e *Engine) meet(f *flow, rt *route, who subject, s *sub, now, cost int64) verdict {
	q := f.q
	switch {
	case f.mode == config.Off || f.open.Load():
		f.bypass(cost)
		return verdict{Verdict: Admit}
	case q.eligible == 0 && f.take(cost):
		f.metered(who, cost)
		return verdict{Verdict: Admit}
	case f.mode == config.Shadow:
		f.bypass(cost)
		return verdict{Verdict: Admit, shadow: true}
	case f.queueing.Law == config.Police && f.borrow(who, cost):
		f.metered(who, cost)
		return verdict{Verdict: Admit}
	case f.queueing.Law == config.Police:
		return f.turnAway(TenantShare, cost)
	case q.eligible >= f.queueing.MaxRequests || q.len() >= maxPlaces:
		return f.turnAway(QueueFull, cost)
	}
	f.manage(e)
	return f.face(e, who, s, now, cost)
}

// turnAway counts a request that the tenant stage rejects.
func (f *flow) turnAway(why Reason, cost int64) verdict {
	f.refuse(cost)
	return verdict{Verdict: Reject, reason: why}
}

// Cancel takes back a held request whose caller has gone: it is charged
// nothing, and leaves no backlog. It returns false when its event was or is
// being delivered, or the handle is 0 or old.
func (e *Engine) Cancel(now int64, h Handle) bool {
	f := e.flowBy(h)
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.q == nil {
		return false
	}
	i, ok := f.q.lookup(h)
	if !ok {
		return false
	}
	f.advance(e, now)
	e.withdraw(f, i, now)
	f.counts.cancelled.Add(1)
	f.publish()
	return true
}

// withdraw takes a request out of the queue unserved: refunded, and out of S.
func (e *Engine) withdraw(f *flow, i int32, now int64) {
	en := &f.q.entries[i]
	s := &f.q.subs[en.sub]
	if en.eligible {
		e.refund(en.route, f.q.who(en), now, en.cost, en.charged)
		f.ctl.Remove(units(en.cost))
		f.corrected(s.client, -en.cost)
		if en.class == front {
			f.fronted -= en.cost // it leaves the rate to those behind
		}
	} else {
		f.waiters.Load()[s.key%waiterBits].Add(-1)
	}
	f.q.remove(i)
	e.heldNow.Add(-1)
	if f.q.eligible == 0 {
		f.pacer.Idle()
	}
	f.reconcile()
}
