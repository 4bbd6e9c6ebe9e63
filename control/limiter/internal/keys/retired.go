package keys

// retired is the memory of a key that has lost its state. It has the cost that the key had
// announced, so that its count goes on from there when the key gets a state again. It has
// the TAT that its slot had then, too: what is spent by it was announced before. When a key
// is forgotten the others see one step down, bounded by what they see as spent.
type retired struct {
	admitted float64
	tat      int64
	at       int64 // when it lost its state
}

const (
	// retiredShards are swept in turn, one after another, each once in keepRetired.
	retiredShards = 256
	// keepRetired is the least time, in nanoseconds, for which a key is remembered. An agent
	// remembers for 90 s what a key had announced that was withdrawn.
	keepRetired = int64(120e9)
)

// retirees remembers retired keys while they matter, in as much memory as they need:
// about 50 B each. Not safe for concurrent use.
type retirees struct {
	shards  [retiredShards]map[uint64]retired
	most    int // of one shard; then a key may be forgotten
	next    int
	sweptAt int64
}

func (r *retirees) shard(key uint64) *map[uint64]retired { return &r.shards[key>>32%retiredShards] }

// add remembers a key.
func (r *retirees) add(key uint64, x retired) {
	shard := r.shard(key)
	if *shard == nil {
		*shard = map[uint64]retired{}
	}
	if _, ok := (*shard)[key]; !ok && len(*shard) >= r.most {
		for other := range *shard {
			delete(*shard, other)
			break
		}
	}
	(*shard)[key] = x
}

// get returns what is remembered of a key.
func (r *retirees) get(key uint64) retired { return (*r.shard(key))[key] }

// sweep forgets keys of one shard that do not matter any more, if it is time.
func (r *retirees) sweep(now int64) {
	if now-r.sweptAt < keepRetired/retiredShards {
		return
	}
	r.sweptAt = now
	shard := &r.shards[r.next]
	r.next = (r.next + 1) % retiredShards
	before := len(*shard)
	for key, x := range *shard {
		if x.tat <= now && now-x.at >= keepRetired {
			delete(*shard, key)
		}
	}
	if len(*shard) < before/2 { // a map does not give memory back
		smaller := make(map[uint64]retired, len(*shard))
		for key, x := range *shard {
			smaller[key] = x
		}
		*shard = smaller
	}
}

// remember keeps what a key had announced.
func (p *states) remember(key uint64, x retired) {
	if x.admitted == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.retired.add(key, x)
}

// restore remembers that what a key has spent is known to the others: the process before
// this one announced it.
func (p *states) restore(now int64, key uint64, tat int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.retired.get(key)
	x.tat, x.at = max(x.tat, tat), now
	p.retired.add(key, x)
}

// recall returns what a key had announced when it lost its state, and the TAT that its
// slot had then.
func (p *states) recall(key uint64) (admitted float64, tat int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.retired.get(key)
	return x.admitted, x.tat
}

// sweepRetired forgets retired keys that do not matter any more.
func (p *states) sweepRetired(now int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.retired.sweep(now)
}
