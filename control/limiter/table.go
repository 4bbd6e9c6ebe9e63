package limiter

import (
	"math"
	"math/bits"
	"runtime"
	"sync/atomic"
)

// The key table is set-associative: a key may live in one of the eight slots of
// either of two buckets. It holds no pointers, never grows, and reading and
// charging take no lock.
//
// A slot is one word of GCRA state, the TAT. While TAT ≤ now it says nothing
// that an absent key would not, so such a slot may be given to another key at
// any time: there is no sweep and no clock hand. Every change of a slot goes
// through a compare-and-swap of its TAT:
//
//	charge      t → t'        t' > t
//	structure   t → locked → new TAT     another key moves in, full state is attached
//	promoted    t → moved     the full state (state.go) has taken over
//
// Because a TAT never takes an earlier value again within a key's stay, and a
// new tenant of the slot starts above the last value, a charge computed for the
// old key cannot land on the new one: load TAT, check the hash, then swap.
//
// Insertions of one key always take the mutex of the same home bucket, so a key
// never has two slots. It is taken for keys that are not in the table only.

const (
	slotsPerBucket = 8
	slotBytes      = 32
	fill           = 0.85 // part of the slots that is used when the key budget is

	locked int64 = math.MinInt64     // a structural change is under way
	moved  int64 = math.MinInt64 + 1 // see the slot's full state
)

// bucket is four cache lines: all hashes in the first, all TATs in the second.
type bucket struct {
	hash   [slotsPerBucket]atomic.Uint64
	tat    [slotsPerBucket]atomic.Int64
	recent [slotsPerBucket]atomic.Uint64 // second<<32 | cost admitted in it, see usage
	full   [slotsPerBucket]atomic.Uint32 // 1 + index of the full state, 0: none
	insert mutex[leafRank]
	debts  atomic.Uint32 // bit per slot: its TAT may hold debt from settled costs
	parted atomic.Uint32 // bit per slot: it counts by its part of the limit, see budget.go
	_      [16]byte
}

// cell is one slot of a bucket.
type cell struct {
	b *bucket
	i int
}

func (c cell) tat() *atomic.Int64  { return &c.b.tat[c.i] }
func (c cell) hash() uint64        { return c.b.hash[c.i].Load() }
func (c cell) full() uint32        { return c.b.full[c.i].Load() }
func (c cell) setFull(full uint32) { c.b.full[c.i].Store(full) }

// deepest is the most that the slot may have spent, in cost units: a TAT beyond
// it dates from a lower limit.
func (c cell) deepest(n numbers) float64 {
	if c.b.debts.Load()>>c.i&1 != 0 {
		return deepest(n)
	}
	return n.burst
}

// indebt says that the slot's TAT may hold debt, until another key has the slot.
func (c cell) indebt() { c.b.debts.Or(1 << c.i) }

// lock makes a structural change exclusive and returns the TAT to store when it
// is done. It fails when the slot does not belong to hash or has moved.
func (c cell) lock(hash uint64) (int64, bool) {
	for {
		t := c.tat().Load()
		switch {
		case t == locked:
			runtime.Gosched()
		case t == moved || c.hash() != hash:
			return 0, false
		case c.tat().CompareAndSwap(t, locked):
			return t, true
		}
	}
}

// unlock ends a structural change.
func (c cell) unlock(tat int64) { c.tat().Store(tat) }

type table struct {
	buckets []bucket
	used    []atomic.Uint64 // bit per bucket: a key may have been put there, ever
}

func newTable(keys int) table {
	n := int(math.Ceil(float64(keys) / (slotsPerBucket * fill)))
	n = max(2, n)
	return table{buckets: make([]bucket, n), used: make([]atomic.Uint64, (n+63)/64)}
}

// homes returns the two buckets of a key; they may be the same one.
func (t *table) homes(hash uint64) (first, second *bucket) {
	i, j := t.places(hash)
	return &t.buckets[i], &t.buckets[j]
}

func (t *table) places(hash uint64) (first, second uint64) {
	n := uint64(len(t.buckets))
	first, _ = bits.Mul64(hash, n)
	second, _ = bits.Mul64(bits.RotateLeft64(hash, 32)*mulB, n)
	return first, second
}

// use notes that a key is put into one of its two buckets.
func (t *table) use(hash uint64) {
	i, j := t.places(hash)
	t.used[i/64].Or(1 << (i % 64))
	t.used[j/64].Or(1 << (j % 64))
}

// find returns a key's slot.
func (t *table) find(hash uint64) (cell, bool) {
	first, second := t.homes(hash)
	if i := first.index(hash); i >= 0 {
		return cell{first, i}, true
	}
	if i := second.index(hash); i >= 0 {
		return cell{second, i}, true
	}
	return cell{}, false
}

func (b *bucket) index(hash uint64) int {
	for i := range b.hash {
		if b.hash[i].Load() == hash {
			return i
		}
	}
	return -1
}

// obtain returns a key's slot and takes one for it if it has none. It fails
// when neither bucket has a slot to spare at now.
func (t *table) obtain(hash uint64, now int64) (cell, bool) {
	if c, ok := t.find(hash); ok {
		return c, true
	}
	first, second := t.homes(hash)
	first.insert.Lock()
	defer first.insert.Unlock()
	if c, ok := t.find(hash); ok {
		return c, true
	}
	t.use(hash)
	if second.spare(now) > first.spare(now) {
		first, second = second, first
	}
	if c, ok := first.settle(hash, now); ok {
		return c, true
	}
	return second.settle(hash, now)
}

// spare counts the slots that may be given away.
func (b *bucket) spare(now int64) (n int) {
	for i := range b.tat {
		if b.free(i, now) {
			n++
		}
	}
	return n
}

func (b *bucket) free(i int, now int64) bool {
	t := b.tat[i].Load()
	return t <= now && t > moved && b.full[i].Load() == 0
}

// settle gives one of the bucket's spare slots to hash.
func (b *bucket) settle(hash uint64, now int64) (cell, bool) {
	for i := range b.tat {
		t := b.tat[i].Load()
		if !b.free(i, now) || !b.tat[i].CompareAndSwap(t, locked) {
			continue
		}
		if t > now || b.full[i].Load() != 0 { // changed between the two looks
			b.tat[i].Store(t)
			continue
		}
		b.hash[i].Store(hash)
		b.recent[i].Store(0)
		b.debts.And(^(uint32(1) << i))
		b.parted.And(^(uint32(1) << i))
		b.tat[i].Store(max(t, 0) + 1)
		return cell{b, i}, true
	}
	return cell{}, false
}

// usage adds cost (fixed point) to what the slot has admitted in the running
// second and returns that sum in cost units, rounded up to 1/256 per request.
func (c cell) usage(now, cost int64) float64 {
	const scale, ceiling = 256, math.MaxUint32
	second := uint64(now/1e9) << 32
	add := min((uint64(cost)*scale+unit-1)/unit, ceiling)
	for {
		old := c.b.recent[c.i].Load()
		sum := add
		if old&^ceiling == second {
			sum = min(sum+old&ceiling, ceiling)
		}
		if c.b.recent[c.i].CompareAndSwap(old, second|sum) {
			return float64(sum) / scale
		}
	}
}

// live counts the slots that hold something at now. O(table).
func (t *table) live(now int64) (n int) {
	for i := range t.buckets {
		n += slotsPerBucket - t.buckets[i].spare(now)
	}
	return n
}
