package measure

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestWaits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w waits
		var all []time.Duration
		for range rapid.IntRange(1, 200).Draw(t, "n") {
			d := time.Duration(rapid.Int64Range(0, int64(10*time.Second)).Draw(t, "wait"))
			if rapid.Bool().Draw(t, "none") {
				d = 0
			}
			all = append(all, d)
			w.add(d)
		}
		slices.Sort(all)
		for _, q := range []float64{.5, .9, .99, 1} {
			want := all[max(0, int(math.Ceil(q*float64(len(all))))-1)]
			got := w.quantile(q)
			if got < want-time.Nanosecond || float64(got) > 1.021*float64(want)+float64(finest) {
				t.Fatalf("%v: %v, want %v", q, got, want)
			}
		}
		if w.quantile(1) != all[len(all)-1] {
			t.Fatalf("longest %v, want %v", w.quantile(1), all[len(all)-1])
		}
	})
}
