package limiter

import "github.com/titrate/titrate/control/exchange"

// The link to the agent, for the owners of tokens and of slots; for quotas it is in quotas.go.

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

// PollTokens appends what the owners of EXACT limits' keys are to be sent now, for its scope. It returns when
// there is more to send, in nanoseconds of the engine's clock; 0: when Options.Ask is called.
func (e *Engine) PollTokens(now int64, out *exchange.TokenRequests) (next int64) {
	return e.tokens[exchange.ScopeOf(out.Global)].Poll(now, out)
}

// LinkTokens says whether an agent carries what PollTokens returns, and answers. While none
// does, no request waits for an owner: what this replica has of a bucket it goes on with, and
// the ledger decides the rest.
func (e *Engine) LinkTokens(now int64, up bool) {
	for i := range e.tokens {
		e.tokens[i].Link(now, up)
	}
	if e.linked.CompareAndSwap(linkLost, max(now, 1)); !up {
		e.linked.Store(linkLost)
	}
}

// linkLost is Engine.linked while there is no link after an earlier one.
const linkLost = -1

// ForgetTokens drops what owners have granted: the agent is gone for so long that they take it
// for spent.
func (e *Engine) ForgetTokens() {
	for i := range e.tokens {
		e.tokens[i].Forget()
	}
}

// ReleaseTokens gives back what owners have granted, idle slots too, because this process ends; PollTokens and
// PollSlots have what they are sent.
func (e *Engine) ReleaseTokens(now int64) {
	for i := range e.tokens {
		e.tokens[i].Release(now)
	}
	e.slots.keys.Release(now)
	e.slots.units.Release(now)
}
