package keys

import (
	"math/bits"
	"sync/atomic"

	"github.com/titrate/titrate/control/limiter/internal/lock"
)

// The pool of states grows by chunks and gives them back. A chunk in which no state is in
// use any more is left to the collector at the end of Claims. A free state is always taken
// from the first chunk that has one, so the last chunks become free first.
//
// A thread may hold a pointer into a chunk that was given back. All states there stay free
// (hash 0), so it finds that the state is not the key's, and looks again.

const (
	chunkStates = 64
	allFree     = ^uint64(0)
	// MaxContended is the most states that a store may have.
	MaxContended = 1 << 24
)

// chunk has no pointers.
type chunk struct {
	states [chunkStates]state
	links  [chunkStates]link // guarded by wakes.mu
	listed int32             // states that the next Claims visits; guarded by wakes.mu
	free   uint64            // bit per state; guarded by states.mu
}

// states is the pool of states.
type states struct {
	chunks []atomic.Pointer[chunk] // nil: not allocated
	high   atomic.Int32            // chunks from here on are not allocated
	inUse  atomic.Int32            // states
	own    atomic.Int32            // of them by this replica's own use
	seed   atomic.Uint64
	wakes  wakes
	budget int32

	mu        lock.Mutex[lock.States]
	room      []uint64 // bit per chunk: it has a free state, or is not allocated
	first     int      // words of room before it are 0
	empty     []uint32 // chunks without a state in use
	retired   retirees
	withdrawn []uint64 // keys that made room; the next Claims announces that they did
}

func (p *states) init(budget int) {
	budget = min(max(budget, 1), MaxContended)
	p.budget = int32(budget)
	n := (budget + chunkStates - 1) / chunkStates
	p.chunks, p.room = make([]atomic.Pointer[chunk], n), make([]uint64, (n+63)/64)
	for i := range n {
		p.room[i/64] |= 1 << (i % 64)
	}
	p.retired.most = max(4*budget/retiredShards, 16)
}

// at returns a state, nil if its chunk was given back.
func (p *states) at(index uint32) *state {
	if c := p.chunks[index/chunkStates].Load(); c != nil {
		return &c.states[index%chunkStates]
	}
	return nil
}

// take hands out a free state; it fails when the budget is used up. The user of the
// state before may still lock it, and finds that it is another key's.
func (p *states) take(own bool) (index uint32, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inUse.Load() >= p.budget {
		return 0, false
	}
	for p.room[p.first] == 0 {
		p.first++
	}
	at := p.first*64 + bits.TrailingZeros64(p.room[p.first])
	c := p.chunks[at].Load()
	if c == nil {
		c = &chunk{free: allFree}
		p.chunks[at].Store(c)
		p.high.Store(max(p.high.Load(), int32(at)+1))
	}
	i := bits.TrailingZeros64(c.free)
	if c.free &^= 1 << i; c.free == 0 {
		p.room[at/64] &^= 1 << (at % 64)
	}
	p.inUse.Add(1)
	if own {
		p.own.Add(1)
	}
	return uint32(at*chunkStates + i), true
}

// release takes back a cleared state.
func (p *states) release(index uint32, own bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := index / chunkStates
	c := p.chunks[at].Load()
	c.free |= 1 << (index % chunkStates)
	p.room[at/64] |= 1 << (at % 64)
	p.first = min(p.first, int(at/64))
	p.inUse.Add(-1)
	if own {
		p.own.Add(-1)
	}
	if c.free == allFree {
		p.empty = append(p.empty, at)
	}
	p.wakes.remove(p, index)
}

// giveBack leaves the chunks to the collector in which no state is in use, and none is to
// be visited by Claims. Claims alone calls it.
func (p *states) giveBack() {
	p.mu.Lock()
	defer p.mu.Unlock()
	keep := p.empty[:0]
	for _, at := range p.empty {
		switch c := p.chunks[at].Load(); {
		case c == nil || c.free != allFree: // given back, or in use again
		case p.wakes.listed(c):
			keep = append(keep, at)
		default:
			p.chunks[at].Store(nil)
		}
	}
	p.empty = keep
	high := p.high.Load()
	for high > 0 && p.chunks[high-1].Load() == nil {
		high--
	}
	p.high.Store(high)
}

// end is the index after the last state that may be in use.
func (p *states) end() uint32 { return uint32(p.high.Load()) * chunkStates }

// withdraw has the next Claims say that a key is announced no longer.
func (p *states) withdraw(key uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.withdrawn = append(p.withdrawn, key)
}

// withdrawals appends the keys that made room since the last Claims.
func (p *states) withdrawals(to []uint64) []uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	to = append(to, p.withdrawn...)
	p.withdrawn = p.withdrawn[:0]
	return to
}
