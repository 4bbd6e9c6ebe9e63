package limiter

import (
	"cmp"
	"slices"
	"time"

	"github.com/titrate/titrate/control/calendar"
	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter/internal/hash"
	"github.com/titrate/titrate/control/limiter/internal/tokens"
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

// slotNumbers are the slots of a limit by client.
type slotNumbers struct {
	most      int64
	overrides map[string]int64
	queue     keys.Queue
}

// slotNumbersOf returns the slots of a limit; nil: it has a rate.
func slotNumbersOf(l *config.Limit) *slotNumbers {
	if l.Concurrency == 0 {
		return nil
	}
	n := &slotNumbers{most: l.Concurrency}
	if l.Queued() {
		q := l.Queue.WithDefaults()
		n.queue = keys.Queue{Wait: int64(q.MaxWait), Requests: int64(q.MaxRequests)}
	}
	for client, o := range l.Overrides {
		if n.overrides == nil {
			n.overrides = make(map[string]int64, len(l.Overrides))
		}
		n.overrides[client] = o.Concurrency
	}
	return n
}

// SlotKey returns the hash of a key of a concurrency limit, and its number of slots by a configuration at an
// instant. Not ok: the configuration has no such limit. O(limits of the tenant).
func SlotKey(in *config.Set, at config.Instant, n *exchange.KeyName) (key uint64, most int64, ok bool) {
	l := in.Limit(n.Tenant, n.Limit, at)
	if l == nil || l.Concurrency == 0 || l.PerTenant && n.Client != "" || n.Plan != "" {
		return 0, 0, false
	}
	key = hash.OfLimit(in.Seed(), n.Tenant, n.Limit, "").Key(l.PerTenant, n.Client, 0)
	if o, found := overrideOf(in, at, l, n); found {
		return key, o.Concurrency, true
	}
	return key, l.Concurrency, true
}

// narrowerFirst orders the concurrency limits of a request. While it waits for a slot it keeps its other slots. So it
// waits for a slot of its client before it takes a slot that others could use. Quotas are last: their units are spent
// at once.
func narrowerFirst(a, b *limit) int {
	if a.quota != nil || b.quota != nil {
		return order(a.quota != nil, b.quota != nil)
	}
	return cmp.Or(order(a.perTenant, b.perTenant), cmp.Compare(a.slots.most, b.slots.most))
}

// slotsOf returns the number of slots of a client.
func (l *limit) slotsOf(client string) int64 {
	if o, found := l.ownOf(client); found {
		return int64(o.Number)
	}
	if o, found := l.slots.overrides[client]; found {
		return o
	}
	return l.slots.most
}

// noSlot is the allowance of a client all of whose slots are in use.
func (l *limit) noSlot(client string) Allowance {
	return Allowance{Limit: l.name, Concurrency: l.slotsOf(client), Cost: 1, Next: time.Duration(slotRetry),
		Wait: time.Duration(slotRetry)}
}

// slotState is the state of the key of a request.
type slotState keys.State

func (e *Engine) slotState(l *limit, c *call) slotState {
	name := c.slotName(l)
	return slotState(e.slots.keys.Look(c.now, &name))
}

// passes reports whether a request would get a slot, as far as is known here: the owner may say otherwise.
func (s slotState) passes() bool { return s.Next == slots.Admitted || s.Next == slots.Waits }

// explainSlots appends the states of the concurrency limits that apply to a request.
func (e *Engine) explainSlots(c *call, out []LimitState) []LimitState {
	for _, l := range c.route.slots {
		switch {
		case l.classes&c.classes == 0:
			continue
		case l.quota != nil:
			out = append(out, e.quotaState(l, c))
			continue
		}
		s, client := e.slotState(l, c), c.under(l)
		state := LimitState{Name: l.name, Mode: l.mode, Concurrency: l.slotsOf(client), InFlight: s.Used,
			Free: float64(s.Idle), Passes: s.passes(), Silent: s.Next == slots.CutOff}
		if !state.Passes {
			state.Wait = time.Duration(slotRetry)
		}
		if !l.perTenant {
			state.Client = client
		}
		out = append(out, state)
	}
	return out
}

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

// FreeSlots notes that the stream of a request with slots has ended, and appends the events of requests that go on
// by that. A second call for the same slots does nothing.
func (e *Engine) FreeSlots(now int64, s Slots, out []Event) []Event {
	e.slots.free(now, e.slots.take(s))
	return e.resumeSlots(now, out)
}

// AnswerSlots takes in what an owner of slots says, and appends the events of requests that go on by that.
func (e *Engine) AnswerSlots(now int64, m *exchange.SlotReplies, out []Event) []Event {
	e.slots.addSlots(e.slots.keys.Answer(now, m, nil))
	return e.resumeSlots(now, out)
}

// PollSlots appends what the owners of slots are to be sent now, and returns when there is more to send; 0: when
// Options.Ask is called. registered is as TokenRequests.Registered.
func (e *Engine) PollSlots(now int64, out []*exchange.SlotAsks) (all []*exchange.SlotAsks, next int64,
	registered uint64) {
	return e.slots.keys.Poll(now, out)
}

// LinkSlots says whether an agent carries what PollSlots returns, and answers.
func (e *Engine) LinkSlots(up bool) { e.slots.keys.Link(up) }
