package spent

import (
	"sync"
	"time"

	"github.com/titrate/titrate/control/exchange"
)

// MaxKeys is the most keys that are held, over all gateways.
const MaxKeys = 1 << 18

// looks is how many keys are looked at for one to give its place away.
const looks = 8

// Book is what is remembered. Safe for concurrent use. The zero Book is empty.
type Book struct {
	mu       sync.Mutex
	gateways map[string]*gateway
	held     int
	most     int // 0: MaxKeys
	lost     uint64
}

type gateway struct {
	newest uint64 // generation
	keys   map[uint64]level
}

type level struct {
	until time.Duration
	named bool
}

// Add takes in what a process of a gateway says.
func (b *Book) Add(now time.Duration, name string, generation uint64, m *exchange.Spent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.gateways[name]
	if g == nil {
		if b.gateways == nil {
			b.gateways = map[string]*gateway{}
		}
		g = &gateway{keys: map[uint64]level{}}
		b.gateways[name] = g
	}
	g.newest = max(g.newest, generation)
	for _, k := range m.Keys {
		b.put(now, g, generation, k)
	}
}

func (b *Book) put(now time.Duration, g *gateway, generation uint64, k exchange.KeySpent) {
	was, known := g.keys[k.Key]
	l := level{now + k.Ahead, k.Named}
	switch {
	case generation < g.newest && l.until <= was.until:
	case k.Ahead <= 0 || l.until < now: // the sum may not fit
		if known {
			b.drop(g, k.Key)
		}
	case known:
		g.keys[k.Key] = l
	case b.held < b.room() || b.makeRoom(l.until):
		g.keys[k.Key] = l
		b.held++
	default:
		b.lost++
	}
}

func (b *Book) drop(g *gateway, key uint64) {
	delete(g.keys, key)
	b.held--
}

func (b *Book) room() int {
	if b.most > 0 {
		return b.most
	}
	return MaxKeys
}

// makeRoom drops the key that needs the least time out of a few, if that is less
// than until.
func (b *Book) makeRoom(until time.Duration) bool {
	var from *gateway
	var least uint64
	looked := 0
	for _, g := range b.gateways {
		for key, l := range g.keys {
			if l.until < until {
				until, from, least = l.until, g, key
			}
			if looked++; looked%looks == 0 {
				break
			}
		}
	}
	if from == nil {
		return false
	}
	b.drop(from, least)
	b.lost++
	return true
}

// Of returns what the clients of a gateway have yet to win back; nil if nothing.
func (b *Book) Of(now time.Duration, name string) *exchange.Spent {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.gateways[name]
	if g == nil || len(g.keys) == 0 {
		return nil
	}
	out := &exchange.Spent{Keys: make([]exchange.KeySpent, 0, len(g.keys))}
	for key, l := range g.keys {
		if l.until > now {
			out.Keys = append(out.Keys, exchange.KeySpent{Key: key, Ahead: l.until - now, Named: l.named})
		}
	}
	return out
}

// Sweep forgets what has been won back.
func (b *Book) Sweep(now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, g := range b.gateways {
		for key, l := range g.keys {
			if l.until <= now {
				b.drop(g, key)
			}
		}
		if len(g.keys) == 0 {
			delete(b.gateways, name)
		}
	}
}

// Status is the number of keys held, and of those that were lost to the bound.
func (b *Book) Status() (held int, lost uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held, b.lost
}
