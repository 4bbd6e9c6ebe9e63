package config

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"strings"
)

// Override is other numbers for one key of a limit. It is apart from the limit, so that a million of them travel one by
// one.
type Override struct {
	Key    uint64  // the hash of the client's key
	Number float64 // by the LimitKind: a rate in cost units/s, requests in flight, or the amount of a quota
	Burst  float64 // cost units, of a rate
	Until  Instant // from which it counts no more; 0: it stays
}

// LimitKind says whether a limit counts by a rate, a concurrency or a quota.
type LimitKind uint8

// The kinds of limits.
const (
	RateLimit LimitKind = iota
	ConcurrencyLimit
	QuotaLimit
)

// Kind returns the kind of the limit.
func (l *Limit) Kind() LimitKind {
	switch {
	case l.Concurrency > 0:
		return ConcurrencyLimit
	case l.Quota != nil:
		return QuotaLimit
	}
	return RateLimit
}

// Numbers returns the numbers of an override of a limit of a kind.
func (o Override) Numbers(k LimitKind) RateBurst {
	rb := RateBurst{Until: o.Until}
	switch k {
	case ConcurrencyLimit:
		rb.Concurrency = int64(o.Number)
	case QuotaLimit:
		rb.Amount = o.Number
	default:
		rb.Rate, rb.Burst = o.Number, o.Burst
	}
	return rb
}

// OverrideOf makes an Override, and the kind of limit that it is for, of valid numbers.
func OverrideOf(key uint64, rb RateBurst) (Override, LimitKind) {
	switch {
	case rb.Concurrency > 0:
		return Override{Key: key, Number: float64(rb.Concurrency), Until: rb.Until}, ConcurrencyLimit
	case rb.Amount > 0:
		return Override{Key: key, Number: rb.Amount, Until: rb.Until}, QuotaLimit
	}
	return Override{Key: key, Number: rb.Rate, Burst: rb.Burst, Until: rb.Until}, RateLimit
}

// OverridesOf says of which limits a table of overrides is: those of the name and the kind that a tenant has.
type OverridesOf struct {
	Tenant string    `json:"tenant"`
	Limit  string    `json:"limit"`
	Kind   LimitKind `json:"kind,omitempty"`
}

// Compare orders by tenant, limit and kind.
func (of OverridesOf) Compare(other OverridesOf) int {
	return cmp.Or(strings.Compare(of.Tenant, other.Tenant), strings.Compare(of.Limit, other.Limit),
		cmp.Compare(of.Kind, other.Kind))
}

// OverrideTable is the overrides of a limit.
type OverrideTable struct {
	OverridesOf
	Table *Overrides `json:"rows"`
}

// OverrideChange changes overrides of a limit.
type OverrideChange struct {
	OverridesOf
	Put     OverrideRows `json:"put,omitempty"`
	Removed OverrideKeys `json:"removed,omitempty"`

	known bool       // table is
	table *Overrides // after the change
}

// Table is the overrides after the change; known says whether [Set.Resolve] has computed them.
func (c *OverrideChange) Table() (table *Overrides, known bool) { return c.table, c.known }

// Overrides is a table of overrides by key. It does not change: With makes another one, and shares with it what is the
// same. So each copy of a configuration in a process has the same rows, which take 32 bytes each. Nil is empty.
type Overrides struct {
	shift  uint8 // a key's shard is its first bits: key >> shift
	count  int
	shards []shard
}

// shard is some rows in the order of their keys.
type shard struct {
	rows  []Override
	first Instant // the earliest Until; 0: none
}

// rowsOfShard is about how many rows a shard has: a change copies one shard, and the list of shards.
const rowsOfShard = 128

// Len is the number of overrides.
func (o *Overrides) Len() int {
	if o == nil {
		return 0
	}
	return o.count
}

// Find returns the override of a key.
func (o *Overrides) Find(key uint64) (Override, bool) {
	if o == nil {
		return Override{}, false
	}
	rows := o.shards[key>>o.shift].rows
	low, high := 0, len(rows)
	for low < high {
		if middle := int(uint(low+high) >> 1); rows[middle].Key < key {
			low = middle + 1
		} else {
			high = middle
		}
	}
	if low < len(rows) && rows[low].Key == key {
		return rows[low], true
	}
	return Override{}, false
}

// All are the overrides in the order of their keys.
func (o *Overrides) All() iter.Seq[Override] {
	return func(yield func(Override) bool) {
		if o == nil {
			return
		}
		for _, s := range o.shards {
			for _, row := range s.rows {
				if !yield(row) {
					return
				}
			}
		}
	}
}

// Same reports whether two tables have the same overrides.
func (o *Overrides) Same(other *Overrides) bool {
	if o == other || o.Len() != other.Len() || o.Len() == 0 {
		return o.Len() == other.Len()
	}
	if o.shift != other.shift {
		return slices.Equal(slices.Collect(o.All()), slices.Collect(other.All()))
	}
	for i, s := range o.shards {
		if mine, its := s.rows, other.shards[i].rows; len(mine) != len(its) ||
			len(mine) > 0 && &mine[0] != &its[0] && !slices.Equal(mine, its) {
			return false
		}
	}
	return true
}

// With is the table with other rows, and without some keys; of a key that is in both the row counts. It costs
// O(change + shards), and O(table) where it grows or shrinks fourfold.
func (o *Overrides) With(put []Override, removed []uint64) *Overrides {
	put = byKey(put)
	removed = slices.Clone(removed)
	slices.Sort(removed)
	out := &Overrides{shift: 63, shards: make([]shard, 2)}
	if o != nil {
		*out = Overrides{shift: o.shift, count: o.count, shards: slices.Clone(o.shards)}
	}
	out.resize(o.Len() + len(put))
	for len(put)+len(removed) > 0 {
		next := uint64(math.MaxUint64)
		if len(put) > 0 {
			next = put[0].Key
		}
		if len(removed) > 0 {
			next = min(next, removed[0])
		}
		at := next >> out.shift
		i, _ := slices.BinarySearchFunc(put, at, func(r Override, at uint64) int {
			return cmp.Compare(r.Key>>out.shift, at+1)
		})
		j, _ := slices.BinarySearchFunc(removed, at, func(k, at uint64) int { return cmp.Compare(k>>out.shift, at+1) })
		was := out.shards[at].rows
		rows := merged(was, put[:i], removed[:j])
		out.shards[at], out.count = shardOf(rows), out.count+len(rows)-len(was)
		put, removed = put[i:], removed[j:]
	}
	if out.count == 0 {
		return nil
	}
	out.resize(out.count)
	return out
}

// byKey are rows in the order of their keys, of each key the last.
func byKey(rows []Override) []Override {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b Override) int { return cmp.Compare(a.Key, b.Key) })
	slices.Reverse(rows)
	rows = slices.CompactFunc(rows, func(a, b Override) bool { return a.Key == b.Key })
	slices.Reverse(rows)
	return rows
}

// resize changes the number of shards if it is far from the one for so many rows.
func (o *Overrides) resize(rows int) {
	want := max(2, rows/rowsOfShard)
	if want < 4*len(o.shards) && len(o.shards) <= max(2, 4*want) {
		return
	}
	bits := uint8(1)
	for 1<<bits < want {
		bits++
	}
	lists := make([][]Override, 1<<bits)
	shift := 64 - bits
	for row := range o.All() {
		lists[row.Key>>shift] = append(lists[row.Key>>shift], row)
	}
	o.shift, o.shards = shift, make([]shard, len(lists))
	for i, rows := range lists {
		o.shards[i] = shardOf(slices.Clone(rows))
	}
}

// merged are rows with others, which may replace some, and without some keys; all are in order. The result takes no
// more memory than it needs.
func merged(rows, put []Override, removed []uint64) []Override {
	out := make([]Override, 0, len(rows)+len(put))
	gone := func(key uint64) bool {
		for len(removed) > 0 && removed[0] < key {
			removed = removed[1:]
		}
		return len(removed) > 0 && removed[0] == key
	}
	for len(rows) > 0 {
		switch {
		case len(put) > 0 && put[0].Key <= rows[0].Key:
			if put[0].Key == rows[0].Key {
				rows = rows[1:]
			}
			out, put = append(out, put[0]), put[1:]
		case gone(rows[0].Key):
			rows = rows[1:]
		default:
			out, rows = append(out, rows[0]), rows[1:]
		}
	}
	out = append(out, put...)
	if len(out) == 0 {
		return nil
	}
	if cap(out) > len(out) {
		return append(make([]Override, 0, len(out)), out...)
	}
	return out
}

func shardOf(rows []Override) shard {
	s := shard{rows: rows}
	for _, row := range rows {
		if row.Until != 0 && (s.first == 0 || row.Until < s.first) {
			s.first = row.Until
		}
	}
	return s
}

// At returns the overrides that hold at an instant. The table stays as it is; it is returned if all of it holds.
func (o *Overrides) At(at Instant) *Overrides {
	if o == nil {
		return nil
	}
	var out *Overrides
	for i, s := range o.shards {
		if !s.first.Over(at) {
			continue
		}
		if out == nil {
			out = &Overrides{shift: o.shift, count: o.count, shards: slices.Clone(o.shards)}
		}
		rows := slices.DeleteFunc(slices.Clone(s.rows), func(row Override) bool { return row.Until.Over(at) })
		out.shards[i], out.count = shardOf(rows), out.count+len(rows)-len(s.rows)
	}
	if out == nil {
		return o
	}
	return out
}

// next is the earliest instant after at, at which an override lapses; 0: none does.
func (o *Overrides) next(at Instant) (next Instant) {
	if o == nil {
		return 0
	}
	for _, s := range o.shards {
		if s.first == 0 {
			continue
		}
		for _, row := range s.rows {
			next = earlier(next, row.Until, at)
		}
	}
	return next
}

// OverrideRows are overrides on their way. In JSON they are one text.
type OverrideRows []Override

// OverrideKeys are keys of overrides on their way.
type OverrideKeys []uint64

const rowBytes = 4 * 8

// RowSize is about how many bytes an override takes on the link.
const RowSize = (rowBytes*4 + 2) / 3
