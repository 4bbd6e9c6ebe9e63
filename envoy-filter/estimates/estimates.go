// Package estimates learns what requests will cost from what recent requests have cost.
//
// # Model
//
// A request whose cost only its response says is charged an estimate first. Requests of one [Key] are alike: the
// estimate is the mean, or a percentile, of the last [Window] costs of the key. Before the first of them there is
// none. Costs that were learned longer than [Fresh] ago count only as far as the last [Least] are needed. An
// estimate is fresh if the last cost is.
//
// # Invariants
//
//   - The table has room for [Most] keys. A further key takes the place of the key, among a few, that was learned
//     the longest ago. A caller makes no key of names that clients invent.
//   - Reading takes no lock and allocates nothing. An estimate that is read while its place is given to another key
//     may be that key's: it is one request's first charge, which the response corrects.
//   - A process in which nothing is learned has no table.
//
// Learning costs O(Window) for a mean and O(Window log Window) for a percentile.
package estimates

import (
	"hash/maphash"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Window is the number of recent costs that an estimate is made of.
	Window = 64
	// Fresh is the time for which a cost is recent, Least the number of last costs that count at any age.
	Fresh = time.Hour
	Least = 8
	// Most is the number of keys in the table.
	Most = sets * ways

	sets, ways = 1024, 4
)

// Key stands for a kind of requests. It is never 0.
type Key uint64

var seed = maphash.MakeSeed()

// Kind is a kind of requests, and one of their costs: the costs of one kind are alike. Costs of different units are of
// different kinds, even if they have the same place.
type Kind struct {
	// Whose requests, and where to.
	Tenant, Route, Pool string
	// Name and Space are where the response has the cost, if From needs that.
	Name, Space string
	// Cost is the place of the cost among those of a request. From says what the cost is, Usage which number of the
	// usage.
	Cost, From, Usage uint8
	// Percentile says which percentile of the costs is the estimate.
	Percentile uint8
}

// KeyOf returns the key of a kind.
func KeyOf(k *Kind) Key {
	var h maphash.Hash
	h.SetSeed(seed)
	_, _ = h.Write([]byte{k.Cost, k.From, k.Usage, k.Percentile})
	for _, s := range [...]string{k.Tenant, k.Route, k.Pool, k.Name, k.Space} {
		_, _ = h.WriteString(s)
		_ = h.WriteByte(0)
	}
	return Key(h.Sum64() | 1)
}

// Table has the estimates of a process. The zero value is ready. Safe for concurrent use.
type Table struct {
	sets atomic.Pointer[[sets]set]
	make sync.Once
}

type set struct {
	mu    sync.Mutex // guards the history of the entries
	clock uint64     // counts what was learned here
	ways  [ways]entry
}

type entry struct {
	key      atomic.Uint64
	estimate atomic.Uint64 // the bits of a float64
	last     atomic.Int64  // when it was last learned, nanoseconds
	at       uint64        // the set's clock then
	recent   *[Window]learned
	n        int // costs that were learned
}

// learned is a cost, and when it was learned, nanoseconds.
type learned struct {
	cost float64
	at   int64
}

// Estimate returns the estimate of a key at a time, nanoseconds. Not ok: nothing was learned.
func (t *Table) Estimate(k Key, now int64) (cost float64, fresh, ok bool) {
	all := t.sets.Load()
	if all == nil {
		return 0, false, false
	}
	s := &all[k.set()]
	for i := range s.ways {
		if e := &s.ways[i]; e.key.Load() == uint64(k) {
			return math.Float64frombits(e.estimate.Load()), now-e.last.Load() <= int64(Fresh), true
		}
	}
	return 0, false, false
}

// Learn takes in a cost, ≥ 0, at a time, nanoseconds. The estimate is then that percentile of the recent costs, or
// their mean if percentile is 0.
func (t *Table) Learn(k Key, now int64, cost float64, percentile int) {
	t.make.Do(func() { t.sets.Store(new([sets]set)) })
	s := &t.sets.Load()[k.set()]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock++
	e := s.obtain(k)
	e.at = s.clock
	e.recent[e.n%Window] = learned{cost, now}
	e.n++
	var room [Window]float64
	e.estimate.Store(math.Float64bits(of(e.costs(now, room[:0]), percentile)))
	e.last.Store(now)
	e.key.Store(uint64(k)) // last: the estimate is there
}

// costs appends the costs that count, the last one first.
func (e *entry) costs(now int64, to []float64) []float64 {
	for i := e.n - 1; i >= max(0, e.n-Window); i-- {
		l := &e.recent[i%Window]
		if len(to) >= Least && now-l.at > int64(Fresh) {
			break
		}
		to = append(to, l.cost)
	}
	return to
}

func (k Key) set() uint64 { return uint64(k) >> 32 % sets }

// obtain returns the entry of a key, or, emptied, the entry with the oldest last cost.
func (s *set) obtain(k Key) *entry {
	oldest := &s.ways[0]
	for i := range s.ways {
		e := &s.ways[i]
		if e.key.Load() == uint64(k) {
			return e
		}
		if e.at < oldest.at {
			oldest = e
		}
	}
	oldest.key.Store(0)
	if oldest.recent == nil {
		oldest.recent = new([Window]learned)
	}
	oldest.n = 0
	return oldest
}

// of returns a percentile of the costs by the nearest rank, or their mean. It sorts them.
func of(costs []float64, percentile int) float64 {
	if percentile == 0 {
		sum := 0.0
		for _, c := range costs {
			sum += c
		}
		return sum / float64(len(costs))
	}
	slices.Sort(costs)
	rank := (percentile*len(costs) + 99) / 100
	return costs[max(rank, 1)-1]
}
