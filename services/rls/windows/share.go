package windows

import (
	"github.com/titrate/titrate/control/claims"
	"github.com/titrate/titrate/control/exchange"
)

// tolerance is the part by which the total that was sent to others may lag behind what others count: they know that
// themselves, unless one restarts.
const tolerance = 1. / 8

// Claims appends to c the counters that have changed since the last call, and withdraws those whose
// window has ended. It frees them.
func (s *Store) Claims(now int64, c *exchange.Claims) {
	for i := range s.shards {
		s.tell(&s.shards[i], now, c)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.Withdrawn = append(c.Withdrawn, s.withdrawn...)
	s.withdrawn = nil
}

func (s *Store) tell(sh *shard, now int64, out *exchange.Claims) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	s.free(sh, now)
	for _, w := range sh.windows {
		for _, key := range w.changed {
			c := w.counters[key]
			c.changed, c.told = false, c.own+c.others
			w.counters[key] = c
			out.Keys = append(out.Keys, exchange.KeyClaim{Key: key, Admitted: c.own, Own: c.own,
				Spent: min(c.own+c.others, mostHits)})
		}
		w.changed = w.changed[:0]
	}
}

// Repeat makes the next Claims send all counters that were sent once more: the agent is a new one.
func (s *Store) Repeat() {
	for i := range s.shards {
		s.repeat(&s.shards[i])
	}
}

func (s *Store) repeat(sh *shard) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, w := range sh.windows {
		for _, key := range w.announced {
			c := w.counters[key]
			w.change(key, &c)
			w.counters[key] = c
		}
	}
}

// SetSums takes in what the other gateways have counted. It removes from sums the keys that it
// counts; what it does not know may be a counter that others have, or another limit's key.
func (s *Store) SetSums(sums *exchange.Sums) {
	if n := int64(max(sums.Replicas, 1)); s.gateways.Swap(n) != n {
		for i := range s.shards {
			s.tellUntold(&s.shards[i])
		}
	}
	if sums.Full {
		for i := range s.shards {
			s.forgetHeard(&s.shards[i])
		}
	}
	rest := sums.Keys[:0]
	for i := range sums.Keys {
		if !s.hear(&sums.Keys[i]) {
			rest = append(rest, sums.Keys[i])
		}
	}
	sums.Keys = rest
	for _, key := range sums.Gone {
		s.forget(key)
	}
}

// tellUntold queues counters that were counted before there were so many gateways.
func (s *Store) tellUntold(sh *shard) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, w := range sh.windows {
		for key, c := range w.counters {
			if !c.announced && s.isToldOf(&c) {
				w.change(key, &c)
				w.counters[key] = c
			}
		}
	}
}

// forgetHeard forgets counts that no gateway here has asked for: all of it is sent again.
func (s *Store) forgetHeard(sh *shard) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	s.held.Add(-int64(len(sh.heard)))
	clear(sh.heard)
}

// hear takes another gateway's count. It reports whether there is a counter for it here.
func (s *Store) hear(k *exchange.KeySum) bool {
	if !(k.Admitted >= 0 && k.Admitted <= claims.MaxAdmitted && k.Spent >= 0 && k.Spent <= claims.MaxRate &&
		k.Own >= 0 && k.Own <= claims.MaxRate) {
		return false
	}
	sh := &s.shards[k.Key%shards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, w := range sh.windows {
		if c, ok := w.counters[k.Key]; ok {
			c.hear(k)
			if c.own > 0 && c.own+c.others > (1+tolerance)*c.told {
				w.change(k.Key, &c)
			}
			w.counters[k.Key] = c
			return true
		}
	}
	c, ok := sh.heard[k.Key]
	if !ok && (k.Spent == 0 || s.held.Load() >= s.keys) {
		return false
	}
	if !ok {
		s.held.Add(1)
	}
	c.hear(k)
	sh.heard[k.Key] = c
	return false
}

// hear takes in a sum, as the package comment has it.
func (c *counter) hear(k *exchange.KeySum) {
	switch c.epoch {
	case 0:
		c.others = min(k.Admitted, max(k.Spent, k.Own))
	case k.Epoch:
		c.others += k.Admitted - c.admitted
	}
	c.admitted, c.epoch = k.Admitted, max(1, k.Epoch)
	c.others = min(max(c.others, k.Spent-c.own, 0), mostHits)
}

// forget forgets a counter of others that is gone, unless it is counted here, too.
func (s *Store) forget(key uint64) {
	sh := &s.shards[key%shards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if _, ok := sh.heard[key]; ok {
		delete(sh.heard, key)
		s.held.Add(-1)
	}
}
