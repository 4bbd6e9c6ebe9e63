package verdict

import (
	"testing"

	"pgregory.net/rapid"
)

func TestHighestSecondIsTheLargestOfAllWindows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		steps := rapid.SliceOfN(rapid.SampledFrom([]float64{0, 0, .001, .1, .25, 1, 3}), 0, 40).Draw(t, "steps")
		now, times := 0.0, []float64{}
		for _, d := range steps {
			now += d
			times = append(times, now)
		}
		from := rapid.Float64Range(0, 5).Draw(t, "from")
		to := from + rapid.Float64Range(0, 10).Draw(t, "length")
		want := 0.0
		for _, v := range times {
			if v < from || v >= to {
				continue
			}
			n := 0.0
			for _, u := range times {
				if at(u) > at(v-1) && u <= v {
					n++
				}
			}
			// Requests at the same instant belong to every window that ends there; the last of these requests
			// counts them all.
			want = max(want, n)
		}
		if got := highestSecond(times, from, to); got != want {
			t.Fatalf("%v, by trying all windows %v", got, want)
		}
	})
}
