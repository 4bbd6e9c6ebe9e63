package spent

import (
	"math"
	"time"

	"github.com/titrate/titrate/control/exchange"
)

// MaxKeys is the most keys that are kept, over all gateways.
const MaxKeys = 1 << 18

// longest bounds the time until a burst is whole; more is taken for an error.
const longest = 366 * 24 * time.Hour

// samples is the number of keys per gateway that are compared when one must be dropped.
const samples = 8

// Store has the spent costs of keys by gateway. Not safe for concurrent use. The zero Store is empty.
type Store struct {
	gateways map[string]*gateway
	kept     int
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

// Add takes the message of a process of a gateway. It returns how many times are out of their bounds.
func (b *Store) Add(now time.Duration, name string, generation uint64, m *exchange.Spent) (bad int) {
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
		if k.Ahead > longest {
			bad++
			continue
		}
		b.put(now, g, generation, k)
	}
	return bad
}

func (b *Store) put(now time.Duration, g *gateway, generation uint64, k exchange.KeySpent) {
	was, known := g.keys[k.Key]
	l := level{now + k.Ahead, k.Named}
	switch {
	case generation < g.newest && l.until <= was.until:
	case k.Ahead <= 0:
		if known {
			b.drop(g, k.Key)
		}
	case known:
		g.keys[k.Key] = l
	case b.kept < b.room() || b.makeRoom(g, l.until):
		g.keys[k.Key] = l
		b.kept++
	default:
		b.lost++
	}
}

func (b *Store) drop(g *gateway, key uint64) {
	delete(g.keys, key)
	b.kept--
}

func (b *Store) room() int {
	if b.most > 0 {
		return b.most
	}
	return MaxKeys
}

// makeRoom makes room for a key of a gateway. If another gateway has more keys, one of those goes: so each has its
// part of the room, whatever another one says. Else that one of a few goes that needs the least time, if that is less
// than until.
func (b *Store) makeRoom(of *gateway, until time.Duration) bool {
	from := of
	for _, g := range b.gateways {
		if len(g.keys) > len(from.keys)+1 {
			from = g
		}
	}
	if from != of {
		until = math.MaxInt64
	}
	least, found, looked := uint64(0), false, 0
	for key, l := range from.keys {
		if l.until < until {
			until, least, found = l.until, key, true
		}
		if looked++; looked == samples {
			break
		}
	}
	if !found {
		return false
	}
	b.drop(from, least)
	b.lost++
	return true
}

// For returns what the clients of a gateway have not won back yet; nil if nothing.
func (b *Store) For(now time.Duration, name string) *exchange.Spent {
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

// Ahead is the time in which a key of a gateway wins its burst back; 0: it is whole, or not kept.
func (b *Store) Ahead(now time.Duration, name string, key uint64) time.Duration {
	if g := b.gateways[name]; g != nil {
		return max(0, g.keys[key].until-now)
	}
	return 0
}

// Sweep forgets keys that have won their bursts back.
func (b *Store) Sweep(now time.Duration) {
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

// Status is the number of keys kept, and of those dropped beyond MaxKeys.
func (b *Store) Status() (kept int, lost uint64) {
	return b.kept, b.lost
}
