package verdict

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// sortedTimes draws times of admissions, with ties.
func sortedTimes(t *rapid.T) []float64 {
	steps := rapid.SliceOfN(rapid.SampledFrom([]float64{0, 0, .001, .1, .25, 1, 3}), 0, 40).Draw(t, "steps")
	at, out := 0.0, []float64{}
	for _, d := range steps {
		at += d
		out = append(out, at)
	}
	return out
}

func TestExcessIsTheWorstOfAllWindows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := sortedTimes(t)
		rate := rapid.Float64Range(.1, 50).Draw(t, "rate")
		burst := float64(rapid.IntRange(1, 10).Draw(t, "burst"))
		e := excess{rate: rate, burst: burst}
		for v := range times {
			got, want := e.admit(times[v]), math.Inf(-1)
			for u := 0; u <= v; u++ {
				want = max(want, float64(v-u+1)-rate*(times[v]-times[u])-burst)
			}
			if math.Abs(got-want) > 1e-9 {
				t.Fatalf("windows ending at %v: excess %v, by trying them all %v", times[v], got, want)
			}
		}
	})
}

func TestSlidingMaxIsTheLargestOfAllWindows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := sortedTimes(t)
		from := rapid.Float64Range(0, 5).Draw(t, "from")
		to := from + rapid.Float64Range(0, 10).Draw(t, "length")
		want := 0
		for _, v := range times {
			if v < from || v >= to {
				continue
			}
			n := 0
			for _, u := range times {
				if u > v-1 && u <= v {
					n++
				}
			}
			// Requests at the same instant belong to every window that ends
			// there, and the last of them sees them all.
			want = max(want, n)
		}
		if got := slidingMax(times, 1, from, to); got != want {
			t.Fatalf("slidingMax = %d, by trying them all %d", got, want)
		}
	})
}

// An ideal bucket's own admissions never exceed its envelope, and it turns a
// request away only when one more would.
func TestIdealBucketIsTheEnvelope(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := sortedTimes(t)
		rate := rapid.Float64Range(.1, 50).Draw(t, "rate")
		burst := float64(rapid.IntRange(1, 10).Draw(t, "burst"))
		b := bucket{rate: rate, burst: burst}
		var passed []float64
		for _, at := range times {
			would := slices.Concat(passed, []float64{at})
			e, worst := excess{rate: rate, burst: burst}, math.Inf(-1)
			for _, u := range would {
				worst = max(worst, e.admit(u))
			}
			if got, want := b.take(at), worst <= 1e-6; got != want && math.Abs(worst) > 1e-6 {
				t.Fatalf("at %v: conforms = %v, but the worst excess would be %v", at, got, worst)
			}
			if worst <= 1e-6 {
				passed = would
			}
		}
	})
}

func TestQuantile(t *testing.T) {
	for _, c := range []struct {
		values []float64
		q      float64
		want   float64
	}{
		{nil, .99, 0},
		{[]float64{3}, .99, 3},
		{[]float64{5, 1, 3}, 0, 1},
		{[]float64{5, 1, 3}, .5, 3},
		{[]float64{5, 1, 3}, 1, 5},
	} {
		if got := Quantile(c.values, c.q); got != c.want {
			t.Errorf("Quantile(%v, %v) = %v, want %v", c.values, c.q, got, c.want)
		}
	}
}
