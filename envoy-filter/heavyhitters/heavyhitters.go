// Package heavyhitters finds the clients that are refused or held the most, among any
// number of clients, in bounded memory.
//
// # Model
//
// A space-saving sketch (Metwally, Agrawal and El Abbadi, 2005) has k counters, each
// with a name. Adding weight w to a name that has a counter increases the counter by w.
// A name without a counter replaces the name of the smallest one, and inherits its count
// as the error:
//
//	count(x) ← min + w,  error(x) ← min,  name(min) ← x
//
// Names are spread over stripes by their hash, so that threads seldom wait for each
// other. Each stripe is a sketch of its own. Counts halve once a minute: they are about
// the last two minutes, and the counters of clients that are gone become the smallest.
//
// # Invariants
//
//   - true count ≤ Count ≤ true count + Error, counted since the name got its counter.
//   - A name with more than 1/k of its stripe's sum is in the sketch.
//   - Only names in the sketch are kept, at most NameBytes of each of their parts.
//
// # Costs
//
// Add is O(k) over one array of hashes, and allocates only while a counter's name grows.
// It is called for refusals and waits only. Top is O(stripes · k · log).
package heavyhitters

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync"
)

const (
	stripes   = 8
	perStripe = 32
	// NameBytes is how much of each part of a name is kept.
	NameBytes = 128
	// halvingPeriod is the time after which all counts are halved, nanoseconds.
	halvingPeriod = 60e9
)

// Name is whose requests are counted, and the limit that limited them.
type Name struct{ Tenant, Client, Pool, Limit string }

// Entry is one name's count.
type Entry struct {
	Name
	Count float64 // of about the last two minutes; in Add's unit
	Error float64 // Count is too high by at most this
}

// Parts is the number of parts in which a sketch can be read.
const Parts = stripes

// Sketch is safe for concurrent use. Its zero value works.
type Sketch struct {
	seed    maphash.Seed
	once    sync.Once
	stripes [stripes]stripe
}

type stripe struct {
	mu     sync.Mutex
	minute int64 // the counts are halved up to this one
	hash   [perStripe]uint64
	count  [perStripe]float64
	error  [perStripe]float64
	name   [perStripe]name
	_      [64]byte // keeps the next stripe's mutex in another cache line
}

// name keeps its parts in memory of its own, which the counter's next name uses again.
type name struct{ tenant, client, pool, limit []byte }

// Add adds a weight to a name's count at now, nanoseconds. The strings may alias memory of
// Envoy. A weight that is not above 0 is ignored.
func (s *Sketch) Add(now int64, n Name, weight float64) {
	if !(weight > 0) {
		return
	}
	s.once.Do(func() { s.seed = maphash.MakeSeed() })
	n = Name{truncate(n.Tenant), truncate(n.Client), truncate(n.Pool), truncate(n.Limit)}
	hash := s.hash(n)
	st := &s.stripes[hash%stripes]
	st.mu.Lock()
	defer st.mu.Unlock()
	st.halve(now)
	i, known := st.find(hash)
	if !known {
		st.error[i] = st.count[i]
		st.hash[i] = hash
		st.name[i].set(n)
	}
	st.count[i] += weight
}

func truncate(s string) string { return s[:min(len(s), NameBytes)] }

func (s *Sketch) hash(n Name) uint64 {
	var h maphash.Hash
	h.SetSeed(s.seed)
	for _, p := range [...]string{n.Tenant, n.Client, n.Pool, n.Limit} {
		h.WriteString(p)
		h.WriteByte(0xff) // in no UTF-8 text; two binary names may share a counter
	}
	return h.Sum64() | 1 // 0 is a free counter
}

// find returns the counter of a hash, or else the smallest one.
func (st *stripe) find(hash uint64) (at int, known bool) {
	for i, h := range st.hash {
		if h == hash {
			return i, true
		}
		if st.count[i] < st.count[at] {
			at = i
		}
	}
	return at, false
}

// halve halves the counts once for each minute that has passed.
func (st *stripe) halve(now int64) {
	minute := now / halvingPeriod
	if st.minute == 0 {
		st.minute = minute
	}
	for ; st.minute < minute; st.minute++ {
		if minute-st.minute > 64 {
			st.minute = minute - 64
		}
		for i := range st.count {
			st.count[i] /= 2
			st.error[i] /= 2
		}
	}
}

func (n *name) set(to Name) {
	n.tenant = append(n.tenant[:0], to.Tenant...)
	n.client = append(n.client[:0], to.Client...)
	n.pool = append(n.pool[:0], to.Pool...)
	n.limit = append(n.limit[:0], to.Limit...)
}

// negligible is the count below which an entry is not listed.
const negligible = 1e-3

// Top returns at most n clients, the highest count first, as of now.
func (s *Sketch) Top(now int64, n int) []Entry {
	var all []Entry
	for i := range s.stripes {
		all = s.stripes[i].list(now, all)
	}
	slices.SortFunc(all, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Tenant, b.Tenant),
			cmp.Compare(a.Client, b.Client), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Limit, b.Limit))
	})
	return all[:min(len(all), max(n, 0))]
}

// Part returns the names of one of the Parts, in no order. Each name is in one part.
func (s *Sketch) Part(now int64, part int) []Entry { return s.stripes[part].list(now, nil) }

func (st *stripe) list(now int64, to []Entry) []Entry {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.halve(now)
	for i, n := range st.name {
		if st.hash[i] != 0 && st.count[i] > negligible {
			of := Name{string(n.tenant), string(n.client), string(n.pool), string(n.limit)}
			to = append(to, Entry{of, st.count[i], st.error[i]})
		}
	}
	return to
}
