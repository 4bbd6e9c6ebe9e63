package drc

import "math"

// A key that only one replica uses needs no more state than one integer: the
// theoretical arrival time (TAT) of the generic cell rate algorithm. The spent
// part of its bucket is D = (TAT − now)·rate, at least 0, so a key moves between
// this compact form and a Ledger with SpentAt and TATFor.
//
// Times are nanoseconds since an arbitrary origin; a zero TAT is an idle key
// whenever now ≥ 0. A request of cost c conforms when D + c ≤ burst.

// maxNanos bounds every span, so that sums of two never overflow.
const maxNanos = 1 << 61

// GCRA names the compact form; it carries no state: the TAT is the caller's.
type GCRA struct {
	Rate  float64 // cost units/s; 0 or NaN admits nothing
	Burst float64 // cost units
}

// Take decides a request of the given cost at now. It returns the new TAT and true, or
// the old TAT and false. The cost is rounded to whole nanoseconds with a dither that is a
// function of the TAT. So the mean is exact at any rate and equal inputs give equal
// results.
func (g GCRA) Take(tat, now int64, cost float64) (int64, bool) {
	return Take(tat, now, g.Rate, g.Burst, cost)
}

// Wait returns the nanoseconds until a request of this cost conforms: 0 when it
// does now, math.MaxInt64 when it never will (cost above burst, rate 0).
func (g GCRA) Wait(tat, now int64, cost float64) int64 {
	cost = clean(cost, maxQuantity)
	if !(g.Rate > 0) || cost > g.Burst*(1+tolerance) {
		return math.MaxInt64
	}
	base := max(tat, now)
	room := depth(g.Burst, g.Rate)
	return max(0, base+increment(base, cost, g.Rate)-now-room)
}

// Take is GCRA.Take with the limit as arguments: what a table of packed TATs
// calls inside its compare-and-swap loop.
func Take(tat, now int64, rate, burst, cost float64) (int64, bool) {
	if !(rate > 0) {
		return tat, false
	}
	base := max(tat, now)
	next := base + increment(base, clean(cost, maxQuantity), rate)
	if next-now > depth(burst, rate) {
		return tat, false
	}
	return next, true
}

// Return gives back the cost of a request that was admitted and then not
// served. It never moves the TAT before now−0: an idle key stays idle.
func Return(tat, now int64, rate, cost float64) int64 {
	if !(rate > 0) {
		return tat
	}
	return max(min(tat, now), tat-span(clean(cost, maxQuantity), rate))
}

// SpentAt returns D, the cost still to be refilled at now.
func SpentAt(tat, now int64, rate float64) float64 {
	return float64(max(0, tat-now)) * 1e-9 * clean(rate, maxQuantity)
}

// TATFor returns the TAT of a key with D = spent at now, rounded up: a change
// of form must not give anything away.
func TATFor(spent float64, now int64, rate float64) int64 {
	spent = clean(spent, maxQuantity)
	if spent == 0 || !(rate > 0) {
		return now
	}
	return now + int64(min(math.Ceil(spent/rate*1e9), maxNanos))
}

// Carry returns what is spent of a bucket after its depth has changed. What was left stays in
// proportion when the bucket gets smaller; when it gets larger the difference is left as well. At
// most an empty bucket is owed, so that a request of cost 1 passes after 1/rate.
//
//	D' = min(D·min(1, b'/b), b')
func Carry(spent, from, to float64) float64 {
	if from > to {
		spent *= to / from
	}
	return min(spent, to)
}

// span converts a cost to the nanoseconds that its refill takes, to nearest.
func span(cost, rate float64) int64 {
	return int64(min(math.Round(clean(cost, maxQuantity)/rate*1e9), maxNanos))
}

// depth is the span of a burst, with eight standard deviations of what the
// dither of so many requests adds up to: 4·√burst ns.
func depth(burst, rate float64) int64 {
	return span(burst, rate) + 1 + int64(4*math.Sqrt(clean(burst, maxQuantity)))
}

// increment is span with the fraction rounded up as often as its size says.
func increment(tat int64, cost, rate float64) int64 {
	ns := cost / rate * 1e9
	if !(ns < maxNanos) {
		return maxNanos
	}
	whole := math.Floor(ns)
	frac := ns - whole
	// A fraction within rounding of 0 or 1 is a whole number of nanoseconds.
	const unit = 1e-6
	if frac > 1-unit || frac > unit && frac > uniform(uint64(tat)) {
		whole++
	}
	return int64(whole)
}

// uniform maps its argument to [0,1) by the finaliser of splitmix64.
func uniform(z uint64) float64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return float64((z^z>>31)>>11) * 0x1p-53
}
