package paired

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Order statistics of the sign test, from tables: n, and the k of a 95 % interval.
func TestIntervalTakesTheTabulatedOrder(t *testing.T) {
	for n, k := range map[int]int{6: 1, 8: 1, 9: 2, 12: 3, 20: 6, 30: 10} {
		var v []float64
		for i := range n {
			v = append(v, float64(i+1))
		}
		low, high := Interval(v)
		if low != float64(k) || high != float64(n+1-k) {
			t.Errorf("n %d: [%v, %v], want [%d, %d]", n, low, high, k, n+1-k)
		}
	}
}

func TestIntervalOfTooFewIsTheLine(t *testing.T) {
	for n := range 6 {
		if low, high := Interval(make([]float64, n)); !math.IsInf(low, -1) || !math.IsInf(high, 1) {
			t.Errorf("n %d: [%v, %v]", n, low, high)
		}
	}
}

func TestMedianLiesInItsInterval(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOfN(rapid.Float64Range(-1e6, 1e6), 6, 60).Draw(t, "v")
		low, high := Interval(v)
		if m := Median(v); m < low || m > high {
			t.Fatalf("median %v outside [%v, %v]", m, low, high)
		}
	})
}

func TestRoundsPair(t *testing.T) {
	r := Rounds{
		"base": {{"x": 2}, {"x": 4}},
		"new":  {{"x": 3}, {"x": 4}},
	}
	if got := r.Ratios("new", "base", "x"); !slices.Equal(got, []float64{1.5, 1}) {
		t.Errorf("ratios %v", got)
	}
	if got := r.Differences("new", "base", "x"); !slices.Equal(got, []float64{1, 0}) {
		t.Errorf("differences %v", got)
	}
}
