package slots

import "math"

// mean is a rate of events over the last time, exponentially weighted with the time constant meanOver.
type mean struct {
	sum float64 // events, decayed
	at  int64
}

func (m *mean) add(now int64) {
	m.sum = m.decayed(now) + 1
	m.at = now
}

// undo takes back an add of now.
func (m *mean) undo(now int64) {
	m.sum = max(0, m.decayed(now)-1)
	m.at = now
}

func (m *mean) decayed(now int64) float64 {
	if m.sum == 0 {
		return 0
	}
	return m.sum * math.Exp(-float64(max(0, now-m.at))/meanOver)
}

// per returns the events per nanosecond.
func (m *mean) per(now int64) float64 { return m.decayed(now) / meanOver }

// level is the mean of a number over the last time, likewise weighted.
type level struct {
	value float64
	at    int64
}

// set notes that the number was value until now.
func (l *level) set(now, value int64) {
	l.value = l.mean(now, value)
	l.at = now
}

func (l *level) mean(now, value int64) float64 {
	old := math.Exp(-float64(max(0, now-l.at)) / meanOver)
	return l.value*old + float64(value)*(1-old)
}
