package verdict

// excess follows the worst excess of a limited client over all windows, in one
// pass over its admissions in order of time.
//
// With a = admissions counted, the excess of a window that ends now is
// maximal for the best start, and one number carries that maximum forward:
//
//	level ← max(0, level − rate·dt) + 1;  excess = level − burst
//
// which is the level of a leaky bucket without a rim.
type excess struct {
	rate, burst float64
	level, last float64
}

// admit counts one admission at time t (s, never before the last one) and
// returns the worst excess of the windows that end with it, in requests.
func (e *excess) admit(t float64) float64 {
	e.level = max(0, e.level-e.rate*(t-e.last)) + 1
	e.last = t
	return e.level - e.burst
}

// bucket is the ideal central token bucket of a limit; full at first.
type bucket struct {
	rate, burst float64
	spent, last float64
}

// take reports whether a request at time t conforms, and then charges it.
// Times must not decrease; one that does counts as the last.
func (b *bucket) take(t float64) bool {
	if t > b.last {
		b.spent = max(0, b.spent-b.rate*(t-b.last))
		b.last = t
	}
	if b.spent+1 > b.burst+1e-9 {
		return false
	}
	b.spent++
	return true
}

// slidingMax is the largest number of times in any half-open window
// (v − width, v] whose end v is one of the times in [from, to). Times must be
// sorted.
func slidingMax(times []float64, width, from, to float64) int {
	best, first := 0, 0
	for i, v := range times {
		for times[first] <= v-width {
			first++
		}
		if v >= from && v < to {
			best = max(best, i-first+1)
		}
	}
	return best
}
