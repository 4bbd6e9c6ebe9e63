package hash

import (
	"fmt"
	"math"
	"testing"
)

func TestKeyHashIsStableAndSpread(t *testing.T) {
	// These values are part of the gossip's contract: replicas of different
	// versions must agree on them.
	for _, tc := range []struct{ got, want uint64 }{
		{Limit(1, "acme", "per-user", "alice"), 0xbf27fcf1c7ab6e02},
		{Limit(1, "acme", "per-user", "a-long-client-name-0123456789"), 0x59877b3c3d71d479},
		{Flow(1, "acme", "api"), 0x51704413d8a764e},
		{TenantLimit(1, "acme", "all"), 0xf3314712f1f19ad7},
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
	var bits [64]int
	const n = 20000
	for i := range n {
		k := Limit(1, "acme", "l", fmt.Sprint(i))
		for b := range bits {
			bits[b] += int(k >> b & 1)
		}
	}
	for b, ones := range bits {
		if math.Abs(float64(ones)-n/2) > 6*math.Sqrt(n)/2 {
			t.Errorf("bit %d is set in %d of %d", b, ones, n)
		}
	}
}
