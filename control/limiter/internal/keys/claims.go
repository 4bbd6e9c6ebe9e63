package keys

import (
	"math"
	"slices"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter/internal/members"
)

// What this replica announces of contended keys: a claim when it differs from what was
// announced last, a withdrawal when the key loses its state.
//
// A claim falls each period while the key is in use, and is announced as often. Of a key that
// sleeps only the spent part changes, by what is refilled. It is announced again when it has
// fallen by 1/spentSteps of the burst. The others go on from what they have received, see
// drc.LedgerSums. A replica's first sums of the key may have a Spent too high by that much.
//
// While tokens of its owner pay for a key its claim decides nothing. It is announced once a second, and at once
// when the spent part has changed by 1/spentSteps of the burst or the owner does not decide any more. So others lack
// no more than that when they lose the owner. Of a key that other sites use it is announced in each period: their
// owners go by it.

const (
	spentSteps = 16
	// ownedEvery is the least time, in nanoseconds, between two claims of a key whose owner decides.
	ownedEvery = int64(1e9)
	// mostVisits bounds the states of the list that one Claims visits: about 25 ms of work.
	// With more of them they take turns.
	mostVisits = 1 << 17
	// walkPeriods is the number of calls of Claims in which it walks over all states:
	// 3.2 s; of fewer than leastWalk states a call.
	walkPeriods, leastWalk = 64, 1024
	// keepHeard is the time, in nanoseconds, for which a key that only others have spent
	// is kept if the sums are Full ones and do not name it again.
	keepHeard = int64(30e9)
)

// walk is the progress of Claims over all states.
type walk struct {
	next, end uint32
	repeat    bool    // everything is announced once more
	replicas  float64 // at the last walk

	changed      *changed // what states follow since the last walk that began for it
	changedUntil int64
}

// period holds the arguments of one call of Claims.
type period struct {
	*exchange.Claims
	m       *members.View
	now     int64
	seconds float64
	repeat  bool
}

// Repeat has the next Claims announce all contended keys once more, within walkPeriods
// calls.
func (s *Store) Repeat() { s.repeat.Store(true) }

// Claims appends to c what has changed since the last call.
func (s *Store) Claims(now int64, c *exchange.Claims) {
	s.hearing.running.ran(now)
	v := &period{Claims: c, m: s.view.Load(), now: now, seconds: s.seconds(now)}
	c.Withdrawn = s.states.withdrawals(c.Withdrawn)
	s.visitListed(v)
	s.walkOn(v)
	s.states.sweepRetired(now)
	s.states.giveBack()
}

// visitListed visits the states that are awake, and the states that slept until now.
func (s *Store) visitListed(v *period) {
	list := s.states.takeDue(v.now)
	stay, next, done := list[:0], 0, true
	defer func() { // also after a panic
		if !done {
			s.putOff(list[next-1], v.now)
		}
		if rest := list[next:]; len(rest) == 0 {
			s.states.keep(stay)
		} else { // first the next time
			s.states.keep(slices.Concat(rest, stay))
		}
	}()
	for _, i := range list[:min(len(list), mostVisits)] {
		next, done = next+1, false
		if s.visit(v, i, true) {
			stay = append(stay, i)
		}
		done = true
	}
	s.stats.delayed.Add(uint64(len(list) - next))
}

// putOff has Claims visit a state of the list a second later, whose visit has failed.
func (s *Store) putOff(index uint32, now int64) {
	st := s.states.at(index)
	st.mu.Lock()
	defer st.mu.Unlock()
	s.states.rest(st, index, true, now+lately)
}

// walkOn visits some of all states, when another number of replicas or Repeat asks for it.
func (s *Store) walkOn(v *period) {
	w := &s.walk
	is, until := s.changed.Load(), w.changedUntil
	if is != w.changed {
		until = v.now + keepChanged
	}
	if repeat := s.repeat.Swap(false); repeat || v.m.Replicas != w.replicas || is != w.changed {
		*w = walk{end: s.states.end(), replicas: v.m.Replicas, repeat: repeat || w.repeat && w.next < w.end,
			changed: is, changedUntil: until}
	}
	v.repeat = w.repeat
	to := min(w.end, w.next+max(w.end/walkPeriods+1, leastWalk))
	for ; w.next < to; w.next++ {
		s.visit(v, w.next, false)
	}
	s.endChanged(v.now)
}

// visit tends a state, unless it is free or another visit is due to it. It reports whether
// a state of the list stays there.
func (s *Store) visit(v *period, index uint32, listed bool) (stays bool) {
	st := s.states.at(index)
	if st == nil {
		return false
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if v.repeat && !listed {
		st.last = nothingAnnounced
	}
	switch {
	case !listed && (st.awake || st.hash == 0):
		return false
	case st.hash != 0:
		stays = s.tend(v, st, index)
	}
	switch {
	case !stays:
		s.states.rest(st, index, listed, s.due(v, st))
	case listed:
		st.awake = true
	default:
		s.states.touch(st)
	}
	return stays && listed
}

// tend announces a key if there is something new, and releases its state when neither this
// replica nor another has a use for it. It reports whether Claims visits the state in the
// next period, too.
func (s *Store) tend(v *period, st *state, index uint32) (busy bool) {
	s.goOn(st, v.now)
	if v.m.Isolation == exchange.Connected && s.hearing.isStale(st) {
		s.hearNothing(st, v.seconds)
	}
	if s.isIdle(st, v) {
		if st.announced {
			v.Withdrawn = append(v.Withdrawn, st.hash)
		}
		s.demote(st, index, v.now, v.seconds)
		return false
	}
	if st.counting && v.m.Replicas > 1 {
		st.announce(v, s.numbersOf(st))
	}
	return s.isBusy(st, v.m)
}

// announce appends the claim of a key that a ledger counts by the numbers of now, if it has changed.
func (st *state) announce(v *period, n Numbers) {
	st.configure(n, v.m, v.now, v.seconds)
	if st.mayWait(v.now, v.seconds) {
		return
	}
	l := st.ledger.Publish(v.seconds)
	is := announcement{admitted: st.base + l.Admitted, claim: l.Claim, spent: l.Spent, active: l.Active > 0,
		owned: st.owned}
	was := st.last
	if was.admitted == is.admitted && was.claim == is.claim && was.active == is.active && was.owned == is.owned &&
		is.spent > was.spent-st.spentStep() && is.spent < was.spent+st.spentStep() {
		return
	}
	st.last, st.announced, st.saidAt = is, true, v.now
	v.Keys = append(v.Keys, exchange.KeyClaim{
		Key: st.hash, Claim: l.Claim, Active: l.Active, Unsaturated: l.Unsaturated,
		Admitted: is.admitted, Spent: l.Spent, Own: l.Own, Owned: st.owned,
		Exact: st.limit.Exact && (v.m.Near || !st.limit.While),
	})
}

// mayWait reports whether the claim of a key need not be announced yet, as its owner decides.
func (st *state) mayWait(now int64, seconds float64) bool {
	if !st.owned || st.abroad || !st.announced || now >= st.saidAt+ownedEvery || math.IsNaN(st.last.admitted) {
		return false
	}
	st.ledger.Advance(seconds)
	return math.Abs(st.ledger.Spent()-st.last.spent) < st.spentStep()
}

// spentStep is the change of the spent part, in cost units, that is announced without a claim.
func (st *state) spentStep() float64 { return st.limit.Burst / spentSteps }

// isBusy reports whether Claims visits the state in the next period, too. That is if this
// replica claims something; or others do, and only the next sums say that they do not any
// more.
func (s *Store) isBusy(st *state, m *members.View) bool {
	if st.last.claim > 0 || st.last.active {
		return !st.owned || st.abroad
	}
	if s.hearing.changes.Load() && m.Isolation == exchange.Connected {
		return false
	}
	return st.claimedByOthers() || st.gone && st.sums.Spent > 0
}

// isIdle reports whether the state holds nothing that its slot cannot. A replica that is
// alone again keeps no states at all.
func (s *Store) isIdle(st *state, v *period) bool {
	switch {
	case v.m.Replicas <= 1:
		return true
	case st.claimedByOthers():
		return false
	case st.counting:
		return st.ledger.Idle(v.seconds)
	}
	end := s.keepUntil(st, v.m)
	return end != never && v.now >= end
}

// keepUntil is the time until which a state that does not count is kept.
func (s *Store) keepUntil(st *state, m *members.View) int64 {
	switch {
	case st.sums.Spent == 0: // a thread may be just attaching it
		return st.heard + max(lately, int64(2*m.Lag*1e9))
	case s.hearing.changes.Load():
		return never
	}
	return st.heard + keepHeard
}

// due returns when to visit a state that sleeps: when it has something to announce, or
// may be idle. To that an eighth is added at most, so that keys that were used at one
// instant are not visited at one.
func (s *Store) due(v *period, st *state) int64 {
	switch {
	case st.hash == 0:
		return never
	case !st.counting && st.claimedByOthers():
		return never
	case !st.counting:
		return s.keepUntil(st, v.m)
	case st.owned && (st.last.claim > 0 || st.last.active):
		return max(v.now+1, st.saidAt+ownedEvery)
	}
	spent := st.ledger.Spent()
	switch {
	case spent == 0 && st.claimedByOthers(), spent > 0 && !(st.limit.Rate > 0):
		return never
	case spent == 0:
		return v.now + int64(2*v.m.Lag*1e9)
	}
	more := spent - st.last.spent + st.spentStep()
	if !(more > 0) {
		more = spent
	}
	wait := min(refill(min(spent, more), st.limit.Rate), 1<<50)
	return v.now + wait + wait/8*int64(st.hash>>56)>>8
}
