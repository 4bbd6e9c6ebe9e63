package limiter

import (
	"maps"

	"github.com/titrate/titrate/control/drc"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter/internal/keys"
	"github.com/titrate/titrate/control/limiter/internal/members"
)

// SetSums takes in what the other replicas claim.
func (e *Engine) SetSums(now int64, s *exchange.Sums) {
	e.admin.Lock()
	defer e.admin.Unlock()
	old := e.member.Load()
	m := members.New(s, old.Version+1)
	if m.Same(old) {
		m = old
	}
	e.member.Store(m)
	e.setFlowSums(s.Flows, m)
	e.keys.SetSums(now, s.Keys, m.Isolation == exchange.Connected)
}

// heardFlows is what the others claim of flows, by their keys. Each flow looks it up when
// it is next stepped.
type heardFlows struct {
	version uint64
	flows   map[uint64]drc.Sums
}

// setFlowSums keeps the sums for the flows; a flow left out is claimed by nobody else,
// unless this replica hears too little to know.
func (e *Engine) setFlowSums(sums []exchange.FlowSum, m *members.View) {
	old := e.heard.Load()
	heard := make(map[uint64]drc.Sums, len(sums))
	if m.Isolation != exchange.Connected {
		maps.Copy(heard, old.flows)
	}
	if m.Replicas > 1 {
		for _, s := range sums {
			heard[s.Key] = drc.Sums{Claims: s.Claims, Active: s.Active, Unsaturated: s.Unsaturated}
		}
	}
	e.heard.Store(&heardFlows{old.version + 1, heard})
}

// Claims appends to c what this replica announces now; call it every period P, also while
// nobody listens: what was announced a lag ago is what may be used.
func (e *Engine) Claims(now int64, c *exchange.Claims) {
	e.work.Lock()
	defer e.work.Unlock()
	e.takeAwakened()
	m := e.member.Load()
	for _, f := range e.running {
		f.claim(e, m, now, c)
	}
	e.keys.Claims(now, c)
}

// claim announces a flow's claim, or its end.
func (f *flow) claim(e *Engine, m *members.View, now int64, c *exchange.Claims) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.advance(e, now)
	if f.gone() {
		return
	}
	defer f.publish()
	claim, t := f.pace.controller.Publish(), &f.terms
	if m.Replicas > 1 && (claim.Active > 0 || claim.Claim > t.trace()) {
		t.announced = true
		c.Flows = append(c.Flows, exchange.FlowClaim{
			Key: t.key, Claim: claim.Claim, Active: claim.Active, Unsaturated: claim.Unsaturated,
		})
		return
	}
	if t.announced {
		t.announced = false
		c.Withdrawn = append(c.Withdrawn, t.key)
	}
}

// SpentCursor remembers which use of keys SpentChanges has reported. The zero value
// reports everything. One goroutine uses it.
type SpentCursor = keys.Cursor

// VisitSpent calls visit with every key that has spent something at now: what this
// process leaves to the one that takes its place. It locks nothing while visit runs, so
// requests and Claims go on; what they spend meanwhile may be seen or not. O(table).
func (e *Engine) VisitSpent(now int64, visit func(exchange.KeySpent)) { e.keys.VisitSpent(now, visit) }

// SpentChanges calls visit with keys whose use has changed since the cursor reported it
// last: those that take longer than its Least to win their burst back, and those that did
// when they were reported and were refunded something since, with Ahead ≤ Least or 0. One
// call goes through a part-th of the table and stops early after about most keys, or
// 131,072 of them looked at. It returns whether it has come to the table's end.
func (e *Engine) SpentChanges(
	now int64, c *SpentCursor, part, most int, visit func(exchange.KeySpent),
) (end bool) {
	return e.keys.SpentChanges(now, c, part, most, visit)
}

// RestoreSpent takes over what a key has spent in another process, before this engine has
// decided on it; afterwards the larger of both counts. It is not announced to the other
// replicas again: they heard it from that process, but for what was too little to
// announce. When the table has no room the key begins with its whole burst.
func (e *Engine) RestoreSpent(now int64, s exchange.KeySpent) { e.keys.Restore(now, s) }
