package limiter

import (
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter/internal/keys"
	"github.com/titrate/titrate/control/limiter/internal/members"
)

// SetSums takes in what the other replicas claim.
func (e *Engine) SetSums(now int64, s *exchange.Sums) {
	e.admin.Lock()
	defer e.admin.Unlock()
	m := e.setView(members.New(s, 0))
	e.setNear(now, s.Exact)
	e.heard.set(s, m)
	e.keys.SetSums(now, s)
}

// setView puts a view in force, with a new version if it differs from the one before.
func (e *Engine) setView(m *members.View) *members.View {
	old := e.member.Load()
	if m.Same(old) {
		return old
	}
	m.Version = old.Version + 1
	e.member.Store(m)
	return m
}

// GoOn makes the engine go on without its agent, unreachable since a time, until the next
// sums come. The other replicas are assumed to go on as they last claimed, and this one
// counts as isolated so far. See exchange.Estimator.
func (e *Engine) GoOn(since int64, isolation exchange.Isolation) {
	e.admin.Lock()
	defer e.admin.Unlock()
	m := *e.member.Load()
	m.Isolation = isolation
	e.setView(&m)
	e.keys.GoOn(since)
}

// ClaimedByOthers reports whether other replicas claim any flow or key.
func (e *Engine) ClaimedByOthers() bool { return e.heard.any() || e.keys.ClaimedByOthers() }

// RepeatClaims has Claims announce everything that stands once more, within the next 64
// calls: an agent that has just connected does not know it.
func (e *Engine) RepeatClaims() {
	e.repeat.Store(true)
	e.keys.Repeat()
}

// Claims appends to c what this replica announces now: what has changed since the last
// call. Call it every period P, also while nobody listens: what was announced a lag ago is
// what may be used.
func (e *Engine) Claims(now int64, c *exchange.Claims) {
	e.flowClaims(now, c)
	e.claiming.Lock()
	defer e.claiming.Unlock()
	e.keys.Claims(now, c)
}

func (e *Engine) flowClaims(now int64, c *exchange.Claims) {
	e.work.Lock()
	defer e.work.Unlock()
	e.takeAwakened()
	m, repeat := e.member.Load(), e.repeat.Swap(false)
	for _, f := range e.lists.running {
		f.claim(e, m, now, repeat, c)
	}
}

// claim announces a flow's claim if it has changed or is to be repeated, or its end.
func (f *flow) claim(e *Engine, m *members.View, now int64, repeat bool, c *exchange.Claims) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.advance(e, now)
	if f.gone() {
		return
	}
	defer f.publish()
	claim, t := f.pace.controller.Publish(), &f.terms
	if m.Replicas > 1 && (claim.Active > 0 || claim.Claim > t.trace()) {
		is := exchange.FlowClaim{
			Key: t.key, Claim: claim.Claim, Active: claim.Active, Unsaturated: claim.Unsaturated,
		}
		if is != t.told || repeat {
			t.told = is
			c.Flows = append(c.Flows, is)
		}
		return
	}
	if t.announced() {
		c.Withdrawn = append(c.Withdrawn, t.told.Key)
		t.told = exchange.FlowClaim{}
	}
}

// SpentCursor remembers which use of keys SpentChanges has reported. The zero value
// reports everything. One goroutine uses it.
type SpentCursor = keys.Cursor

// VisitSpent calls visit with every key that has spent something at now, for the process
// that takes this one's place. It locks nothing while visit runs, so
// requests and Claims go on; what they spend meanwhile may be seen or not. O(table).
func (e *Engine) VisitSpent(now int64, visit func(exchange.KeySpent)) { e.keys.VisitSpent(now, visit) }

// SpentChanges calls visit with keys whose use has changed since the cursor reported it
// last. Keys that take longer than its Least to win their burst back, and keys that did so
// when they were reported and were refunded something since, with Ahead ≤ Least or 0. One
// call goes through a part-th of the table and stops early after about most keys that are
// reported or contended, or 131,072 of them looked at. It returns whether it has come to the table's end.
func (e *Engine) SpentChanges(
	now int64, c *SpentCursor, part, most int, visit func(exchange.KeySpent),
) (end bool) {
	return e.keys.SpentChanges(now, c, part, most, visit)
}

// RestoreSpent takes over what a key has spent in another process, before this engine has
// decided on it; afterwards the larger of both counts. It is not announced to the other
// replicas again: that process announced it, but for what was too little to
// announce. When the table has no room the key begins with its whole burst.
func (e *Engine) RestoreSpent(now int64, s exchange.KeySpent) { e.keys.Restore(now, s) }
