package limiter

import (
	"sync/atomic"

	"github.com/titrate/titrate/control/drc"
)

// A contended key has full state: a ledger that shadows the one global bucket.
// States live in chunks without pointers; chunks are allocated when needed and
// never given back, so an index stays valid for the engine's life. Which state is
// whose: slot.go.

const (
	chunkStates = 256
	maxChunks   = 4096
)

type state struct {
	mu      mutex[stateRank]
	hash    uint64 // 0: free
	ledger  drc.Ledger
	limit   numbers // the ledger was configured with
	member  uint32  // as of which membership
	index   uint32  // its own, for ever
	live    bool    // the ledger is in use; otherwise only sums were heard
	told    bool    // announced, so its end must be
	own     bool    // it counts in the budget of this replica's own use
	awake   bool    // Claims walks it each period; a free one too, until Claims finds it
	claims  bool    // something was claimed when it was announced last
	changed int64   // when it was last asked for, or others changed what they use
	base    float64 // cost admitted before the ledger began, part of what is announced
	before  float64 // and of it, what was still spent then and not refunded since
	counted int64   // a TAT: what of the slot's is in base already
	sums    drc.LedgerSums
	spent   int64  // when the others' Spent changed last
	round   uint32 // of the Sums that last named it
	heard   int64  // when
	random  uint64
}

// states is the pool of full states.
type states struct {
	chunks [maxChunks]atomic.Pointer[[chunkStates]state]
	used   atomic.Int32 // states ever handed out: indices below may be in use
	inUse  atomic.Int32
	own    atomic.Int32 // of them by this replica's own use
	seed   atomic.Uint64
	wakes  wakes

	mu        mutex[statesRank]
	budget    int32
	free      []uint32
	retired   []retired
	withdrawn []uint64 // keys that made room, not told yet
}

// retired remembers how much a demoted key had announced, so that its count
// goes on from there when it comes back, and the TAT that it went to its slot with: of
// what is spent then, so much was announced before. Direct mapped: a key may be forgotten,
// which makes the others see one step down, bounded by what they see as spent.
type retired struct {
	hash     uint64
	admitted float64
	tat      int64
}

func (p *states) at(index uint32) *state {
	return &p.chunks[index/chunkStates].Load()[index%chunkStates]
}

// take hands out a free state; it fails when the budget is spent. Whoever used it
// before may still lock it to find that it is no longer theirs.
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

// clear prepares a state for a key; the mutex stays as it is.
func (s *state) clear(hash uint64) {
	s.hash, s.random = hash, hash
	s.ledger, s.limit, s.member = drc.Ledger{}, numbers{}, 0
	s.live, s.told, s.own, s.claims, s.base, s.before, s.counted = false, false, false, false, 0, 0, 0
	s.sums, s.spent, s.round, s.heard = drc.LedgerSums{}, 0, 0, 0
}

// give returns a cleared state, and remembers what its key had announced.
func (p *states) give(index uint32, own bool, hash uint64, admitted float64, tat int64) {
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
	*p.place(hash) = retired{hash, admitted, tat}
}

// place is where a key is remembered, see retired.
func (p *states) place(hash uint64) *retired {
	if p.retired == nil {
		p.retired = make([]retired, 4*p.budget)
	}
	return &p.retired[hash%uint64(len(p.retired))]
}

// inherit remembers that what a key has spent is known to the others: it was announced
// by whoever left it. Of two keys in one place the one that has spent more stays.
func (p *states) inherit(hash uint64, tat int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.place(hash)
	if r.hash != hash && r.tat < tat {
		*r = retired{hash: hash}
	}
	if r.hash == hash {
		r.tat = max(r.tat, tat)
	}
}

// recall returns what a key had announced when its state was given back, and the TAT
// that its slot had then.
func (p *states) recall(hash uint64) (admitted float64, tat int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.retired == nil {
		return 0, 0
	}
	if r := p.retired[hash%uint64(len(p.retired))]; r.hash == hash {
		return r.admitted, r.tat
	}
	return 0, 0
}

// start starts the ledger of a key that has spent so much, of which so much was
// admitted here and not announced yet.
func (s *state) start(n numbers, m *membership, at, spent, fresh float64) {
	s.ledger = drc.FromSpent(m.ledger(n), at, spent)
	s.ledger.FirstContact(at, s.sums, fresh, spent-fresh)
	s.limit, s.member = n, m.version
	s.base += fresh
	s.before = fresh
	s.live = true
}

// refund gives back cost. What was admitted before the ledger began it counts
// among the others' admissions, so that is where it is taken back.
func (s *state) refund(now, cost float64) {
	own := min(cost, s.ledger.Admitted())
	s.ledger.Refund(own)
	if early := min(cost-own, s.before); early > 0 {
		s.before -= early
		s.base -= early
		s.hear(now, s.sums)
	}
}

// configure brings the ledger up to date with limit and membership.
func (s *state) configure(n numbers, m *membership, now float64) {
	if s.limit == n && s.member == m.version {
		return
	}
	s.limit, s.member = n, m.version
	s.ledger.Configure(m.ledger(n), now)
}

// hear takes in what the others do with the key.
func (s *state) hear(now float64, sums drc.LedgerSums) {
	s.sums = sums
	if s.live {
		// On a new count the ledger takes min(Admitted, Spent): the others' only.
		sums.Spent = min(sums.Spent, sums.Admitted)
		sums.Admitted += s.before
		s.ledger.Hear(now, sums)
	}
}

// silent takes in that the others no longer claim the key.
func (s *state) silent(now float64) {
	if s.sums.Claims == 0 && s.sums.Active == 0 && s.sums.Unsaturated == 0 {
		return
	}
	s.sums.Claims, s.sums.Active, s.sums.Unsaturated = 0, 0, 0
	s.hear(now, s.sums)
}

// next returns a uniform number in [0,1) (splitmix64).
func next(state *uint64) float64 {
	*state += 0x9e3779b97f4a7c15
	return float64(finish(*state)>>11) * 0x1p-53
}
