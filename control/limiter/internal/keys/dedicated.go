package keys

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/titrate/titrate/control/limiter/internal/lock"
)

// dedicated are the slots outside the table: of keys of tenants as a whole and of the
// keys that clients beyond the budget share. Each has its own bucket. Slots that
// nobody uses are freed.
type dedicated struct {
	buckets sync.Map // *bucket by hash

	mu      lock.Mutex[lock.Leaf]
	keys    []uint64 // all, to find keys that may go
	next    int      // of the round, downwards
	roundAt int64    // when the round began
}

// smallList is the size below which the list of keys is not rebuilt, and shrink the
// part of its largest size below which it is.
const smallList, shrink = 1024, 4

// obtain returns a key's slot and makes one if it has none. The remembered bucket may
// have been freed: then its hash is another one.
func (d *dedicated) obtain(key uint64, remembered *atomic.Pointer[bucket]) slot {
	if b := remembered.Load(); b != nil && b.hash[0].Load() == key {
		return slot{b, 0}
	}
	at, ok := d.find(key)
	if !ok {
		fresh := &bucket{}
		fresh.hash[0].Store(key)
		b, was := d.buckets.LoadOrStore(key, fresh)
		if at.b = b.(*bucket); !was {
			d.list(key)
		}
	}
	remembered.Store(at.b)
	return at
}

// find returns the slot that a key has outside the table, if it has one.
func (d *dedicated) find(key uint64) (slot, bool) {
	if b, ok := d.buckets.Load(key); ok {
		return slot{b.(*bucket), 0}, true
	}
	return slot{}, false
}

// each calls visit with every slot until visit returns false.
func (d *dedicated) each(visit func(key uint64, at slot) bool) {
	d.buckets.Range(func(key, b any) bool { return visit(key.(uint64), slot{b.(*bucket), 0}) })
}

func (d *dedicated) list(key uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.keys = append(d.keys, key)
}

// len is the number of slots.
func (d *dedicated) len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.keys)
}

// FreeIdle looks at some of the slots outside the table, at most so many, and at all of
// them once in idle nanoseconds. It frees the slots that nobody has used for as long.
func (s *Store) FreeIdle(now, idle int64, most int) {
	d := &s.dedicated
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.next == 0 && now-d.roundAt >= idle {
		d.next, d.roundAt = len(d.keys), now
	}
	for n := 0; n < most && d.next > 0; n++ {
		d.next--
		if d.free(d.keys[d.next], now-idle) {
			last := len(d.keys) - 1
			d.keys[d.next] = d.keys[last]
			d.keys = d.keys[:last]
		}
	}
	if cap(d.keys) > smallList && len(d.keys) < cap(d.keys)/shrink {
		d.keys = slices.Clone(d.keys)
	}
}

// free frees the slot of a key whose burst has been whole since a time. As when a slot
// of the table is given away, a reader of its TAT finds it changed.
func (d *dedicated) free(key uint64, since int64) bool {
	at, ok := d.find(key)
	if !ok {
		return true
	}
	t := at.tat().Load()
	if t <= moved || t > since || at.state() != 0 || !at.tat().CompareAndSwap(t, locked) {
		return false
	}
	defer at.unlock(max(t, 0) + 1)
	if at.state() != 0 {
		return false
	}
	at.b.hash[0].Store(0)
	d.buckets.Delete(key)
	return true
}
