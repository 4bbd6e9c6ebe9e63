package keys

import (
	"math"
	"math/bits"
	"sync/atomic"

	"github.com/titrate/titrate/control/limiter/internal/hash"
	"github.com/titrate/titrate/control/limiter/internal/lock"
)

// The key table is set-associative: a key may be in one of the eight slots of either of
// two buckets. The table holds no pointers, never grows, and is read without a lock.
//
// A slot is one word of GCRA state, the TAT. While TAT ≤ now a slot says nothing that a
// key without a slot would not, so the slot may be given to another key at any time. No
// sweep is needed. Every change of a slot is a compare-and-swap of its TAT:
//
//	charge      t → t'               t' > t
//	structure   t → locked → new     another key gets the slot, or a state is attached
//	contended   t → moved            the state counts (slot.go)
//
// A TAT never has an earlier value again while a key has the slot, and the next key
// starts above the last value. So a charge that was computed for the old key cannot
// reach the new one: load the TAT, check the hash, then swap.
//
// A key that is not in the table is inserted under the mutex of its first bucket, so a
// key never has two slots.

const (
	slotsPerBucket = 8
	fill           = 0.85 // part of the slots that is used when the key budget is

	locked int64 = math.MinInt64     // a structural change is under way
	moved  int64 = math.MinInt64 + 1 // the slot's state counts
)

// bucket is four cache lines: all hashes in the first, all TATs in the second.
type bucket struct {
	hash     [slotsPerBucket]atomic.Uint64
	tat      [slotsPerBucket]atomic.Int64
	recent   [slotsPerBucket]atomic.Uint64 // second<<32 | cost admitted in it, see addRecent
	state    [slotsPerBucket]atomic.Uint32 // 1 + index of the state, 0: none
	insert   lock.Mutex[lock.Leaf]
	flags    atomic.Uint32    // bit per slot and flag
	versions [2]atomic.Uint64 // 16 bits per slot: of the numbers that its TAT counts by, see change.go
}

// flag is the first of eight bits of a bucket's flags, one for each slot.
type flag uint

const (
	inDebt     flag = 0  // its TAT may hold debt from corrected costs
	fractional flag = 8  // it counts by 1/N of the limit, see budget.go
	looked     flag = 16 // a Cursor has looked at its state, which nobody has locked for a change since, see changes.go
)

// slot is one slot of a bucket; without a bucket it is none.
type slot struct {
	b *bucket
	i int
}

func (s slot) tat() *atomic.Int64  { return &s.b.tat[s.i] }
func (s slot) hash() uint64        { return s.b.hash[s.i].Load() }
func (s slot) state() uint32       { return s.b.state[s.i].Load() }
func (s slot) setState(ref uint32) { s.b.state[s.i].Store(ref) }
func (s slot) is(f flag) bool      { return s.b.flags.Load()>>(uint(f)+uint(s.i))&1 != 0 }
func (s slot) set(f flag)          { s.b.flags.Or(1 << (uint(f) + uint(s.i))) }

// unset costs little where the flag is not set.
func (s slot) unset(f flag) {
	if s.is(f) {
		s.b.flags.And(^(uint32(1) << (uint(f) + uint(s.i))))
	}
}

// version returns the version of the numbers behind the slot's TAT; 0: unknown.
func (s slot) version() uint16 { return uint16(s.b.versions[s.i/4].Load() >> (s.i % 4 * 16)) }

func (s slot) setVersion(v uint16) {
	word, shift := &s.b.versions[s.i/4], s.i%4*16
	for {
		old := word.Load()
		if word.CompareAndSwap(old, old&^(0xffff<<shift)|uint64(v)<<shift) {
			return
		}
	}
}

// deepest is the most that the slot may have spent, in cost units. A TAT beyond it counts by
// numbers that are not known.
func (s slot) deepest(n Numbers) float64 {
	if s.is(inDebt) {
		return deepestDebt(n)
	}
	return n.Burst
}

type table struct {
	buckets []bucket
	used    []atomic.Uint64 // bit per bucket: a key may have been put there, ever
}

func newTable(keys int) table {
	n := int(math.Ceil(float64(keys) / (slotsPerBucket * fill)))
	n = max(2, n)
	return table{buckets: make([]bucket, n), used: make([]atomic.Uint64, (n+63)/64)}
}

// homes returns the two buckets of a key, by index; they may be the same one.
func (t *table) homes(key uint64) (first, second uint64) {
	n := uint64(len(t.buckets))
	first, _ = bits.Mul64(key, n)
	second, _ = bits.Mul64(bits.RotateLeft64(key, 32)*hash.MulB, n)
	return first, second
}

// markUsed notes that a key is put into one of its two buckets.
func (t *table) markUsed(key uint64) {
	i, j := t.homes(key)
	t.used[i/64].Or(1 << (i % 64))
	t.used[j/64].Or(1 << (j % 64))
}

// find returns a key's slot.
func (t *table) find(key uint64) (slot, bool) {
	first, second := t.homes(key)
	b := &t.buckets[first]
	i := b.index(key)
	if i < 0 {
		b = &t.buckets[second]
		if i = b.index(key); i < 0 {
			return slot{}, false
		}
	}
	return slot{b, i}, true
}

func (b *bucket) index(key uint64) int {
	for i := range b.hash {
		if b.hash[i].Load() == key {
			return i
		}
	}
	return -1
}

// obtain returns a key's slot, and gives it one if it has none. It fails when both
// buckets are full at now.
func (t *table) obtain(key uint64, now int64) (slot, bool) {
	if s, ok := t.find(key); ok {
		return s, true
	}
	i, j := t.homes(key)
	first, second := &t.buckets[i], &t.buckets[j]
	first.insert.Lock()
	defer first.insert.Unlock()
	if s, ok := t.find(key); ok {
		return s, true
	}
	t.markUsed(key)
	if second.idle(now) > first.idle(now) {
		first, second = second, first
	}
	if s, ok := first.give(key, now); ok {
		return s, true
	}
	return second.give(key, now)
}

// idle counts the slots that may be given to another key.
func (b *bucket) idle(now int64) (n int) {
	for i := range b.tat {
		if b.isIdle(i, now) {
			n++
		}
	}
	return n
}

func (b *bucket) isIdle(i int, now int64) bool {
	t := b.tat[i].Load()
	return t <= now && t > moved && b.state[i].Load() == 0
}

// give gives an idle slot of the bucket to a key.
func (b *bucket) give(key uint64, now int64) (slot, bool) {
	for i := range b.tat {
		t := b.tat[i].Load()
		if !b.isIdle(i, now) || !b.tat[i].CompareAndSwap(t, locked) {
			continue
		}
		if t > now || b.state[i].Load() != 0 { // changed between the two looks
			b.tat[i].Store(t)
			continue
		}
		b.hash[i].Store(key)
		b.recent[i].Store(0)
		b.flags.And(^(uint32(1<<inDebt|1<<fractional|1<<looked) << i))
		slot{b, i}.setVersion(0)
		b.tat[i].Store(max(t, 0) + 1)
		return slot{b, i}, true
	}
	return slot{}, false
}

// addRecent adds cost (fixed point) to what the slot has admitted in the running second
// and returns that sum in cost units, rounded up to 1/256 per request.
func (s slot) addRecent(now, cost int64) float64 {
	const scale, ceiling = 256, math.MaxUint32
	second := uint64(now/1e9) << 32
	add := min((uint64(cost)*scale+unit-1)/unit, ceiling)
	for {
		old := s.b.recent[s.i].Load()
		sum := add
		if old&^ceiling == second {
			sum = min(sum+old&ceiling, ceiling)
		}
		if s.b.recent[s.i].CompareAndSwap(old, second|sum) {
			return float64(sum) / scale
		}
	}
}

// live counts the slots that hold something at now. O(table).
func (t *table) live(now int64) (n int) {
	for i := range t.buckets {
		n += slotsPerBucket - t.buckets[i].idle(now)
	}
	return n
}
