package limiter

import (
	"time"

	"github.com/titrate/titrate/control/calendar"
	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/slots"
	"github.com/titrate/titrate/control/slots/keys"
)

// Concurrency limits (package slots). A request takes a slot of each such limit when it is released: when all other
// limits and its share have let it go. While it waits for them it has none.
//
//	Decide ──► slots ──► decidePaid                      slots were here
//	   │ Wait
//	Enqueue ─► enqueuePaid ─► released ─► line of the key ── a slot ──► next limit … ──► Event with Slots
//	                                            └── its wait is over, or all are in use: refused
//
// A request that gets no slot is charged nothing: what it was charged at its release is given back.

// Slots names the slots of a request; the zero Slots has none.
type Slots uint64

// slotState is the state of the key of a request.
type slotState keys.State

func (e *Engine) slotState(l *limit, c *call) slotState {
	name := c.slotName(l)
	return slotState(e.slots.keys.Look(c.now, &name))
}

// passes reports whether a request would get a slot, as far as is known here: the owner may say otherwise.
func (s slotState) passes() bool { return s.Next == slots.Admitted || s.Next == slots.Waits }

// slotName says which key of a limit a request uses.
func (c *call) slotName(l *limit) keys.Name {
	client := c.under(l)
	n := keys.Name{Key: l.keys.Key(client), Rest: l.keys.Key(""),
		KeyName: exchange.KeyName{Tenant: l.tenant, Limit: l.name}}
	if l.slots != nil {
		n.Queue = l.slots.queue
	}
	if !l.perTenant {
		n.Client = client
	}
	return n
}

// decideSlots is decideExact for a request with concurrency limits.
func (e *Engine) decideSlots(c *call, out *Outcome) (done bool) {
	list, full, got := e.trySlots(c)
	switch got {
	case slots.Admitted:
	case slots.Waits:
		*out = Outcome{Verdict: Wait, Reason: ClientLimit, Limit: full.name}
		return true
	default:
		*out = e.refuseExact(c, refusal{by: full, wait: e.waitOf(full, c)})
		return true
	}
	starts := false
	defer func() { // also after a panic
		if !starts {
			e.slots.undo(c.now, list)
		}
	}()
	done = e.decidePaid(c, out)
	if done && out.Verdict == Admit {
		e.watchSlots(c, out, list, false)
		starts = true
	}
	return done
}

// slotRetry is the advice to a request that found all slots in use: nothing says when one becomes free.
const slotRetry = int64(time.Second)

// trySlots takes a slot of each concurrency limit that is not in SHADOW. If one has none the request takes no slot, and
// full is that limit.
func (e *Engine) trySlots(c *call) (list []taken, full *limit, got slots.Outcome) {
	for _, l := range c.route.slots {
		if !c.counts(l) || l.mode == config.Shadow {
			continue
		}
		one, got := e.tryOne(c, l)
		if got != slots.Admitted {
			e.slots.undo(c.now, list)
			return nil, l, got
		}
		list = append(list, one)
	}
	return list, nil, slots.Admitted
}

// tryOne takes a slot of a limit, or spends units of its quota, if that is here.
func (e *Engine) tryOne(c *call, l *limit) (h taken, got slots.Outcome) {
	name := c.slotName(l)
	if l.quota != nil {
		h.spent = true
		h.units, got = e.slots.units.Try(c.now, unitsName(&name), calendar.Units(c.costOf(l)))
		return h, got
	}
	h.slot, got = e.slots.keys.Try(c.now, &name)
	return h, got
}

// watchSlots takes the slots that there are for a request that is admitted anyway: of limits in SHADOW, or of all
// limits since its route is. They come to the slots that the request has.
func (e *Engine) watchSlots(c *call, out *Outcome, list []taken, all bool) {
	for _, l := range c.route.slots {
		if !c.counts(l) || !all && l.mode != config.Shadow {
			continue
		}
		if one, got := e.tryOne(c, l); got == slots.Admitted {
			list = append(list, one)
		} else {
			e.shadowSlot(c, l, got, out)
		}
	}
	out.Slots = e.slots.name(list)
}

// shadowSlot lets a request pass for which a limit in SHADOW has no slot here. If it would have to wait, a stand-in
// waits in its place: so the owner is asked, and the limit counts whether the request would have been refused. In the
// queue of an enforced limit, of a route in SHADOW, it takes no place of a request: there one asks for all.
func (e *Engine) shadowSlot(c *call, l *limit, got slots.Outcome, out *Outcome) {
	if got == slots.Waits && l.mode == config.Enforce && l.slots != nil && l.slots.queue.Wait > 0 &&
		e.slotState(l, c).Waiting > 0 {
		return
	}
	if got == slots.Waits {
		w := &tokenWait{by: l, standIn: true}
		switch got = e.joinOne(c, l, w); got {
		case slots.Waits:
			return
		case slots.Admitted: // it came meanwhile
			e.endStandIn(c.now, w.got())
			return
		}
	}
	if !out.Shadow {
		e.setShadow(l, out)
	}
}

// endStandIn frees the slot of a stand-in. Units stay spent: the request was let through.
func (e *Engine) endStandIn(now int64, got taken) {
	if !got.spent {
		e.slots.undo(now, []taken{got})
	}
}

// lendFor bounds the time that slots may be on their way to another stream.
const lendFor = int64(time.Second)

// LendSlots notes that the stream of a request with slots has ended, but that another stream is about to begin which
// continues it and calls KeepSlots. If none does within a second the slots are free.
func (e *Engine) LendSlots(now int64, s Slots) {
	e.slots.mu.Lock()
	defer e.slots.mu.Unlock()
	if e.slots.held[s] != nil {
		e.slots.lent[s] = now + lendFor
	}
}

// KeepSlots gives lent slots to the stream that continues the request; false: they are free by now.
func (e *Engine) KeepSlots(s Slots) bool {
	e.slots.mu.Lock()
	defer e.slots.mu.Unlock()
	_, lent := e.slots.lent[s]
	delete(e.slots.lent, s)
	return lent
}

// FreeSlots notes that the stream of a request with slots has ended, and appends the events of requests that go on
// by that. A second call for the same slots does nothing.
func (e *Engine) FreeSlots(now int64, s Slots, out []Event) []Event {
	e.slots.free(now, e.slots.take(s))
	return e.resumeSlots(now, out)
}
