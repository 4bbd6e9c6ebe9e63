package limiter

import (
	"cmp"
	"slices"
	"time"

	"github.com/titrate/titrate/control/calendar"
	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/limiter/internal/tokens"
	"github.com/titrate/titrate/control/slots"
)

// The waits for slots and for units of quotas: when a request has been released, and its limits have none here.

// enqueueSlots is enqueueExact for a request with concurrency limits.
func (e *Engine) enqueueSlots(c *call, r *Request, ticket uint64) (out Outcome, h Handle, ended bool) {
	w := e.newTokenWait(c, r, ticket, len(c.route.limits), 0)
	w.by = c.route.slots[0]
	w.mu.Lock()
	defer w.mu.Unlock()
	if events := e.payRest(c, w, nil); len(events) > 0 {
		if out = events[0].Outcome; out.Verdict == Admit {
			out.Flight = c.route.flight
		}
		return out, 0, true
	}
	if w.moved.Load() != 0 {
		return w.outcome, w.handle, true
	}
	c.route.flow.countHeld()
	return Outcome{Verdict: Wait, Reason: ClientLimit, RetryAfter: time.Duration(w.by.mayWait()), Limit: w.by.name,
		Flight: c.route.flight}, w.handle, true
}

// mayWait returns how long a request waits for a slot of the limit or for a token.
func (l *limit) mayWait() int64 {
	if l.slots == nil {
		return tokens.Hold
	}
	return cmp.Or(l.slots.queue.Wait, slots.MaxWait)
}

// joinOne is tryOne for a request that waits if it has to.
func (e *Engine) joinOne(c *call, l *limit, w *tokenWait) slots.Outcome {
	name := c.slotName(l)
	if l.quota != nil {
		w.units.Cost = calendar.Units(c.costOf(l))
		if w.units.Of == nil { // it is also read without a lock
			w.units.Of = w
		}
		return e.slots.units.Join(c.now, unitsName(&name), &w.units)
	}
	if w.slot.Of == nil { // likewise
		w.slot.Of = w
	}
	return e.slots.keys.Join(c.now, &name, &w.slot)
}

// got returns the slot or the units that joinOne has given a request at once.
func (w *tokenWait) got() taken {
	if w.by.quota != nil {
		return taken{units: w.units.Spent, spent: true}
	}
	return taken{slot: w.slot.Key}
}

// leave ends the wait of a request for a slot or for units; false: it has ended.
func (e *Engine) leave(now int64, w *tokenWait) bool {
	if w.by.quota != nil {
		return e.slots.units.Leave(now, &w.units)
	}
	return e.slots.keys.Leave(now, &w.slot)
}

// takeSlots takes the slots that a released request does not have, until it has to wait for one. w.mu is locked.
func (e *Engine) takeSlots(c *call, w *tokenWait, out []Event) []Event {
	for ; w.slotsAt < len(w.route.slots); w.slotsAt++ {
		l := w.route.slots[w.slotsAt]
		if !c.counts(l) {
			continue
		}
		if l.mode == config.Shadow {
			if one, got := e.tryOne(c, l); got == slots.Admitted {
				w.slots = append(w.slots, one)
			} else {
				e.shadowSlot(c, l, got, &w.outcome)
			}
			continue
		}
		w.by, w.asked = l, c.now
		switch e.joinOne(c, l, w) {
		case slots.Waits:
			w.slotsAt++ // resumeSlot has the slot
			return out
		case slots.Admitted:
			w.slots = append(w.slots, w.got())
		default:
			return e.refuseSlot(c, w, out)
		}
	}
	o := w.outcome
	o.Flight, o.Waited = nil, time.Duration(c.now-w.Since) // its Flight was given when the wait began
	o.Slots = e.slots.name(w.slots)
	w.slots = nil
	return e.endTokenWait(w, o, out)
}

// refuseSlot refuses a released request for which there is no slot. w.mu is locked.
func (e *Engine) refuseSlot(c *call, w *tokenWait, out []Event) []Event {
	e.unrelease(c.now, w)
	o := e.refuseExact(c, refusal{by: w.by, wait: e.waitOf(w.by, c)})
	o.Waited = time.Duration(c.now - w.Since)
	return e.endTokenWait(w, o, out)
}

// unrelease gives back what a released request was charged, and its slots: it does not start. w.mu is locked.
func (e *Engine) unrelease(now int64, w *tokenWait) {
	e.slots.undo(now, w.slots)
	w.slots = nil
	e.settle(now, &w.req, Plain, 0, false)
	if w.req.Costs != nil {
		for i, cost := range w.req.Costs {
			if cost > 0 {
				e.settle(now, &w.req, i, 0, false)
			}
		}
	}
	if f := w.route.flow; f != nil {
		f.counts.withdrawn.Add(1)
	}
}

// releaseToSlots takes the slots of the requests that queues have released: out from the given place on. Requests that
// have to wait for one are taken out.
func (e *Engine) releaseToSlots(now int64, from int, out []Event) []Event {
	kept := out[:from]
	for _, released := range out[from:] {
		w := e.slots.unqueue(released.Ticket)
		switch {
		case w == nil:
			kept = append(kept, released)
		case released.Outcome.Verdict != Admit:
			w.mu.Lock() // the request may still be on its way into the queue
			e.places.free(w)
			w.mu.Unlock()
			kept = append(kept, released)
		default:
			kept = e.releaseToSlot(now, w, released, kept)
		}
	}
	return kept
}

func (e *Engine) releaseToSlot(now int64, w *tokenWait, released Event, out []Event) []Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.waiting.Add(1)
	w.moved.Store(0)
	w.released, w.outcome, w.heldBy, w.paid = true, released.Outcome, released.HeldBy, charged{}
	w.route = e.routeNow(w.route.flow, w.route) // its limits may be others by now
	c := w.call(now)
	return e.takeSlots(&c, w, out)
}

// resumeSlots lets requests go on whose waits for slots have ended.
func (e *Engine) resumeSlots(now int64, out []Event) []Event {
	for ended := e.slots.takeEnded(); len(ended) > 0; ended = e.slots.takeEnded() {
		for _, one := range ended {
			out = e.resumeSlot(now, one, out)
		}
	}
	return out
}

func (e *Engine) resumeSlot(now int64, one endedWait, out []Event) []Event {
	w := one.w
	if w.standIn {
		if one.outcome == slots.Admitted {
			e.endStandIn(now, one.got)
		} else {
			e.count(w.by, didShadow)
		}
		return out
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.call(now)
	if one.outcome == slots.Admitted {
		w.slots = append(w.slots, one.got)
	}
	if w.over { // cancelled after its wait had ended
		e.unrelease(now, w)
		return out
	}
	e.countAsked(w.by, now-w.asked)
	if one.outcome != slots.Admitted {
		return e.refuseSlot(&c, w, out)
	}
	return e.takeSlots(&c, w, out)
}

// tickSlots ends the waits for slots that have lasted too long, and frees lent slots that nobody has kept.
func (e *Engine) tickSlots(now int64, out []Event) []Event {
	e.slots.free(now, e.slots.takeUnkept(now))
	out = e.askOtherSlots(now, out)
	e.slots.addSlots(e.slots.keys.Expire(now, nil))
	e.slots.addUnits(e.slots.units.Expire(now, nil))
	return e.resumeSlots(now, out)
}

// askOtherSlots has requests go on that wait for a slot of a limit which the configuration in force does not hold.
func (e *Engine) askOtherSlots(now int64, out []Event) []Event {
	s := e.snap.Load()
	if e.slots.asked.Load() == s || e.slots.asked.Swap(s) == s {
		return out
	}
	for _, w := range e.slots.keys.Waiting() {
		if !w.Of.standIn {
			out = e.askOtherSlot(now, w.Of, out)
		}
	}
	for _, w := range e.slots.units.Waiting() {
		if !w.Of.standIn {
			out = e.askOtherSlot(now, w.Of, out)
		}
	}
	return out
}

func (e *Engine) askOtherSlot(now int64, w *tokenWait, out []Event) []Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	rt, ok := e.findRoute(&w.req)
	if !ok || w.over || rt.tenant == w.route.tenant {
		return out
	}
	c := newCall(now, &w.req, rt)
	isIts := func(l *limit) bool {
		name := c.slotName(l)
		key := w.slot.Key
		if w.by.quota != nil {
			key = w.units.Key
		}
		return l.mode == config.Enforce && c.counts(l) && (l.quota != nil) == (w.by.quota != nil) &&
			(key == name.Key || key == name.Rest)
	}
	if slices.ContainsFunc(rt.slots, isIts) || !e.leave(now, w) {
		return out
	}
	e.slots.undo(now, w.slots)
	w.route, w.slots, w.slotsAt = rt, nil, 0
	c = w.call(now)
	return e.takeSlots(&c, w, out)
}
