package schedule

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The first is the number that a walk through all numbers finds.
func TestDeadlinesAreAWalkThroughAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, oracle := deadlines{}, map[int32]time.Duration{}
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			n := rapid.Int32Range(0, 20).Draw(t, "number")
			at := time.Duration(rapid.IntRange(-5, 5).Draw(t, "time"))
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				h.set(n, at)
				oracle[n] = at
			case 1:
				h.earlier(n, at)
				if was, ok := oracle[n]; !ok || at < was {
					oracle[n] = at
				}
			default:
				h.remove(n)
				delete(oracle, n)
			}
			want, found := int32(0), false
			for k, at := range oracle {
				if !found || at < oracle[want] || at == oracle[want] && k < want {
					want, found = k, true
				}
			}
			if got, _, ok := h.first(); ok != found || got != want {
				t.Fatalf("first is %d, %v; want %d, %v", got, ok, want, found)
			}
		}
	})
}
