package fairness

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/limiter/internal/fixed"
)

// Of one client Sole and Meter say the same.
func TestSoleIsAMeter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, s := New(), Sole{}
		rate := math.Pow(10, rapid.Float64Range(0, 3).Draw(t, "log rate"))
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			for range rapid.IntRange(0, 3).Draw(t, "requests") {
				m.Charge(7, fixed.Unit)
				s.Charge(1)
			}
			h := rapid.Float64Range(0, .05).Draw(t, "h")
			m.Advance(h, rate)
			s.Advance(h, rate)
			if a, b := m.Pressure(7, fixed.Unit), s.Pressure(); math.Abs(a-b) > 1e-3 {
				t.Fatalf("pressure %v by tags, %v alone", a, b)
			}
		}
	})
}
