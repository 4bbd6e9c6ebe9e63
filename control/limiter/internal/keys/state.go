package keys

import (
	"sync/atomic"

	"github.com/titrate/titrate/control/drc"
	"github.com/titrate/titrate/control/limiter/internal/lock"
	"github.com/titrate/titrate/control/limiter/internal/members"
)

// A contended key has a state: a ledger that keeps up with the one global bucket. States
// are in chunks without pointers. Chunks are allocated when needed and never given back,
// so an index stays valid for the store's life. Which state is whose: slot.go.

const (
	chunkStates = 256
	maxChunks   = 4096
)

type state struct {
	mu        lock.Mutex[lock.State]
	hash      uint64 // of the key; 0: free
	ledger    drc.Ledger
	limit     Numbers // the ledger was configured with
	member    uint32  // version of the view that the ledger was configured with
	index     uint32  // its own, for ever
	counting  bool    // the ledger counts; otherwise the state keeps what others do only
	announced bool    // so the end must be announced, too
	own       bool    // it counts in the budget of this replica's own use
	awake     bool    // Claims visits it each period; a free one too, until Claims finds it
	claims    bool    // something was claimed when it was announced last
	changed   int64   // when it was last asked for, or others changed what they use
	base      float64 // cost admitted before the ledger began, part of what is announced
	before    float64 // and of it, what was still spent then and was not refunded since
	counted   int64   // a TAT: what of the slot's is in base already
	sums      drc.LedgerSums
	spentAt   int64  // when the others' Spent changed last
	round     uint32 // of the sums that last named the key
	heard     int64  // when they did
	random    uint64
}

// states is the pool of states.
type states struct {
	chunks [maxChunks]atomic.Pointer[[chunkStates]state]
	used   atomic.Int32 // states ever handed out: indices below may be in use
	inUse  atomic.Int32
	own    atomic.Int32 // of them by this replica's own use
	seed   atomic.Uint64
	wakes  wakes

	mu        lock.Mutex[lock.States]
	budget    int32
	free      []uint32
	retired   []retired
	withdrawn []uint64 // keys that made room; the next Claims announces that they did
}

// retired remembers how much a key had announced when it lost its state, so that its
// count goes on from there when the key gets a state again, and the TAT that its slot
// had then: what is spent by it was announced before. Direct mapped: a key may be
// forgotten. The others then see one step down, bounded by what they see as spent.
type retired struct {
	hash     uint64
	admitted float64
	tat      int64
}

func (p *states) at(index uint32) *state {
	return &p.chunks[index/chunkStates].Load()[index%chunkStates]
}

// take hands out a free state; it fails when the budget is used up. Whoever used the
// state before may still lock it, and finds that it is another key's.
func (p *states) take(own bool) (index uint32, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		index, p.free = p.free[n-1], p.free[:n-1]
	} else {
		used := p.used.Load()
		if used >= p.budget {
			return 0, false
		}
		index = uint32(used)
		if index%chunkStates == 0 {
			p.chunks[index/chunkStates].Store(new([chunkStates]state))
		}
		p.used.Store(used + 1)
	}
	p.inUse.Add(1)
	if own {
		p.own.Add(1)
	}
	return index, true
}

// release takes back a cleared state, and remembers what its key had announced.
func (p *states) release(index uint32, own bool, key uint64, admitted float64, tat int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, index)
	p.inUse.Add(-1)
	if own {
		p.own.Add(-1)
	}
	if admitted == 0 {
		return
	}
	*p.retiredAt(key) = retired{key, admitted, tat}
}

// retiredAt is where a key is remembered, see retired.
func (p *states) retiredAt(key uint64) *retired {
	if p.retired == nil {
		p.retired = make([]retired, 4*p.budget)
	}
	return &p.retired[key%uint64(len(p.retired))]
}

// restore remembers that what a key has spent is known to the others: the process before
// this one announced it. Of two keys in one place the one that has spent more stays.
func (p *states) restore(key uint64, tat int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.retiredAt(key)
	if r.hash != key && r.tat < tat {
		*r = retired{hash: key}
	}
	if r.hash == key {
		r.tat = max(r.tat, tat)
	}
}

// recall returns what a key had announced when it lost its state, and the TAT that its
// slot had then.
func (p *states) recall(key uint64) (admitted float64, tat int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.retired == nil {
		return 0, 0
	}
	if r := p.retired[key%uint64(len(p.retired))]; r.hash == key {
		return r.admitted, r.tat
	}
	return 0, 0
}

// clear prepares a state for a key; the mutex stays as it is.
func (st *state) clear(key uint64) {
	st.hash, st.random = key, key
	st.ledger, st.limit, st.member = drc.Ledger{}, Numbers{}, 0
	st.counting, st.announced, st.own, st.claims, st.base, st.before, st.counted = false, false, false, false, 0, 0, 0
	st.sums, st.spentAt, st.round, st.heard = drc.LedgerSums{}, 0, 0, 0
}

// start starts the ledger of a key that has spent so much, of which so much was
// admitted here and is not announced yet.
func (st *state) start(n Numbers, m *members.View, seconds, spent, fresh float64) {
	st.ledger = drc.FromSpent(n.ledger(m), seconds, spent)
	st.ledger.FirstContact(seconds, st.sums, fresh, spent-fresh)
	st.limit, st.member = n, m.Version
	st.base += fresh
	st.before = fresh
	st.counting = true
}

// refund gives back cost. What was admitted before the ledger began the ledger counts
// among the others' admissions, so it is taken back there.
func (st *state) refund(seconds, cost float64) {
	own := min(cost, st.ledger.Admitted())
	st.ledger.Refund(own)
	if early := min(cost-own, st.before); early > 0 {
		st.before -= early
		st.base -= early
		st.hear(seconds, st.sums)
	}
}

// configure brings the ledger up to date with limit and membership.
func (st *state) configure(n Numbers, m *members.View, seconds float64) {
	if st.limit == n && st.member == m.Version {
		return
	}
	st.limit, st.member = n, m.Version
	st.ledger.Configure(n.ledger(m), seconds)
}

// hear takes in what the others do with the key.
func (st *state) hear(seconds float64, sums drc.LedgerSums) {
	st.sums = sums
	if st.counting {
		// On a new count the ledger takes min(Admitted, Spent): of the others only.
		sums.Spent = min(sums.Spent, sums.Admitted)
		sums.Admitted += st.before
		st.ledger.Hear(seconds, sums)
	}
}

// hearNothing takes in that the others no longer claim the key.
func (st *state) hearNothing(seconds float64) {
	if !st.claimedByOthers() {
		return
	}
	st.sums.Claims, st.sums.Active, st.sums.Unsaturated = 0, 0, 0
	st.hear(seconds, st.sums)
}

// claimedByOthers reports whether another replica claims the key.
func (st *state) claimedByOthers() bool {
	return st.sums.Claims != 0 || st.sums.Active != 0 || st.sums.Unsaturated != 0
}
