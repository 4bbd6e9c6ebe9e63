package limiter

import "slices"

// reserves lists the keys that have a slot outside the table, to find those that may
// go: of tenants that are gone, or that nobody uses.
type reserves struct {
	mu   mutex[leafRank]
	keys []uint64
	hand int   // of the round, downwards
	at   int64 // when it began
}

func (r *reserves) add(hash uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys = append(r.keys, hash)
}

// freeReserved looks at some of the slots outside the table, all of them once in
// keepIdle, and frees those that nobody has used for as long.
func (e *Engine) freeReserved(now int64) {
	r := &e.reserves
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hand == 0 && now-r.at >= keepIdle {
		r.hand, r.at = len(r.keys), now
	}
	for n := 0; n < freeBatch && r.hand > 0; n++ {
		r.hand--
		if e.freeSlot(r.keys[r.hand], now) {
			last := len(r.keys) - 1
			r.keys[r.hand] = r.keys[last]
			r.keys = r.keys[:last]
		}
	}
	if cap(r.keys) > smallMap && len(r.keys) < cap(r.keys)/shrink {
		r.keys = slices.Clone(r.keys)
	}
}

// freeSlot frees the slot of one key if it says no more than none would. As when a slot
// of the table is given away, whoever has read its TAT finds it changed.
func (e *Engine) freeSlot(hash uint64, now int64) bool {
	c, ok := e.named(hash)
	if !ok {
		return true
	}
	t := c.tat().Load()
	if t <= moved || t > now-keepIdle || c.full() != 0 || !c.tat().CompareAndSwap(t, locked) {
		return false
	}
	defer c.unlock(max(t, 0) + 1)
	if c.full() != 0 {
		return false
	}
	c.b.hash[0].Store(0)
	e.reserved.Delete(hash)
	return true
}
