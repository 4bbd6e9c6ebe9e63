package keys

import (
	"sync/atomic"
	"time"

	"github.com/titrate/titrate/control/exchange"
)

// VisitSpent calls visit with every key that has spent something at now. It locks
// nothing while visit runs, so requests and Claims go on; what they spend meanwhile may
// be seen or not. O(table).
func (s *Store) VisitSpent(now int64, visit func(exchange.KeySpent)) {
	for i := range s.table.buckets {
		for j := range slotsPerBucket {
			s.visitSpent(slot{&s.table.buckets[i], j}, now, false, visit)
		}
	}
	s.dedicated.each(func(_ uint64, at slot) bool {
		s.visitSpent(at, now, true, visit)
		return true
	})
}

// visitSpent visits one key, with nothing locked: visit may take long.
func (s *Store) visitSpent(at slot, now int64, dedicated bool, visit func(exchange.KeySpent)) {
	key := at.hash()
	if tat := s.spentTAT(at, key, now); tat > now && at.hash() == key {
		visit(exchange.KeySpent{Key: key, Ahead: time.Duration(tat - now), Named: dedicated})
	}
}

// Restore takes over what a key has spent in another process, before this one has
// decided on it; afterwards the larger of both counts. It is not announced to the other
// replicas again: that process announced it, but for what was too little to
// announce. When the table has no room the key begins with its whole burst.
func (s *Store) Restore(now int64, spent exchange.KeySpent) {
	if spent.Ahead <= 0 {
		return
	}
	tat := now + int64(spent.Ahead)
	s.states.restore(now, spent.Key, tat)
	if spent.Named {
		for {
			var at atomic.Pointer[bucket]
			own := s.dedicated.obtain(spent.Key, &at)
			own.raise(tat)
			if own.hash() == spent.Key { // it was not freed meanwhile
				return
			}
		}
	}
	if at, ok := s.table.obtain(spent.Key, now); ok {
		at.raise(tat)
	}
}
