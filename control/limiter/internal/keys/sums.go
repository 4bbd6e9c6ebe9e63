package keys

import (
	"sync/atomic"

	"github.com/titrate/titrate/control/drc"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter/internal/members"
)

// What the other replicas do with keys, as the agent reports it: all of it in Full sums, then
// what has changed.
//
//	named by the sums     the state has what they say
//	gone                  nobody else claims it or has spent anything: both are forgotten
//	not named by Full     nobody else claims it: Claims forgets that. What is spent stands
//	                      for 30 s: an agent that sends Full sums only does not name each
//	                      key in all of them
//	not named by changes  it stands
//
// While this replica is isolated nothing is forgotten.

// hearing is the state of the stream of sums. SetSums has one caller at a time.
type hearing struct {
	listing uint32        // of the sums that come now
	listed  atomic.Uint32 // the last complete listing
	changes atomic.Bool   // what came last was a change, no Full state
	again   bool          // a Full state comes after changes
	claimed atomic.Int32  // states of keys that others claim
	silent  atomic.Int64  // since when the agent sends nothing, nanoseconds; 0: it does
	gap     float64       // for how long it was, or the process stood still, until the sums that come now, seconds
	running running

	owesUntil atomic.Int64 // learnWithin after the latest state.owesUntil
}

// isStale reports whether the sums no longer name a key.
func (h *hearing) isStale(st *state) bool { return st.gone || int32(h.listed.Load()-st.named) > 0 }

// SetSums takes in what the other replicas do with keys. A key that they use gets a
// state here, too, even if this replica has not seen it.
func (s *Store) SetSums(now int64, sums *exchange.Sums) {
	m, h := s.view.Load(), &s.hearing
	if since := h.silent.Swap(0); since != 0 {
		h.gap = float64(now-since) * 1e-9
	}
	h.gap = max(h.gap, h.running.gap(now))
	switch {
	case sums.Full:
		h.listing = h.listed.Load() + 1
		h.again = h.changes.Swap(false) || h.again
	case h.listing == h.listed.Load(): // not the rest of a Full state
		h.changes.Store(true)
	}
	if m.Replicas > 1 {
		for i := range sums.Keys {
			s.hear(&sums.Keys[i], m, now)
		}
		for _, key := range sums.Gone {
			s.forget(key, m, s.seconds(now))
		}
	}
	if !sums.More {
		h.gap = 0
	}
	if h.listing != h.listed.Load() && !sums.More {
		h.listed.Store(h.listing)
		if h.again {
			h.again = false
			s.wakeStale()
		}
	}
}

// usedElsewhere reports whether other gateways use the key.
func usedElsewhere(k *exchange.KeySum) bool { return k.Claims > 0 || k.Active > 0 || k.Spent > 0 }

func (s *Store) hear(k *exchange.KeySum, m *members.View, now int64) {
	sums := s.ledgerSums(k, m)
	at, ok := s.locate(k.Key)
	inUse := usedElsewhere(k)
	if !ok && inUse {
		at, ok = s.table.obtain(k.Key, now)
	}
	if !ok || at.state() == 0 && !inUse {
		return
	}
	st := s.attach(at, k.Key, m, now, 1, false)
	if st == nil {
		return
	}
	defer st.mu.Unlock()
	st.named, st.heard, st.gone, st.assumed, st.abroad = s.hearing.listing, now, false, 0, k.Abroad
	if sums.Spent != st.sums.Spent {
		st.spentAt = now
	}
	sums.Age = float64(now-st.spentAt) * 1e-9
	met := st.sums.Epoch == sums.Epoch
	s.setSums(st, s.seconds(now), sums)
	if sums.Gap > 0 || !met && !k.Abroad && st.meetsDebt() { // an owner is charged what other sites admit
		s.noteHeal(st, now)
	}
	if !inUse || !s.hearing.changes.Load() {
		s.states.touch(st)
	}
}

func (s *Store) ledgerSums(k *exchange.KeySum, m *members.View) drc.LedgerSums {
	sums := drc.LedgerSums{
		Admitted: k.Admitted, Claims: k.Claims, Active: k.Active, Unsaturated: k.Unsaturated,
		Spent: k.Spent, Own: k.Own, Gap: k.Gap, Assumed: k.Assumed, Absent: m.Absent, Epoch: k.Epoch,
	}
	if gap := s.hearing.gap; gap > 0 && sums.Gap >= 0 {
		sums.Gap = max(sums.Gap, gap)
	}
	return sums
}

// setSums installs what the others do with the key of a state, which is locked.
func (s *Store) setSums(st *state, seconds float64, sums drc.LedgerSums) {
	was := st.claimedByOthers()
	st.hear(seconds, sums)
	s.countClaimed(was, st.claimedByOthers())
}

// hearNothing takes in that the others no longer claim a key, and if it is gone have
// spent nothing of it either.
func (s *Store) hearNothing(st *state, seconds float64) {
	if st.gone {
		st.sums.Spent, st.sums.Own = 0, 0
	}
	if !st.claimedByOthers() {
		return
	}
	sums := st.sums
	sums.Claims, sums.Active, sums.Unsaturated = 0, 0, 0
	s.setSums(st, seconds, sums)
}

func (s *Store) countClaimed(was, is bool) {
	switch {
	case is && !was:
		s.hearing.claimed.Add(1)
	case was && !is:
		s.hearing.claimed.Add(-1)
	}
}

// forget forgets what the others did with a key that is gone, while this replica is
// isolated as soon as it is not.
func (s *Store) forget(key uint64, m *members.View, seconds float64) {
	at, ok := s.locate(key)
	if !ok {
		return
	}
	if st := s.lockState(at, key); st != nil {
		defer st.mu.Unlock()
		st.gone = true
		if m.Isolation == exchange.Connected {
			s.hearNothing(st, seconds)
		}
		s.states.touch(st)
	}
}

// wakeStale has the next Claims visit the keys that a Full state after changes does not
// name. O(states), once per connection.
func (s *Store) wakeStale() {
	for i := range s.states.end() {
		s.wakeIfStale(i)
	}
}

func (s *Store) wakeIfStale(index uint32) {
	st := s.states.at(index)
	if st == nil {
		return
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.hash != 0 && s.hearing.isStale(st) {
		s.states.touch(st)
	}
}

// ClaimedByOthers reports whether another replica claims any key.
func (s *Store) ClaimedByOthers() bool { return s.hearing.claimed.Load() > 0 }

// GoOn has each key assume from a time on, until the next sums come, that the others go on as they last
// claimed. Their Admitted grows by Claims·dt, but for the time in which the process stands still.
func (s *Store) GoOn(since int64) { s.hearing.silent.Store(max(since, 1)) }

// ended is the time after which a silence that sums report as ended counts no more, in nanoseconds.
const ended = exchange.Late * 1e9

// goOn brings a state, which is locked, up to what is assumed of the others, and takes the
// assumption back when the agent speaks again.
func (s *Store) goOn(st *state, now int64) {
	since, sums := s.hearing.silent.Load(), st.sums
	switch {
	case since != 0 && sums.Claims > 0:
		from := max(since, st.assumedAt, s.hearing.running.standstill(now).to)
		more := sums.Claims * float64(max(0, now-from)) * 1e-9
		st.assumed, st.assumedAt = st.assumed+more, max(now, from)
		sums.Admitted, sums.Assumed = sums.Admitted+more, sums.Assumed+more
		sums.Gap = float64(since-now) * 1e-9
	case since == 0 && st.assumed != 0:
		sums.Admitted, sums.Assumed = sums.Admitted-st.assumed, max(0, sums.Assumed-st.assumed)
		if st.assumed = 0; sums.Assumed == 0 { // else the agent does not receive some of the others either
			sums.Gap = 0
		}
	case sums.Gap > 0 && now-st.heard > ended: // nobody says when it has ended
		sums.Gap = 0
	default:
		return
	}
	sums.Age = float64(now-st.spentAt) * 1e-9
	st.hear(s.seconds(now), sums)
}
