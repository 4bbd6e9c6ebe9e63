package limiter

import (
	"cmp"
	"strings"
	"sync/atomic"
	"time"

	quotakeys "github.com/titrate/titrate/control/calendar/keys"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
	"github.com/titrate/titrate/control/limiter/internal/lock"
	"github.com/titrate/titrate/control/limiter/internal/tokens"
	"github.com/titrate/titrate/control/slots/keys"
)

// Requests that wait for the owners of their EXACT limits' keys. Such a request has one time, from
// when it began to wait, for all of its limits: tokens.Hold, or tokens.HoldGlobal for those of a GLOBAL scope.
//
// The thread that ends the wait for one limit takes the request to the next one (resume) while another
// thread may cancel it. tokenWait.mu puts them in order. So a Cancel meets the request in a line, in the
// queue of its flow, at its end, or between two limits. There it leaves a note, and resume gives up.

// tokenWait is the engine's record of a request that waits for an owner.
type tokenWait struct {
	tokens.Waiter[*tokenWait]
	ticket uint64
	req    Request // its texts are copies
	handle Handle

	mu     lock.Mutex[lock.Wait] // guards what follows, and the order of resume and cancel
	route  *route                // that it came by
	asked  int64                 // when it began to wait for the limit
	paid   charged
	ledger uint64 // bit i: limit i is left to the ledger
	at     int    // limit that it waits for, and which that is
	by     *limit
	over   bool          // its event is made, or it is cancelled
	moved  atomic.Uint64 // Handle in the queue of its flow, while it waits there

	// Of a request with concurrency limits, see slots.go.
	standIn  bool                         // it is no request, see shadowSlot
	released bool                         // all but slots has let it go: it is charged
	outcome  Outcome                      // then, or the answer when it began to wait in the queue of its flow
	heldBy   string                       // what it has waited for there; "": nothing
	slotsAt  int                          // the next limit of which it needs one
	slots    []taken                      // what it has
	slot     keys.Waiter[*tokenWait]      // its place in the line for a slot,
	units    quotakeys.Waiter[*tokenWait] // or for units
}

// newTokenWait makes the wait of a request for the i-th limit of its route, with those before it that are left
// to the ledger.
func (e *Engine) newTokenWait(c *call, r *Request, ticket uint64, i int, ledger uint64) *tokenWait {
	w := &tokenWait{ticket: ticket, req: *r, route: c.route, asked: c.now, paid: c.paid, ledger: ledger, at: i}
	w.Of, w.Cost, w.Since = w, c.cost, c.now
	if i < len(c.route.limits) { // else the caller says for what it waits
		w.by = c.route.limits[i]
		w.Cost = c.costOf(w.by)
	}
	w.req.Tenant, w.req.Client, w.req.Pool = strings.Clone(r.Tenant), strings.Clone(r.Client), strings.Clone(r.Pool)
	w.req.Identities, w.req.Costs = r.Identities.clone(), r.Costs.clone()
	e.places.take(w)
	e.waiting.Add(1)
	return w
}

// freeTokenWait ends the wait of a request that goes on without an event.
func (e *Engine) freeTokenWait(w *tokenWait) {
	e.waiting.Add(-1)
	e.places.free(w)
}

// AnswerTokens takes in what owners say, and appends the events of requests that this ends.
func (e *Engine) AnswerTokens(now int64, a *exchange.TokenAnswers, out []Event) []Event {
	if len(a.Owners.List) > 0 && !a.Global {
		e.slots.keys.SetOwners(now, a.Owners)
		e.slots.units.SetOwners(now, a.Owners)
	}
	for _, ended := range e.tokens[exchange.ScopeOf(a.Global)].Answer(now, a, nil) {
		out = e.resume(now, ended, out)
	}
	return out
}

// tickTokens ends the waits that have lasted for too long.
func (e *Engine) tickTokens(now int64, out []Event) []Event {
	for i := range e.tokens {
		for _, ended := range e.tokens[i].Expire(now, nil) {
			out = e.resume(now, ended, out)
		}
		e.tokens[i].Sweep(now)
	}
	e.places.sweep(e)
	return out
}

// drainTokens ends all waits for owners, as Drain does.
func (e *Engine) drainTokens(now int64, out []Event) []Event {
	for i := range e.tokens {
		for _, ended := range e.tokens[i].Drain(nil) {
			out = e.drainTokenWait(now, ended.Waiter.Of, out)
		}
	}
	out = e.resumeSlots(now, out) // they may need another slot, and wait for it
	e.slots.addSlots(e.slots.keys.Drain(now, nil))
	out = e.resumeSlots(now, out)
	e.slots.addUnits(e.slots.units.Drain(now, nil))
	return e.resumeSlots(now, out)
}

func (e *Engine) drainTokenWait(now int64, w *tokenWait, out []Event) []Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.call(now)
	if w.over {
		e.putBack(&c)
		return out
	}
	o := Outcome{Waited: time.Duration(now - w.Since)}
	if e.settings.boot != BootOpen || len(w.route.slots) > 0 {
		e.putBack(&c)
		o.Verdict, o.Reason, o.RetryAfter = Reject, QueueTimeout, drained
	}
	e.countDrained(w.route.flow, o.Verdict)
	return e.endTokenWait(w, o, out)
}

// countDrained counts a request that drainTokens has ended.
func (e *Engine) countDrained(f *flow, v Verdict) {
	switch {
	case f == nil && v == Admit:
		e.stats.unknownPool.Add(1)
	case f == nil:
		e.stats.rejected[QueueTimeout].Add(1)
	case v == Admit:
		f.counts.admitted.Add(1)
	default:
		f.counts.rejected[QueueTimeout].Add(1)
	}
}

// call is the request's, as of now.
func (w *tokenWait) call(now int64) call {
	c := newCall(now, &w.req, w.route)
	c.paid, c.held = w.paid, true
	return c
}

// resume lets a request go on whose wait for one limit has ended.
func (e *Engine) resume(now int64, ended tokens.Ended[*tokenWait], out []Event) []Event {
	w := ended.Waiter.Of
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.call(now)
	if ended.Outcome == grant.Admitted {
		e.mirror(&c, w.at, w.by)
	}
	if w.over { // cancelled after its wait had ended
		e.putBack(&c)
		return out
	}
	e.countAsked(w.by, now-w.asked)
	switch ended.Outcome {
	case grant.Refused:
		return e.refuseTokenWait(&c, w, refusal{by: w.by, wait: ended.Wait}, out)
	case grant.Unanswered, grant.Unowned:
		w.ledger |= 1 << w.at
		e.countUnasked(w.by, now, ended.Outcome)
	}
	return e.payRest(&c, w, out)
}

// payRest pays the EXACT limits that a request has not paid yet, until it has to wait for one.
func (e *Engine) payRest(c *call, w *tokenWait, out []Event) []Event {
	for i, l := range w.route.limits {
		if !e.isExact(l.exact) || !c.counts(l) || (c.paid.limits|w.ledger)>>i&1 != 0 {
			continue
		}
		k := c.tokenKey(l)
		if e.isInDebt(c, l, &k) {
			w.ledger |= 1 << i
			e.count(l, didLedger)
			continue
		}
		w.paid, w.at, w.by, w.asked, w.Cost = c.paid, i, l, c.now, c.costOf(l)
		switch wait, got := e.tokensOf(l).Join(&k, c.now, e.knownSpent(c, l, &k), &w.Waiter); got {
		case grant.Waits:
			return out
		case grant.Admitted:
			e.mirror(c, i, l)
		case grant.Refused:
			return e.refuseTokenWait(c, w, refusal{by: l, wait: wait}, out)
		case grant.Unanswered, grant.Unowned:
			w.ledger |= 1 << i
			e.countUnasked(l, c.now, got)
		}
	}
	return e.goOn(c, w, out)
}

func (e *Engine) refuseTokenWait(c *call, w *tokenWait, why refusal, out []Event) []Event {
	o := e.refuseExact(c, why)
	o.Waited = time.Duration(c.now - w.Since)
	return e.endTokenWait(w, o, out)
}

// goOn takes a request that has paid its EXACT limits through the rest.
func (e *Engine) goOn(c *call, w *tokenWait, out []Event) []Event {
	e.slots.queue(w) // before the ticker may release it: releaseToSlot waits for w.mu
	o, h, ok := e.enqueuePaid(c, w.ticket)
	if !ok || o.Verdict != Wait {
		e.slots.unqueue(w.ticket)
	}
	if !ok { // the flow has just been freed
		return e.beginAnew(c, w, out)
	}
	switch {
	case o.Verdict == Wait:
		w.outcome = o
		w.moved.Store(uint64(h))
		e.waiting.Add(-1)
		e.places.move(w)
		return out
	case o.Verdict == Admit && len(w.route.slots) > 0:
		w.released, w.outcome, w.paid = true, o, charged{}
		c.paid = charged{}
		return e.takeSlots(c, w, out)
	}
	o.Flight, o.Waited = nil, time.Duration(c.now-w.Since) // its Flight was given when the wait began
	return e.endTokenWait(w, o, out)
}

// beginAnew takes a request to which nothing is charged any more by its present route, in the time that
// it has left.
func (e *Engine) beginAnew(c *call, w *tokenWait, out []Event) []Event {
	e.unroute(c.route.flow)
	var o Outcome
	rt := e.begin(c.now, &w.req, &o)
	w.paid, w.ledger = charged{}, 0
	if rt == nil {
		o.Waited = time.Duration(c.now - w.Since)
		return e.endTokenWait(w, o, out)
	}
	w.route = rt
	anew := w.call(c.now)
	return e.payRest(&anew, w, out)
}

func (e *Engine) endTokenWait(w *tokenWait, o Outcome, out []Event) []Event {
	w.over = true
	e.freeTokenWait(w)
	pool := ""
	if w.route.flow != nil {
		pool = w.req.Pool
	}
	return append(out, Event{Ticket: w.ticket, Outcome: o, Tenant: w.route.tenant.name, Client: w.req.Client,
		Pool: pool, HeldBy: cmp.Or(w.heldBy, w.by.name)})
}

// cancelTokenWait is Cancel for a request that waits for an owner, or has waited.
func (e *Engine) cancelTokenWait(now int64, h Handle) bool {
	w := e.places.of(h)
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	moved := Handle(w.moved.Load())
	switch {
	case w.over:
		return false
	case moved != 0:
		if !e.Cancel(now, moved) {
			return false
		}
		e.slots.unqueue(w.ticket)
		e.places.free(w)
		return true
	}
	w.over = true
	switch {
	case w.released && e.leave(now, w):
		e.unrelease(now, w)
	case !w.released && e.tokensOf(w.by).Leave(&w.Waiter, now):
		c := w.call(now)
		e.putBack(&c)
	} // else the thread that has ended its wait puts back what it has paid
	if f := w.route.flow; f != nil {
		f.counts.cancelled.Add(1)
	}
	e.freeTokenWait(w)
	return true
}
