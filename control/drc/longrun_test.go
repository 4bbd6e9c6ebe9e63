package drc

import (
	"math"
	"testing"
)

// After a million steps, and one step of 10⁷ s, the moiety is unchanged, nothing is lost, and
// the rate equals the rate of the second minute. It is the limit's but for the time that a
// finite backlog takes to bind.
func TestAMillionSteps(t *testing.T) {
	const h, vmax = 0.005, 1000.0
	c := New(Params{Rate: vmax, TotalWeight: 1, Lag: .15, Period: .05})
	in, out := 0.0, 0.0
	minutes := func(n int) float64 {
		before := out
		for k := range n * 60 * 200 {
			out += c.Step(h, 6, Sums{})
			in += 6
			c.Remove(c.Backlog() - 100)
			if k%10 == 0 {
				c.Publish()
			}
		}
		return (out - before) / (60 * float64(n))
	}
	minutes(1) // from rest
	first, later := minutes(1), 0.0
	for range 2 {
		later = minutes(40)
		out += c.Step(1e7, 5, Sums{})
		in += 5
	}
	z := c.Enzyme()
	if sum := z.Free() + z.Bound() + z.Spent(); math.Abs(sum-z.Bucket()) > 1e-12*z.Bucket() {
		t.Errorf("E+ES+ET = %v of %v", sum, z.Bucket())
	}
	if lost := in - out - c.Backlog() - c.Dropped(); math.Abs(lost) > 1e-9*in {
		t.Errorf("%v of %v lost", lost, in)
	}
	if math.Abs(first-vmax) > .002*vmax || math.Abs(later-first) > .002*vmax {
		t.Errorf("mean %v in the second minute, %v later, want %v", first, later, vmax)
	}
}
