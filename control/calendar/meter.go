package calendar

import "math"

// meter measures a rate, with a time constant of two seconds.
type meter struct {
	sum float64
	at  int64
}

const meterFor = 2 * second

func (m *meter) fade(now int64) {
	if d := now - m.at; d > 0 {
		m.sum *= fade(float64(d) / meterFor)
		m.at = now
	}
}

func (m *meter) add(now int64, n Units) {
	m.fade(now)
	m.sum += float64(n)
}

// per returns the units per second.
func (m *meter) per(now int64) float64 {
	m.fade(now)
	return m.sum * second / meterFor
}

// burst knows the most that has waited lately.
type burst struct {
	top Units
	at  int64
}

func (b *burst) see(now int64, n Units) {
	if n > 0 && n >= b.most(now) {
		b.top, b.at = n, now
	}
}

func (b *burst) most(now int64) Units {
	if age := (now - b.at) / burstFor; age > 0 {
		return b.top >> min(age, 62)
	}
	return b.top
}

func fade(x float64) float64 { return math.Exp(-x) }

// burstFor is the time for which a burst counts as of lately; it halves then.
const burstFor = 60 * second
