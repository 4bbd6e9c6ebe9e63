package aqm

import "math"

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
