package limiter

import (
	"runtime"
	"sync/atomic"

	"github.com/titrate/titrate/control/drc"
)

// The slot protocol: which of a slot and its full state counts a key's use. This
// file is the only one that changes a slot's full or sets a TAT to moved.
//
//	form       full  state      TAT     who counts
//	compact    0     none       a time  the TAT
//	attached   i+1   not live   a time  the TAT; the state keeps what others do
//	promoted   i+1   live       moved   the ledger of the state
//
//	attach   compact → attached      a free state is given to the slot
//	begin    attached → promoted     the ledger starts with what the TAT says
//	detach   → compact               the TAT starts with what the ledger says
//
// Rules:
//
//   - A slot's full changes only while the mutex of that state is held. So whoever
//     holds the mutex and has then found that the slot points to the state has the
//     key until the mutex is released: held and attach return a state so.
//   - A slot with full ≠ 0 is never given to another key.
//   - attach and begin lock the TAT (see table.go): nobody else changes it meanwhile.
//     A panic gives it back.
//   - No two states are locked at once.

// form says where a key's use is counted.
type form uint8

const (
	between form = iota // in a change, or the slot is another key's: look again
	compact             // by the TAT
	full                // there is a state: ask held
)

// read returns the form of a slot and, if compact, the TAT to count with.
func (c cell) read(hash uint64) (tat int64, f form) {
	tat = c.tat().Load() // before the hash, see table.go
	switch {
	case c.full() != 0:
		return 0, full
	case tat == locked || tat == moved || c.hash() != hash:
		return 0, between
	}
	return tat, compact
}

// held returns the state of a key's slot with its mutex locked; nil if there is none.
func (e *Engine) held(c cell, hash uint64) *state {
	for {
		index := c.full()
		if index == 0 {
			return nil
		}
		s := e.states.at(index - 1)
		s.mu.Lock()
		if c.full() == index && s.hash == hash {
			return s
		}
		other := c.full() == index
		s.mu.Unlock()
		if other { // the slot is another key's
			return nil
		}
	}
}

// find returns where the use of a client's key is counted: by the ledger of s, whose
// mutex is then locked, else by tat in c. Without a bucket the key has no slot.
func (e *Engine) find(l *limit, client string, shared bool) (c cell, tat int64, s *state) {
	for {
		hash, c := e.placed(l, client, shared)
		if c.b == nil {
			return c, 0, nil
		}
		tat, f := c.read(hash)
		if f == compact {
			return c, tat, nil
		}
		if f == full {
			if s := e.held(c, hash); s != nil {
				if s.live {
					return c, 0, s
				}
				tat = c.tat().Load()
				s.mu.Unlock()
				if tat > moved {
					return c, tat, nil
				}
			}
		}
		runtime.Gosched()
	}
}

// attach returns the state of a key's slot with its mutex locked, and gives the slot
// one if it has none; nil when there is none for a key that has spent so much of its
// burst, here (own) or elsewhere, or when the slot is another key's.
func (e *Engine) attach(c cell, hash uint64, m *membership, now int64, share float64, own bool) *state {
	for {
		if s := e.held(c, hash); s != nil {
			return s
		}
		if c.hash() != hash {
			return nil
		}
		index, ok := e.admit(m, now, share, own)
		if !ok {
			return nil
		}
		base, counted := e.states.recall(hash)
		s := e.states.at(index)
		s.mu.Lock()
		if e.point(c, hash, index) {
			s.clear(hash)
			s.index, s.own, s.heard, s.spent = index, own, now, now
			s.base, s.counted = base, counted
			return s
		}
		s.mu.Unlock()
		e.states.give(index, own, 0, 0, 0)
		runtime.Gosched()
	}
}

// point makes a compact slot point to a state; false when somebody was first.
func (e *Engine) point(c cell, hash uint64, index uint32) bool {
	tat, ok := c.lock(hash)
	if !ok {
		return false
	}
	first := c.full() == 0
	if first {
		c.setFull(index + 1)
	}
	c.unlock(tat)
	return first
}

// begin makes a state count from what its slot has counted so far. The state is held.
func (s *state) begin(c cell, n numbers, m *membership, now int64, at float64) {
	if s.live {
		return
	}
	tat, _ := c.lock(s.hash)
	to := tat
	defer func() { c.unlock(to) }()
	by := m.counted(c, n)
	spent := drc.SpentAt(min(tat, now+span(c.deepest(by), by.rate)), now, by.rate)
	s.start(n, m, at, spent, max(0, spent-drc.SpentAt(s.counted, now, n.rate)))
	c.undivide()
	to = moved
}

// detach makes the slot of a state count again, and frees the state, whose mutex
// stays locked.
func (e *Engine) detach(s *state, index uint32, now int64, at float64) {
	hash, admitted := s.hash, s.base
	c, tat := e.slotOf(hash, index), int64(0)
	if s.live {
		s.ledger.Advance(at)
		admitted += s.ledger.Admitted()
		tat = drc.TATFor(s.ledger.Spent(), now, s.limit.rate)
		if s.ledger.Spent() > s.limit.burst {
			c.indebt()
		}
	}
	c.setFull(0)
	if s.live {
		c.unlock(tat)
	}
	own := s.own
	s.clear(0)
	e.states.give(index, own, hash, admitted, tat)
}

// slotOf returns the slot that points to a state.
func (e *Engine) slotOf(hash uint64, index uint32) cell {
	if c, ok := e.table.find(hash); ok && c.full() == index+1 {
		return c
	}
	c, _ := e.named(hash)
	return c
}

// locate returns the slot of a key by its hash alone.
func (e *Engine) locate(hash uint64) (cell, bool) {
	if c, ok := e.named(hash); ok {
		return c, true
	}
	return e.table.find(hash)
}

// reserve returns the slot that a key has outside the table. It may have been freed
// (free.go): then its hash is another one.
func (e *Engine) reserve(hash uint64, at *atomic.Pointer[bucket]) cell {
	if b := at.Load(); b != nil && b.hash[0].Load() == hash {
		return cell{b, 0}
	}
	c, ok := e.named(hash)
	if !ok {
		fresh := &bucket{}
		fresh.hash[0].Store(hash)
		b, was := e.reserved.LoadOrStore(hash, fresh)
		if c.b = b.(*bucket); !was {
			e.reserves.add(hash)
		}
	}
	at.Store(c.b)
	return c
}

// named returns the slot that a key has outside the table, if it has one.
func (e *Engine) named(hash uint64) (cell, bool) {
	if b, ok := e.reserved.Load(hash); ok {
		return cell{b.(*bucket), 0}, true
	}
	return cell{}, false
}
