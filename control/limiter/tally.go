package limiter

import (
	"sync/atomic"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
	"github.com/titrate/titrate/control/limiter/internal/lock"
)

// What single limits do is counted where a limit does not let a request pass at once. A
// request that is admitted at once touches none of this. A limit that has counted anything
// since the last report is in a list, so a report costs O(limits in the list).
//
// A tally is found by the names of tenant and limit, so a change of the configuration does
// not begin a new one. When there are maxTallies the table of names is emptied. What the old
// tallies have counted is still in the list: nothing is lost.

const (
	// maxTallies bounds the tallies that are found by name, some 150 bytes each.
	maxTallies = 1 << 16
	// limitsPerReport bounds the limits that one report names: the record of the link has room for
	// so many, 25 KB, besides one part of the clients (heavyhitters.PerPart), 34 KB. The others
	// follow in the next reports.
	limitsPerReport = 64
	// longestName bounds the names in a tally, in bytes, for the same reason.
	longestName = 128
)

type limitName struct{ tenant, limit string }

// did is the action of a limit on a request.
type did uint8

const (
	didRefuse did = iota // at once, or when the request's turn came
	didHold
	didExpire // the request waited for it for too long
	didShadow
	didAsk    // the request waited for the owner of its key
	didLedger // the owner did not answer
	didLeave  // the owner was not asked: the limit had asked for too much, or the owner had no room
	dids
)

// limitTally counts what one limit did since it was reported.
type limitTally struct {
	limitName
	era    uint32
	counts [dids]atomic.Uint64
	micros atomic.Uint64 // of all that didAsk counts
	left   atomic.Int64  // when didLeave was counted last
	listed atomic.Bool   // in tallies.changed
}

// tallies are the tallies of all limits. Its zero value is empty.
type tallies struct {
	era     atomic.Uint32         // of the table of names
	mu      lock.Mutex[lock.Leaf] // guards what follows
	byName  map[limitName]*limitTally
	changed []*limitTally
}

// count counts for a limit. It locks a leaf only.
func (e *Engine) count(l *limit, what did) { e.tally(l, what, 0) }

// countAsked counts a request that has waited for an owner for so many nanoseconds.
func (e *Engine) countAsked(l *limit, waited int64) { e.tally(l, didAsk, uint64(max(0, waited))/1000) }

// countLeft counts a request of a key that nobody was asked about.
func (e *Engine) countLeft(l *limit, now int64) {
	e.tallyOf(l).left.Store(now)
	e.count(l, didLeave)
}

// countUnasked counts a request that no owner has decided: got is Unanswered or Unowned.
func (e *Engine) countUnasked(l *limit, now int64, got grant.Outcome) {
	if got == grant.Unowned {
		e.countLeft(l, now)
		return
	}
	e.count(l, didLedger)
}

// tallyOf returns what counts for a limit.
func (e *Engine) tallyOf(l *limit) *limitTally {
	t := l.tally.Load()
	if t == nil || t.era != e.tallies.era.Load() {
		t = e.tallies.obtain(limitName{clip(l.tenant), clip(l.name)})
		l.tally.Store(t)
	}
	return t
}

func (e *Engine) tally(l *limit, what did, micros uint64) {
	if micros > 0 {
		e.tallyOf(l).micros.Add(micros)
	}
	e.tallyMany(l, what, 1)
}

// tallyMany counts n requests.
func (e *Engine) tallyMany(l *limit, what did, n uint64) {
	t := e.tallyOf(l)
	t.counts[what].Add(n)
	if !t.listed.Load() && t.listed.CompareAndSwap(false, true) {
		e.tallies.list(t)
	}
}

func clip(name string) string { return name[:min(len(name), longestName)] }

func (t *tallies) obtain(name limitName) *limitTally {
	t.mu.Lock()
	defer t.mu.Unlock()
	if one := t.byName[name]; one != nil {
		return one
	}
	if t.byName == nil || len(t.byName) >= maxTallies {
		t.byName = map[limitName]*limitTally{}
		t.era.Add(1)
	}
	one := &limitTally{limitName: name, era: t.era.Load()}
	t.byName[name] = one
	return one
}

func (t *tallies) list(one *limitTally) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changed = append(t.changed, one)
}

// take appends what was counted since the last call, of at most limitsPerReport limits.
func (t *tallies) take(to []exchange.LimitCounts) []exchange.LimitCounts {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := min(len(t.changed), limitsPerReport)
	for _, one := range t.changed[:n] {
		one.listed.Store(false) // before the counts are read: what comes now lists it again
		to = append(to, exchange.LimitCounts{Tenant: one.tenant, Limit: one.limit, Counts: exchange.Counts{
			ClientLimit: one.counts[didRefuse].Swap(0), Waited: one.counts[didHold].Swap(0),
			QueueTimeout: one.counts[didExpire].Swap(0), Shadowed: one.counts[didShadow].Swap(0),
			OwnerWaited: one.counts[didAsk].Swap(0), OwnerMicros: one.micros.Swap(0),
			OwnerSilent: one.counts[didLedger].Swap(0), OwnerUnasked: one.counts[didLeave].Swap(0),
		}})
	}
	left := copy(t.changed, t.changed[n:])
	clear(t.changed[left:])
	t.changed = t.changed[:left]
	return to
}
