// Package top knows which clients are refused and held the most, of any number, in
// bounded memory: what the one on call asks first.
//
// # Model
//
// A space-saving sketch (Metwally, Agrawal and El Abbadi, 2005): k counters, each
// with a name. A name that has one adds to it; one that has none takes over the
// smallest counter, with its count as the error:
//
//	count(x) ← min + w,  error(x) ← min,  name(min) ← x
//
// Names are spread over stripes by their hash, so that threads seldom meet, and each
// stripe is a sketch of its own. Counts halve once a minute: what shows is about the
// last two minutes, and a counter that is not used makes room.
//
// # Invariants
//
//   - true count ≤ Count ≤ true count + Error, since a name has come in last.
//   - A name with more than its stripe's sum / k is in the sketch.
//   - Names are kept for those in the sketch only, at most NameBytes of each part.
//
// # Costs
//
// Add is O(k per stripe) over one array of hashes and allocates only while a
// counter's name grows; it is called for refusals and waits alone. All is
// O(stripes · k · log).
package top

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
	// halving of all counts, nanoseconds.
	halving = 60e9
)

// Entry is one client's count.
type Entry struct {
	Tenant, Client, Pool string
	Count                float64 // of about the last two minutes; in Add's unit
	Error                float64 // of Count at most, upwards
}

// Sketch is safe for concurrent use. Its zero value works.
type Sketch struct {
	seed    maphash.Seed
	once    sync.Once
	stripes [stripes]stripe
}

type stripe struct {
	mu     sync.Mutex
	minute int64 // counts are as of this one
	hash   [perStripe]uint64
	count  [perStripe]float64
	error  [perStripe]float64
	name   [perStripe]name
	_      [64]byte // the next stripe's mutex is another cache line's
}

// name keeps its parts in memory of its own, used again by the next.
type name struct{ tenant, client, pool []byte }

// Add adds a weight to a client's count at now, nanoseconds. The strings may alias
// foreign memory. Weights that are not above 0 count nothing.
func (s *Sketch) Add(now int64, tenant, client, pool string, weight float64) {
	if !(weight > 0) {
		return
	}
	s.once.Do(func() { s.seed = maphash.MakeSeed() })
	tenant, client, pool = short(tenant), short(client), short(pool)
	hash := s.hash(tenant, client, pool)
	st := &s.stripes[hash%stripes]
	st.mu.Lock()
	defer st.mu.Unlock()
	st.age(now)
	i, known := st.find(hash)
	if !known {
		st.error[i] = st.count[i]
		st.hash[i] = hash
		st.name[i].set(tenant, client, pool)
	}
	st.count[i] += weight
}

func short(s string) string { return s[:min(len(s), NameBytes)] }

func (s *Sketch) hash(parts ...string) uint64 {
	var h maphash.Hash
	h.SetSeed(s.seed)
	for _, p := range parts {
		h.WriteString(p)
		h.WriteByte(0xff) // in no UTF-8 text; of binary names two may share a counter
	}
	return h.Sum64() | 1 // 0 is a free counter
}

// find returns the counter of a hash, or the one to take over.
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

// age halves the counts once a minute.
func (st *stripe) age(now int64) {
	minute := now / halving
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

func (n *name) set(tenant, client, pool string) {
	n.tenant = append(n.tenant[:0], tenant...)
	n.client = append(n.client[:0], client...)
	n.pool = append(n.pool[:0], pool...)
}

// trace is the count that is nobody's any more.
const trace = 1e-3

// Top returns at most n clients, the highest count first, as of now.
func (s *Sketch) Top(now int64, n int) []Entry {
	var all []Entry
	for i := range s.stripes {
		all = s.stripes[i].list(now, all)
	}
	slices.SortFunc(all, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Client, b.Client), cmp.Compare(a.Pool, b.Pool))
	})
	return all[:min(len(all), max(n, 0))]
}

func (st *stripe) list(now int64, to []Entry) []Entry {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.age(now)
	for i, n := range st.name {
		if st.hash[i] != 0 && st.count[i] > trace {
			to = append(to, Entry{string(n.tenant), string(n.client), string(n.pool), st.count[i], st.error[i]})
		}
	}
	return to
}
