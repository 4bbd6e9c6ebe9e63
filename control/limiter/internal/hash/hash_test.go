package hash

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"testing"
)

func TestKeyHashIsStableAndSpread(t *testing.T) {
	// These values are part of the gossip's contract: replicas of different
	// versions must agree on them.
	for _, tc := range []struct{ got, want uint64 }{
		{Limit(1, "acme", "per-user", "alice"), 0xc7353bb03ed2c82f},
		{Limit(1, "acme", "per-user", "a-long-client-name-0123456789"), 0xf018938372e3292f},
		{Flow(1, "acme", "api"), 0xd9d6595b1789734b},
		{TenantLimit(1, "acme", "all"), 0xa2fdb0a194a1d0b9},
	} {
		if tc.got != tc.want {
			t.Errorf("key %#x, want %#x", tc.got, tc.want)
		}
	}
	seen := map[uint64]string{}
	for _, h := range []struct {
		name string
		key  uint64
	}{
		{"ab c", Limit(1, "ab", "c", "")}, {"a bc", Limit(1, "a", "bc", "")},
		{"seed", Limit(2, "ab", "c", "")}, {"flow", Flow(1, "ab", "c")},
		{"tenant", TenantLimit(1, "ab", "c")}, {"overflow", Overflow(1, "ab", "c")},
		{"nul", Limit(1, "ab", "c", "\x00")}, {"nul nul", Limit(1, "ab", "c", "\x00\x00")},
	} {
		if other, dup := seen[h.key]; dup {
			t.Errorf("%q and %q have the same key", h.name, other)
		}
		seen[h.key] = h.name
	}
	var set [64]int
	const n = 20000
	for i := range n {
		k := Limit(1, "acme", "l", fmt.Sprint(i))
		for b := range set {
			set[b] += int(k >> b & 1)
		}
	}
	for b, ones := range set {
		if math.Abs(float64(ones)-n/2) > 6*math.Sqrt(n)/2 {
			t.Errorf("bit %d is set in %d of %d", b, ones, n)
		}
	}
}

// Names that differ by chosen words do not collide more often than others: the difference that the first
// word makes depends on the seed. The pair of differences here undoes itself for one name in 2^21 where
// MulB is the multiplier: the first flips the top bit, which adds MulB·2^63 to the product. The second is
// the difference that this makes most often.
func TestChosenDifferencesDoNotCollide(t *testing.T) {
	const d = uint64(MulB) >> 1 // what the upper half of the product changes by
	top, low := bits.Mul64(d, 3)
	first, second := uint64(1)<<63, top<<63|(low^d)>>1
	prefix := LimitPrefix(7, "acme", "per-user")
	collisions, known := 0, 0
	var name, other [16]byte
	state := uint64(1)
	for range 1 << 24 {
		state++
		w := Finish(state)
		binary.LittleEndian.PutUint64(name[:], w)
		binary.LittleEndian.PutUint64(other[:], w^first)
		binary.LittleEndian.PutUint64(other[8:], second)
		if Client(prefix, string(name[:])) == Client(prefix, string(other[:])) {
			collisions++
		}
		if fold(prefix.h^w, MulB)^fold(prefix.h^w^first, MulB) == second {
			known++
		}
	}
	if known == 0 {
		t.Error("the differences do not undo themselves with a known multiplier: the test shows nothing")
	}
	if collisions > 0 {
		t.Errorf("%d of %d names collide with their neighbours", collisions, 1<<24)
	}
}

// BenchmarkClient measures the hash of a request's key.
func BenchmarkClient(b *testing.B) {
	prefix, sum := LimitPrefix(7, "acme", "per-user"), uint64(0)
	for b.Loop() {
		sum += Client(prefix, "a-client-of-23-bytes-12")
	}
	if sum == 1 {
		b.Log(sum)
	}
}
