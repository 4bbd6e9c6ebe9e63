package judge

import "time"

// Level follows the excess over rate·t + burst. The worst of all windows that end now
// is the level of a bucket without a rim (Lindley's recursion) beyond the burst:
//
//	level ← max(0, level − rate·Δt) + cost      excess = level − burst
type Level struct {
	Rate, Burst float64 // cost units/s, cost units
	level       float64
	last        time.Duration
}

// Admit counts a cost admitted at t and returns the worst excess of the windows that end with it: 0 or less is
// within rate·t + burst.
func (l *Level) Admit(t time.Duration, cost float64) (excess float64) {
	l.Advance(t)
	l.level += cost
	return l.level - l.Burst
}

// Advance lets time pass until t.
func (l *Level) Advance(t time.Duration) {
	if t > l.last {
		l.Repay(l.Rate * (t - l.last).Seconds())
		l.last = t
	}
}

// Repay subtracts a cost that may be admitted in addition.
func (l *Level) Repay(amount float64) { l.level = max(0, l.level-amount) }

// Set changes rate and burst from t on. What was admitted under a larger burst is no
// excess under the smaller one.
func (l *Level) Set(t time.Duration, rate, burst float64) {
	l.Advance(t)
	if burst < l.Burst {
		l.level = min(l.level, burst)
	}
	l.Rate, l.Burst = rate, burst
}
