package limiter

import (
	"math/bits"
	"time"

	"github.com/titrate/titrate/control/exchange"
)

// SpentWalk goes through the keys part by part and remembers what it told of each,
// so that only news are told. Its memory is 4 bytes per slot of the table. The zero
// value tells everything. One goroutine uses it.
type SpentWalk struct {
	// Least is the time to win the burst back below which a key is not told; it
	// should be above 0.
	Least time.Duration
	told  []uint32 // per slot, see quantum
	named map[uint64]uint32
	next  int // 64 buckets
}

// quantum is a TAT in 2^24 ns (17 ms), rounded up: enough to see that it has moved.
// It wraps after two years.
func quantum(tat int64) uint32 { return uint32((tat + 1<<24 - 1) >> 24) }

// later says that the TAT which was told is still ahead of a time.
func later(told uint32, than int64) bool { return told != 0 && int32(told-quantum(than)) > 0 }

// TellSpent calls visit with keys whose use has changed since the walk told it last:
// those that take longer than Least to win their burst back, and those that did when
// they were told and have been given something back since, with Ahead ≤ Least or 0.
// One call goes through a part-th of the table and stops early after about most keys,
// or after walkBuckets buckets in use; the keys that the configuration names are looked
// at when the table begins anew. It says whether it has come to the table's end.
func (e *Engine) TellSpent(now int64, w *SpentWalk, part, most int, visit func(exchange.KeySpent)) (end bool) {
	if w.told == nil {
		w.told, w.named = make([]uint32, len(e.table.buckets)*slotsPerBucket), map[uint64]uint32{}
	}
	if w.next == 0 {
		most -= e.tellNamed(now, w, visit)
	}
	used := e.table.used
	words, buckets := (len(used)+part-1)/max(part, 1), walkBuckets
	for ; words > 0 && buckets > 0 && most > 0; words-- {
		for word := used[w.next].Load(); word != 0; word &= word - 1 {
			buckets--
			most -= e.tellBucket(w.next*64+bits.TrailingZeros64(word), now, w, visit)
		}
		if w.next++; w.next == len(used) {
			w.next = 0
			return true
		}
	}
	return false
}

// walkBuckets bounds the buckets of one call, eight keys each: 131,072 keys are
// looked at in about a millisecond.
const walkBuckets = 1 << 14

func (e *Engine) tellBucket(at int, now int64, w *SpentWalk, visit func(exchange.KeySpent)) (n int) {
	b, told := &e.table.buckets[at], w.told[at*slotsPerBucket:][:slotsPerBucket]
	for i := range told {
		if tat := b.tat[i].Load(); tat > moved && (quantum(tat) == told[i] || told[i] == 0 && tat <= now) {
			continue // as most are
		}
		if e.tellOne(cell{b, i}, &told[i], now, w.Least, false, visit) {
			n++
		}
	}
	return n
}

func (e *Engine) tellNamed(now int64, w *SpentWalk, visit func(exchange.KeySpent)) (n int) {
	kept := 0
	e.reserved.Range(func(key, b any) bool {
		hash := key.(uint64)
		told := w.named[hash]
		if e.tellOne(cell{b.(*bucket), 0}, &told, now, w.Least, true, visit) {
			n++
		}
		if told == 0 {
			delete(w.named, hash)
		} else {
			w.named[hash] = told
			kept++
		}
		return true
	})
	if kept < len(w.named) { // some were freed
		w.forget(e)
	}
	return n
}

// tellOne tells one slot's key if there is news.
func (e *Engine) tellOne(c cell, told *uint32, now int64, least time.Duration, named bool, visit func(exchange.KeySpent)) bool {
	tat := c.tat().Load()
	if tat > moved && tat <= now+int64(least) && !later(*told, now) {
		*told = 0
		return false
	}
	hash := c.hash()
	tat = e.tat(c, hash, now)
	ahead := max(0, tat-now)
	switch {
	case tat == 0 || quantum(tat) == *told, c.hash() != hash:
		return false
	case ahead <= int64(least) && !later(*told, now):
		*told = 0
		return false
	}
	*told = quantum(tat)
	if ahead == 0 {
		*told = 0
	}
	visit(exchange.KeySpent{Key: hash, Ahead: time.Duration(ahead), Named: named})
	return true
}

// forget drops what was told of keys that have no slot any more.
func (w *SpentWalk) forget(e *Engine) {
	for hash := range w.named {
		if _, ok := e.reserved.Load(hash); !ok {
			delete(w.named, hash)
		}
	}
}
