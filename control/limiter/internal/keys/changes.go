package keys

import (
	"math/bits"
	"time"

	"github.com/titrate/titrate/control/exchange"
)

// Cursor goes through the keys part by part and remembers what it reported of each, so
// that only changes are reported. Its memory is 4 bytes per slot of the table. The zero
// value reports everything. One goroutine uses it.
type Cursor struct {
	// Least is the time to win the burst back below which a key is not reported; it
	// should be above 0.
	Least     time.Duration
	reported  []uint32 // per slot, see coarse
	dedicated map[uint64]uint32
	next      int  // 64 buckets
	walks     int  // that have begun
	all       bool // this one looks at all states
}

// coarse is a TAT in 2^24 ns (17 ms), rounded up: enough to see that it has moved. It
// wraps after two years.
func coarse(tat int64) uint32 { return uint32((tat + 1<<24 - 1) >> 24) }

// isLater reports whether the TAT that was reported is still ahead of a time.
func isLater(reported uint32, than int64) bool {
	return reported != 0 && int32(reported-coarse(than)) > 0
}

// allEvery is the number of walks of which one looks at all states: each 16 s. Others leave out what nobody has locked
// for a change since a walk looked at it. What Claims finds that the other gateways claim no more is reported so late.
// A walk of one part looks at all, too: it may be the last one.
const allEvery = 64

// maxBuckets bounds the buckets of one call, eight keys each: 131,072 keys are looked at
// in about a millisecond.
const maxBuckets = 1 << 14

// SpentChanges calls visit with keys whose use has changed since the cursor reported it last: keys that take longer
// than Least to win their burst back. Keys that did so when they were reported and were refunded something since are
// visited with Ahead ≤ Least or 0. One call goes through a part-th of the table. It stops early after about most keys
// that are reported or have a state, whose lock it takes, or after maxBuckets buckets in use. The keys outside the
// table are looked at when the walk through the table begins again. It returns whether it has come to the table's end.
func (s *Store) SpentChanges(now int64, c *Cursor, part, most int, visit func(exchange.KeySpent)) (end bool) {
	if c.reported == nil {
		c.reported, c.dedicated = make([]uint32, len(s.table.buckets)*slotsPerBucket), map[uint64]uint32{}
	}
	if c.next == 0 {
		c.all = c.walks%allEvery == 0 || part <= 1
		c.walks++
		most -= s.dedicatedChanges(now, c, visit)
	}
	used := s.table.used
	words, buckets := (len(used)+part-1)/max(part, 1), maxBuckets
	for ; words > 0 && buckets > 0 && most > 0; words-- {
		for word := used[c.next].Load(); word != 0; word &= word - 1 {
			buckets--
			most -= s.bucketChanges(c.next*64+bits.TrailingZeros64(word), now, c, visit)
		}
		if c.next++; c.next == len(used) {
			c.next = 0
			return true
		}
	}
	return false
}

func (s *Store) bucketChanges(index int, now int64, c *Cursor, visit func(exchange.KeySpent)) (n int) {
	b, reported := &s.table.buckets[index], c.reported[index*slotsPerBucket:][:slotsPerBucket]
	for i := range reported {
		tat := b.tat[i].Load()
		if tat > moved && (coarse(tat) == reported[i] || reported[i] == 0 && tat <= now) {
			continue // as most are
		}
		at := slot{b, i}
		if tat == moved {
			if at.is(looked) && !c.all {
				continue
			}
			at.set(looked) // before the look
		}
		if s.reportChange(at, &reported[i], now, c.Least, false, visit) || tat == moved {
			n++
		}
	}
	return n
}

func (s *Store) dedicatedChanges(now int64, c *Cursor, visit func(exchange.KeySpent)) (n int) {
	kept := 0
	s.dedicated.each(func(key uint64, at slot) bool {
		reported := c.dedicated[key]
		if s.reportChange(at, &reported, now, c.Least, true, visit) {
			n++
		}
		if reported == 0 {
			delete(c.dedicated, key)
		} else {
			c.dedicated[key] = reported
			kept++
		}
		return true
	})
	if kept < len(c.dedicated) { // some were freed
		c.forgetFreed(s)
	}
	return n
}

// reportChange reports one slot's key if its use has changed.
func (s *Store) reportChange(
	at slot, reported *uint32, now int64, least time.Duration, dedicated bool, visit func(exchange.KeySpent),
) bool {
	tat := at.tat().Load()
	if tat > moved && tat <= now+int64(least) && !isLater(*reported, now) {
		*reported = 0
		return false
	}
	key := at.hash()
	tat = s.spentTAT(at, key, now)
	ahead := max(0, tat-now)
	switch {
	case tat == 0 || coarse(tat) == *reported, at.hash() != key:
		return false
	case ahead <= int64(least) && !isLater(*reported, now):
		*reported = 0
		return false
	}
	*reported = coarse(tat)
	if ahead == 0 {
		*reported = 0
	}
	visit(exchange.KeySpent{Key: key, Ahead: time.Duration(ahead), Named: dedicated})
	return true
}

// forgetFreed drops the keys that have no slot any more.
func (c *Cursor) forgetFreed(s *Store) {
	for key := range c.dedicated {
		if _, ok := s.dedicated.find(key); !ok {
			delete(c.dedicated, key)
		}
	}
}
