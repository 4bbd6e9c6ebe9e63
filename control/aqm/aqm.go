// Package aqm (active queue management) holds the laws that manage a queue before it overflows. They
// mark, refuse or discard requests so that a tenant's wait stays near a target although demand
// exceeds its share.
//
// # Model
//
// A law is a state machine without I/O behind the interface [Law]. Step lets it see the
// queue once per Interval. Arrive gives the verdict on an arrival, Depart the verdict on
// the head of the queue. Time, queue contents and the random number come in as arguments.
// Units: seconds, cost units (one request usually costs 1), cost units per second.
//
//   - [VSD]: the delay form of the variable-structure law, the default
//   - [CoDel]: controlled delay, on request
//   - [DropTail]: a bound on the queue, for small shares and on request
//
// The law as published (Yan, Gao and Özbay) and RED, REM, PI and PIE, the laws for
// comparison, are outside of control/, in papers/marking.
//
// # Invariants
//
//   - 0 ≤ probability ≤ 1 always; NaN or negative input counts as 0,
//     infinite input as 1e15; a time that is not finite or runs backwards is
//     passed over.
//   - A share of 0 refuses everything that would have to wait: nothing drains.
//   - No law allocates; every operation is O(1).
package aqm

// Verdict is a law's decision on one request.
type Verdict uint8

// The verdicts, in order of severity.
const (
	Accept Verdict = iota // queue or release it as usual
	Mark                  // as Accept, with a congestion mark on the response
	Drop                  // answer 429 now (on arrival), discard it (on departure)
)

// String is the verdict's lower-case name.
func (v Verdict) String() string {
	switch v {
	case Accept:
		return "accept"
	case Mark:
		return "mark"
	default:
		return "drop"
	}
}

// Arrival is one request that reaches the queue.
type Arrival struct {
	Now    float64 // s, monotonic
	Cost   float64 // cost units of this request
	Queued float64 // cost units already waiting, without this request
	Rand   float64 // uniform in [0,1), from the caller's source
	Greedy bool    // its client's rate exceeds 1.5 × the fair one: a mark becomes a drop
}

// Law is the manager of a queue: it decides which requests are queued, marked or dropped.
// Implementations are not safe for concurrent use.
type Law interface {
	// Step shows the queue at time now (s): queued cost, c0 the service rate
	// (share in force, units/s), clients the number of active clients. It is
	// meant to be called every Interval, and tolerates any spacing.
	Step(now, queued, c0, clients float64)
	// Arrive gives the verdict on an arrival and counts it if it is queued.
	Arrive(a Arrival) Verdict
	// Depart gives the verdict on the head of the queue at time now, which
	// waited sojourn seconds and leaves queued cost behind it.
	Depart(now, queued, sojourn float64) Verdict
}

// Interval is the time in seconds between two Steps at service rate c0
// (units/s): two requests' worth, within 10 to 200 ms. Slower sampling lets
// the queue move between looks; faster sees only the noise of single arrivals.
func Interval(c0 float64) float64 {
	if !(c0 > 0) {
		return 0.2
	}
	return clip(2/c0, 0.01, 0.2)
}

// largest bounds amounts and rates; infinite ones count as this.
const largest = 1e15

// sane maps NaN and negative numbers to 0 and caps the rest at largest.
func sane(v float64) float64 { return clip(v, 0, largest) }

// clip bounds v to [lo, hi] and maps NaN to lo.
func clip(v, lo, hi float64) float64 {
	if !(v > lo) {
		return lo
	}
	return min(v, hi)
}
