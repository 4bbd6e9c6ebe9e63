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
// Names are spread over stripes by their hash, so that threads seldom wait for each other. Each stripe has a
// sketch of this minute and one of the minute before. A name's count is the sum of both. In a sketch that does
// not have the name, it was counted at most as often as the smallest counter says. So this bound is added to
// the count and to the error (Agarwal et al., Mergeable summaries, 2012). Counts older than two minutes are
// dropped.
//
// # Invariants
//
//   - true count ≤ Count ≤ true count + Error, where the true count covers this minute and the minute before,
//     so the last one to two minutes.
//   - A name with more than 1/k of its stripe's sum of this time is in the sketch.
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
	"math/bits"
	"slices"
	"sync"
	"time"
)

const (
	stripes   = 8
	perStripe = 32
	// NameBytes is the number of bytes kept of each part of a name.
	NameBytes = 128
	// period is the time that a sketch counts, nanoseconds.
	period = int64(60e9)
)

// Window is the longest time that a count can cover; the shortest is half of Window.
const Window = time.Duration(2 * period)

// Name names the client whose requests are counted, and the limit that limited them.
type Name struct{ Tenant, Client, Pool, Limit string }

// Entry is one name's count.
type Entry struct {
	Name
	Count float64 // of this minute and the one before; in Add's unit
	Error float64 // Count is too high by at most this
}

// Parts is the number of parts in which a sketch can be read, PerPart the most names of a part.
const (
	Parts   = stripes
	PerPart = 2 * perStripe
)

// Sketch is safe for concurrent use. Its zero value works.
type Sketch struct {
	seed    maphash.Seed
	once    sync.Once
	stripes [stripes]stripe
}

type stripe struct {
	mu      sync.Mutex
	minute  int64 // that now counts
	now     int   // which of the sketches is its
	minutes [2]counters
	_       [64]byte // keeps the next stripe's mutex in another cache line
}

// counters are the sketch of one minute.
type counters struct {
	hash  [perStripe]uint64 // 0: free
	count [perStripe]float64
	error [perStripe]float64
	name  [perStripe]name
}

// name has the bytes of a name's parts; the counter's next name reuses the memory.
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
	st := &s.stripes[hash>>32%stripes] // its lowest bit is always set
	st.mu.Lock()
	defer st.mu.Unlock()
	st.turn(now)
	c := &st.minutes[st.now]
	i, known := c.find(hash)
	if !known {
		c.error[i] = c.count[i]
		c.hash[i] = hash
		c.name[i].set(n)
	}
	c.count[i] += weight
}

func truncate(s string) string { return s[:min(len(s), NameBytes)] }

func (s *Sketch) hash(n Name) uint64 {
	const odd = 0x9e3779b97f4a7c15 // 2⁶⁴ by the golden ratio
	h := maphash.String(s.seed, n.Client)
	for _, p := range [...]string{n.Tenant, n.Pool, n.Limit} {
		h = bits.RotateLeft64(h*odd, 29) ^ maphash.String(s.seed, p)
	}
	return h*odd | 1 // 0 is a free counter
}

// find returns the counter of a hash, or else the smallest one.
func (c *counters) find(hash uint64) (at int, known bool) {
	for i, h := range c.hash {
		if h == hash {
			return i, true
		}
	}
	for i, n := range c.count {
		if n < c.count[at] {
			at = i
		}
	}
	return at, false
}

// of is the most that a hash was counted, and by how much that may be too high.
func (c *counters) of(hash uint64) (count, error float64, known bool) {
	i, known := c.find(hash)
	if !known {
		return c.count[i], c.count[i], false // 0 while a counter is free
	}
	return c.count[i], c.error[i], true
}

// forget frees the counters. The memory of names is reused.
func (c *counters) forget() {
	c.hash, c.count, c.error = [perStripe]uint64{}, [perStripe]float64{}, [perStripe]float64{}
}

// turn begins the minute of now, unless it has begun.
func (st *stripe) turn(now int64) {
	minute := now / period
	passed := minute - st.minute
	if passed <= 0 {
		return
	}
	st.minute = minute
	st.now = 1 - st.now
	st.minutes[st.now].forget()
	if passed > 1 {
		st.minutes[1-st.now].forget()
	}
}

func (n *name) set(to Name) {
	n.tenant = append(n.tenant[:0], to.Tenant...)
	n.client = append(n.client[:0], to.Client...)
	n.pool = append(n.pool[:0], to.Pool...)
	n.limit = append(n.limit[:0], to.Limit...)
}

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
	st.turn(now)
	this, before := &st.minutes[st.now], &st.minutes[1-st.now]
	for i, hash := range this.hash {
		if hash != 0 {
			count, error, _ := before.of(hash)
			to = append(to, Entry{this.name[i].text(), this.count[i] + count, this.error[i] + error})
		}
	}
	for i, hash := range before.hash {
		if hash == 0 {
			continue
		}
		if count, error, known := this.of(hash); !known {
			to = append(to, Entry{before.name[i].text(), before.count[i] + count, before.error[i] + error})
		}
	}
	return to
}

func (n *name) text() Name {
	return Name{string(n.tenant), string(n.client), string(n.pool), string(n.limit)}
}
