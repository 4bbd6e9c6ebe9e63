package windows

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"sync"
	"sync/atomic"
)

const (
	// shards bounds the requests that wait for each other's counters.
	shards = 32
	// graceSeconds is the time that counters stay after their window: a request that came in it may be on its way, and
	// clocks are corrected by small steps back.
	graceSeconds = 2
	// mostHits bounds a counter; other gateways are sent a number up to this.
	mostHits = 1e12
)

// Window is a span of time, in seconds: from Start, since 1970, for Length.
type Window struct{ Start, Length int64 }

// At is the window of a length, in seconds and above 0, that a time falls in.
func At(now, length int64) Window {
	start := now - now%length
	if start > now { // before 1970
		start -= length
	}
	return Window{start, length}
}

// End returns the time at which the window ends, in seconds since 1970.
func (w Window) End() int64 { return w.Start + w.Length }

// Key names a client's counter of a window, the same at all gateways with one seed. Without the seed a client cannot
// choose names that collide. unit distinguishes the limits of one client.
func Key(seed uint64, w Window, unit uint8, domain, client string) uint64 {
	b := make([]byte, 0, 192)
	b = binary.LittleEndian.AppendUint64(append(b, "titrate window\x00"...), seed)
	b = binary.LittleEndian.AppendUint64(append(b, unit), uint64(w.Start))
	b = binary.AppendUvarint(b, uint64(len(domain)))
	b = append(append(b, domain...), client...)
	sum := sha256.Sum256(b)
	return max(1, binary.LittleEndian.Uint64(sum[:])) // 0 names nothing
}

// Store counts. Create it with New. Its methods may be called from any thread, but Claims
// by one caller at a time, and repeatedly: withdrawn counters are kept until then.
type Store struct {
	keys     int64
	gateways atomic.Int64 // with this one
	held     atomic.Int64 // counters, and those of others that are kept
	overflow atomic.Uint64
	shards   [shards]shard

	mu        sync.Mutex
	withdrawn []uint64 // ended counters that the agent was sent
}

// shard has some of the counters.
type shard struct {
	mu      sync.Mutex
	windows []*window
	heard   map[uint64]counter // of others, that nobody has asked for here: own is 0
}

// window has the counters of one window.
type window struct {
	Window
	counters  map[uint64]counter
	changed   []uint64 // to be sent
	announced []uint64 // sent, or in changed
}

// counter has no pointers, so that a collection does not look at counters.
type counter struct {
	own, others float64
	admitted    float64 // of the last sum
	told        float64 // the total that was sent last
	epoch       uint32  // of it; 0: there was none
	limit       uint32  // of the last hit
	announced   bool
	changed     bool
}

// New returns a store with room for so many counters.
func New(keys int) *Store {
	s := &Store{keys: int64(max(keys, 1))}
	s.gateways.Store(1)
	for i := range s.shards {
		s.shards[i].heard = map[uint64]counter{}
	}
	return s
}

// Hit is a request to a counter.
type Hit struct {
	Window
	Key    uint64 // of the counter
	Shared uint64 // of the counter of the limit's clients for which there is no room
	Hits   uint64 // 0 asks only
	Limit  uint32 // N
	Stop   bool   // hits that are over the limit are not counted
}

// Take counts hits, at a time of which old windows may be freed. It returns the count with them,
// over all gateways as far as it is known here; over the limit is what is above Limit.
func (s *Store) Take(now int64, h Hit) (after uint64) {
	after, ok := s.take(now, h, false)
	if ok {
		return after
	}
	if h.Hits > 0 {
		s.overflow.Add(1)
	}
	h.Key = h.Shared
	after, _ = s.take(now, h, true)
	return after
}

// take is Take with a counter of the client's own, or with the shared one: that finds room always.
func (s *Store) take(now int64, h Hit, shared bool) (after uint64, ok bool) {
	sh := &s.shards[h.Key%shards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	w := s.windowOf(sh, now, h.Window)
	c, counted := w.counters[h.Key]
	heard := false
	if !counted {
		c, heard = sh.heard[h.Key]
	}
	if !counted && !heard && !shared && s.held.Load() >= s.keys && !s.makeRoom(sh) {
		return 0, false
	}
	after = add(c.total(), h.Hits)
	if h.Hits == 0 || h.Stop && after > uint64(h.Limit) {
		return after, true
	}
	if heard {
		delete(sh.heard, h.Key)
	} else if !counted {
		s.held.Add(1)
	}
	c.own = min(c.own+float64(h.Hits), mostHits)
	if c.limit = h.Limit; s.isToldOf(&c) {
		w.change(h.Key, &c)
	}
	w.counters[h.Key] = c
	return after, true
}

// makeRoom forgets a counter of others that nobody has asked for here. It reports whether a shard,
// which is locked, has one.
func (s *Store) makeRoom(sh *shard) bool {
	for key := range sh.heard {
		delete(sh.heard, key)
		s.held.Add(-1)
		return true
	}
	return false
}

// isToldOf reports whether the other gateways are to know a counter.
func (s *Store) isToldOf(c *counter) bool {
	n := s.gateways.Load()
	return n > 1 && c.own > 0 && (c.announced || c.others > 0 || 2*float64(n)*c.own >= float64(c.limit))
}

// add is a sum that does not overflow.
func add(a, b uint64) uint64 {
	if b > math.MaxUint64-a {
		return math.MaxUint64
	}
	return a + b
}

// total is the count of all gateways, as far as it is known here.
func (c *counter) total() uint64 { return uint64(c.own + math.Round(c.others)) }

// change queues a counter to be sent.
func (w *window) change(key uint64, c *counter) {
	if !c.announced {
		c.announced = true
		w.announced = append(w.announced, key)
	}
	if !c.changed {
		c.changed = true
		w.changed = append(w.changed, key)
	}
}

// windowOf returns a window of a shard, which is locked. It frees others that have ended.
func (s *Store) windowOf(sh *shard, now int64, at Window) *window {
	for _, w := range sh.windows {
		if w.Window == at {
			return w
		}
	}
	s.free(sh, now)
	w := &window{Window: at, counters: map[uint64]counter{}}
	sh.windows = append(sh.windows, w)
	return w
}

// free frees the windows of a shard, which is locked, that have ended, and those in a future that
// a clock has shown by mistake.
func (s *Store) free(sh *shard, now int64) {
	kept := sh.windows[:0]
	for _, w := range sh.windows {
		if now < w.End()+graceSeconds && now >= w.Start-w.Length {
			kept = append(kept, w)
			continue
		}
		s.held.Add(-int64(len(w.counters)))
		s.withdraw(w.announced)
	}
	clear(sh.windows[len(kept):])
	sh.windows = kept
}

// withdraw has the next Claims withdraw ended counters.
func (s *Store) withdraw(keys []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.withdrawn = append(s.withdrawn, keys...)
}

// Stats are numbers of now, and counts since the start.
type Stats struct {
	Counters int    // now, with those of others that are kept
	Overflow uint64 // descriptors that were counted by a counter that clients share
}

// Stats returns the numbers.
func (s *Store) Stats() Stats {
	return Stats{Counters: int(s.held.Load()), Overflow: s.overflow.Load()}
}
