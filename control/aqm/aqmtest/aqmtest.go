// Package aqmtest tests the rules that every law of a queue must obey: the laws that
// ship, and the laws from papers in package papers/marking.
package aqmtest

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/aqm"
)

// Conform runs the tests over the laws that a function makes, by name.
func Conform(t *testing.T, laws func() map[string]aqm.Law) {
	t.Run("bad numbers", func(t *testing.T) { survivesBadNumbers(t, laws) })
	t.Run("allocations", func(t *testing.T) { allocatesNothing(t, laws()) })
}

// anything is an ordinary number or a bad one.
func anything(t *rapid.T, label string) float64 {
	if rapid.Bool().Draw(t, label+" bad") {
		return rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0, math.MaxFloat64}).Draw(t,
			label)
	}
	return rapid.Float64Range(0, 1e4).Draw(t, label)
}

// Whatever the input, the probability stays in [0,1], and good input afterwards
// brings the law back to work.
func survivesBadNumbers(t *testing.T, laws func() map[string]aqm.Law) {
	rapid.Check(t, func(t *rapid.T) {
		for name, law := range laws() {
			for range rapid.IntRange(1, 20).Draw(t, "steps") {
				law.Step(anything(t, "now"), anything(t, "queued"), anything(t, "c0"), anything(t, "clients"))
				law.Arrive(aqm.Arrival{Now: 1, Cost: anything(t, "cost"), Queued: anything(t, "q"), Rand: 0.5})
				law.Depart(anything(t, "now"), 1, anything(t, "sojourn"))
				p, ok := law.(interface{ Probability() float64 })
				if ok && !(p.Probability() >= 0 && p.Probability() <= 1) {
					t.Fatalf("%s: probability %v", name, p.Probability())
				}
			}
			// Good input afterwards brings the law back.
			now := 1e6
			for range 2000 {
				law.Step(now, 0, 100, 1)
				now += 0.05
			}
			if v := law.Arrive(aqm.Arrival{Now: now, Cost: 1, Rand: 0.999}); v != aqm.Accept {
				t.Fatalf("%s: %v on an idle queue after bad input", name, v)
			}
		}
	})
}

// A law allocates nothing, neither at a step nor at a request.
func allocatesNothing(t *testing.T, laws map[string]aqm.Law) {
	for name, law := range laws {
		now := 0.0
		n := testing.AllocsPerRun(100, func() {
			now += 0.01
			law.Step(now, 20, 500, 10)
			law.Arrive(aqm.Arrival{Now: now, Cost: 1, Queued: 20, Rand: 0.5})
			law.Depart(now, 19, 0.04)
		})
		if n != 0 {
			t.Errorf("%s: %v allocations per step", name, n)
		}
	}
}
