package limiter

import (
	"sync/atomic"
	"time"

	"github.com/titrate/titrate/control/drc"
	"github.com/titrate/titrate/control/exchange"
)

// Bequeath calls visit with every key that has spent something at now. It locks
// nothing while visit runs, so that requests and Claims go on; what they spend
// meanwhile may be seen or not. O(table).
func (e *Engine) Bequeath(now int64, visit func(exchange.KeySpent)) {
	for i := range e.table.buckets {
		for j := range slotsPerBucket {
			e.bequeath(cell{&e.table.buckets[i], j}, now, false, visit)
		}
	}
	e.reserved.Range(func(_, b any) bool {
		e.bequeath(cell{b.(*bucket), 0}, now, true, visit)
		return true
	})
}

// bequeath visits one key, with nothing locked: visit may take long.
func (e *Engine) bequeath(c cell, now int64, named bool, visit func(exchange.KeySpent)) {
	hash := c.hash()
	if tat := e.tat(c, hash, now); tat > now && c.hash() == hash {
		visit(exchange.KeySpent{Key: hash, Ahead: time.Duration(tat - now), Named: named})
	}
}

// tat is a key's use as a TAT, whatever form it has; 0 if the slot is in a change.
func (e *Engine) tat(c cell, hash uint64, now int64) int64 {
	tat := c.tat().Load()
	if tat > moved {
		return tat
	}
	s := e.held(c, hash)
	if s == nil {
		return 0
	}
	defer s.mu.Unlock()
	if !s.live {
		return c.tat().Load()
	}
	return drc.TATFor(s.ledger.Spent(), now, s.limit.rate)
}

// Inherit takes over what a key has spent elsewhere, before this engine has decided
// on it; afterwards the larger of both counts. The others are not told of it again: they
// have heard it from that engine, but for what was too little to tell. It is refused, and the key begins
// with its whole burst, when the table has no room.
func (e *Engine) Inherit(now int64, s exchange.KeySpent) {
	if s.Ahead <= 0 {
		return
	}
	e.states.inherit(s.Key, now+int64(s.Ahead))
	if s.Named {
		for {
			var at atomic.Pointer[bucket]
			c := e.reserve(s.Key, &at)
			c.raise(now + int64(s.Ahead))
			if c.hash() == s.Key { // it was not freed meanwhile
				return
			}
		}
	}
	if c, ok := e.table.obtain(s.Key, now); ok {
		c.raise(now + int64(s.Ahead))
	}
}

// raise moves the slot's TAT up, unless something else has it.
func (c cell) raise(to int64) {
	for {
		t := c.tat().Load()
		if t >= to || t == locked || t == moved || c.tat().CompareAndSwap(t, to) {
			return
		}
	}
}
