package aqm

import "math"

// Meter measures the rate of arrivals between two steps of a law. The zero value is ready.
type Meter struct {
	arrived, last float64
	started       bool
}

// Count adds an arrival of the given cost.
func (m *Meter) Count(cost float64) { m.arrived += sane(cost) }

// Lap is the time since the last lap in seconds. It is 0 the first time, if the time is not
// finite, or if it did not advance (a clock set back starts afresh).
func (m *Meter) Lap(now float64) float64 {
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

// Rate returns the cost that arrived per second over a lap of ts seconds. It starts a new count.
func (m *Meter) Rate(ts float64) float64 {
	r := m.arrived / ts
	m.arrived = 0
	return sane(r)
}
