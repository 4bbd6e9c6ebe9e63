package aggregation

// ordered is a map that is walked in the order of insertion. A walk over a Go map would
// add floating-point numbers in another order each time, and two runs of a simulation
// would differ.
type ordered[V any] struct {
	index  map[uint64]int32
	keys   []uint64
	values []V
	hint   int // index after the one asked for last: callers walk in the same order
	swept  int // index after the key that pruneSome checked last
}

func newOrdered[V any]() ordered[V] { return ordered[V]{index: map[uint64]int32{}} }

func (b *ordered[V]) len() int { return len(b.keys) }

// get returns the value of a key, the zero value if there is none.
func (b *ordered[V]) get(k uint64) (v V) {
	h := b.hint
	if h < len(b.keys) && b.keys[h] == k {
		b.hint++
		return b.values[h]
	}
	if h > 0 && h <= len(b.keys) && b.keys[h-1] == k { // the same again
		return b.values[h-1]
	}
	if i, ok := b.index[k]; ok {
		b.hint = int(i) + 1
		return b.values[i]
	}
	return v
}

// put adds a key that is not there.
func (b *ordered[V]) put(k uint64, v V) {
	b.index[k] = int32(len(b.keys))
	b.keys, b.values = append(b.keys, k), append(b.values, v)
}

// prune removes the values for which drop returns true.
func (b *ordered[V]) prune(drop func(k uint64, v V) bool) {
	n := 0
	for i, k := range b.keys {
		if drop(k, b.values[i]) {
			delete(b.index, k)
			continue
		}
		b.keys[n], b.values[n], b.index[k] = k, b.values[i], int32(n)
		n++
	}
	clear(b.values[n:])
	b.keys, b.values = b.keys[:n], b.values[:n]
}

// pruneSome looks at n values, in turn, and removes those for which drop returns true; the
// last value takes the place of a removed one.
func (b *ordered[V]) pruneSome(n int, drop func(k uint64, v V) bool) {
	var none V
	for range min(n, len(b.keys)) {
		if b.swept >= len(b.keys) {
			b.swept = 0
		}
		i, last := b.swept, len(b.keys)-1
		if !drop(b.keys[i], b.values[i]) {
			b.swept++
			continue
		}
		delete(b.index, b.keys[i])
		if i != last {
			b.keys[i], b.values[i] = b.keys[last], b.values[last]
			b.index[b.keys[i]] = int32(i)
		}
		b.values[last] = none
		b.keys, b.values = b.keys[:last], b.values[:last]
	}
}
