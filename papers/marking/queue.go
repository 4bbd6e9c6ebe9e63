package marking

import (
	"math"

	"github.com/titrate/titrate/control/aqm"
)

// overflows reports whether a request does not fit into a buffer, cost units. One that is
// larger than the buffer still fits into an empty one.
func overflows(a aqm.Arrival, buffer float64) bool {
	return sane(a.Queued) > 0 && sane(a.Queued)+sane(a.Cost) > sane(buffer)
}

// hit is the verdict on a request that a law has chosen.
func hit(m aqm.Mode, greedy bool) aqm.Verdict {
	if m == aqm.DropMode || greedy {
		return aqm.Drop
	}
	return aqm.Mark
}

// chosen is the verdict on an arrival under a buffer and a probability p.
func chosen(m aqm.Mode, a aqm.Arrival, buffer, p float64) aqm.Verdict {
	if overflows(a, buffer) {
		return aqm.Drop
	}
	if a.Rand < p {
		return hit(m, a.Greedy)
	}
	return aqm.Accept
}

// meter measures the rate of arrivals between two steps.
type meter struct {
	arrived, last float64
	started       bool
}

// count adds an arrival of the given cost.
func (m *meter) count(cost float64) { m.arrived += sane(cost) }

// lap is the time since the last lap in seconds: 0 the first time, if the time
// is not finite, or if it did not advance (a clock set back starts afresh).
func (m *meter) lap(now float64) float64 {
	if math.IsNaN(now) || math.IsInf(now, 0) {
		return 0
	}
	ts := now - m.last
	m.last = now
	if !m.started {
		m.started = true
		return 0
	}
	return sane(ts)
}

// rate is what arrived per second over a lap of ts seconds; it starts a new
// count.
func (m *meter) rate(ts float64) float64 {
	r := m.arrived / ts
	m.arrived = 0
	return sane(r)
}

// sane maps NaN and negative numbers to 0 and caps the rest at 1e15.
func sane(v float64) float64 { return clip(v, 0, 1e15) }

// clip bounds v to [lo, hi] and maps NaN to lo.
func clip(v, lo, hi float64) float64 {
	if !(v > lo) {
		return lo
	}
	return min(v, hi)
}
