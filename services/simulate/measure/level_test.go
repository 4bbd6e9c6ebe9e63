package measure

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The level and the second against all windows, one by one.
func TestLevelAndSecondOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := level{rate: rapid.Float64Range(0, 20).Draw(t, "rate"), burst: rapid.Float64Range(0, 10).Draw(t, "burst")}
		var s second
		var all []admission
		now := time.Duration(0)
		for range rapid.IntRange(1, 80).Draw(t, "n") {
			now += time.Duration(rapid.IntRange(0, 400).Draw(t, "ms")) * time.Millisecond
			cost := float64(rapid.IntRange(1, 3).Draw(t, "cost"))
			l.admit(now, cost)
			s.admit(now, cost)
			all = append(all, admission{now, cost})
		}
		worst, highest := math.Inf(-1), 0.0
		for i, from := range all {
			sum := 0.0
			for _, a := range all[i:] {
				sum += a.cost
				worst = max(worst, sum-l.rate*(a.at-from.at).Seconds()-l.burst)
				if a.at-from.at < time.Second {
					highest = max(highest, sum)
				}
			}
		}
		if math.Abs(worst-l.worst) > 1e-6 || highest != s.highest {
			t.Fatalf("worst %v, want %v; highest second %v, want %v", l.worst, worst, s.highest, highest)
		}
	})
}

// A burst that shrinks makes no excess of what was within it.
func TestLevelSet(t *testing.T) {
	l := level{rate: 10, burst: 100}
	for range 100 {
		l.admit(0, 1)
	}
	l.set(0, 10, 5)
	l.admit(time.Second, 1)
	if l.worst > 0 {
		t.Errorf("%v over", l.worst)
	}
}

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
