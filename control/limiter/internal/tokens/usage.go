package tokens

import (
	"time"

	"github.com/titrate/titrate/control/grant"
)

// Usage returns what is spent of a key's burst, in cost units, and how long cost would have
// to wait. Not ok: nothing is known of the key, or its standing part decides here.
func (s *Store[W]) Usage(k *Key, now, cost int64) (spent float64, wait int64, ok bool) {
	if s.wake == nil {
		return 0, 0, false
	}
	sh := s.shard(k.Hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	en := sh.keys[k.Hash]
	if en == nil || en.g.Silent() || !s.linked.Load() {
		return 0, 0, false
	}
	if _, _, parted := s.part(sh, k, now); parted {
		return 0, 0, false
	}
	left := en.g.Level(now)
	short := cost - left
	if short > 0 {
		wait = max(int64(float64(short)/grant.Token/k.Rate*1e9), 1)
	}
	if float64(cost) > k.Burst*grant.Token {
		wait = Never
	}
	return k.Burst - float64(left)/grant.Token, wait, true
}

// Silent reports whether a request for a key would not wait for its owner: the link is down, or the
// owner does not answer.
func (s *Store[W]) Silent(k *Key) bool {
	if !s.linked.Load() {
		return true
	}
	sh := s.shard(k.Hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if en := sh.keys[k.Hash]; en != nil {
		return en.g.Silent()
	}
	return false
}

// Unowned reports whether no owner would be asked about a key, because its limit has asked for too much or
// the owner has no room.
func (s *Store[W]) Unowned(k *Key, now int64) bool {
	if s.wake == nil || !(k.Rate > 0) || !s.linked.Load() {
		return false
	}
	sh := s.shard(k.Hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if en := sh.keys[k.Hash]; en != nil {
		return en.g.Unowned(now)
	}
	if _, _, ok := s.part(sh, k, now); ok {
		return false
	}
	return !s.budgets.fits(k, now)
}

// Parted reports whether the gateway may use its standing part of a key's bucket.
func (s *Store[W]) Parted(k *Key, now int64) bool {
	if s.wake == nil || !(k.Rate > 0) {
		return false
	}
	sh := s.shard(k.Hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	_, _, ok := s.part(sh, k, now)
	return ok
}

// Stats are counters since the start, and gauges of now.
type Stats struct {
	Keys       int    // known now
	Waited     uint64 // requests that waited for an owner
	Unanswered uint64 // decided by the ledger: the owner did not answer, or was not asked
	Unowned    uint64 // of them, because the limit had asked for too much, or the owner had no room
	ByPart     uint64 // admitted by the key's standing part
	Uncalled   uint64 // calls of parts for which there was no room: their owners count them as in use here
}

// Plus returns the counters of two stores together.
func (s Stats) Plus(o Stats) Stats {
	return Stats{s.Keys + o.Keys, s.Waited + o.Waited, s.Unanswered + o.Unanswered, s.Unowned + o.Unowned,
		s.ByPart + o.ByPart, s.Uncalled + o.Uncalled}
}

// params returns the numbers of a key, and those of the way to its owner.
func (s *Store[W]) params(k *Key) grant.Params {
	return grant.Params{Rate: k.Rate, Burst: int64(k.Burst * grant.Token), Strict: k.Strict, Hold: s.hold,
		Horizon: s.horizon}
}

// Hold returns the time for which a request waits for an owner.
func (s *Store[W]) Hold() time.Duration { return time.Duration(s.hold) }

// Stats returns the counters.
func (s *Store[W]) Stats() Stats {
	return Stats{Keys: int(s.keys.Load()), Waited: s.counts.waited.Load(), Unanswered: s.counts.unanswered.Load(),
		Unowned: s.counts.unowned.Load(), ByPart: s.counts.byPart.Load(), Uncalled: s.counts.uncalled.Load()}
}
