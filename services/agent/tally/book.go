package tally

// book holds values by key and walks them in the order in which they came: a walk
// over a map would add floating-point numbers up in another order each time, and
// two runs of a simulation would differ. It is also what a period walks over, so a
// slice serves it best.
type book[V any] struct {
	places map[uint64]int32
	keys   []uint64
	values []V
	hint   int // after the place asked for last: walks come in the same order
}

func newBook[V any]() book[V] { return book[V]{places: map[uint64]int32{}} }

func (b *book[V]) len() int { return len(b.keys) }

// get returns the value of a key, the zero value if there is none.
func (b *book[V]) get(k uint64) (v V) {
	if h := b.hint; h < len(b.keys) && b.keys[h] == k {
		b.hint++
		return b.values[h]
	}
	if i, ok := b.places[k]; ok {
		b.hint = int(i) + 1
		return b.values[i]
	}
	return v
}

// put adds a key that is not there.
func (b *book[V]) put(k uint64, v V) {
	b.places[k] = int32(len(b.keys))
	b.keys, b.values = append(b.keys, k), append(b.values, v)
}

// prune removes what drop says.
func (b *book[V]) prune(drop func(k uint64, v V) bool) {
	n := 0
	for i, k := range b.keys {
		if drop(k, b.values[i]) {
			delete(b.places, k)
			continue
		}
		b.keys[n], b.values[n], b.places[k] = k, b.values[i], int32(n)
		n++
	}
	clear(b.values[n:])
	b.keys, b.values = b.keys[:n], b.values[:n]
}
