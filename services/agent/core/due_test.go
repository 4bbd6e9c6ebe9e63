package core

import (
	"testing"
	"time"
)

// Agents tick rarely while nothing is used. An agent whose gateway uses something ticks each period.
func TestTicksWhenDue(t *testing.T) {
	for _, agents := range []int{1, 3, 20} { // alone, each sends to all others, and owners
		f := newFleet(agents, 16, 1)
		f.run(20*time.Second, func() {})
		const seconds = 10
		run := func(each func()) float64 {
			before := f.agents[0].ticks
			f.run(seconds*time.Second, each)
			return float64(f.agents[0].ticks-before) / seconds
		}
		if n := run(func() {}); n < 7 || n > 10 { // a packet that says nothing new brings none
			t.Errorf("%d agents, nothing is used: %.1f ticks per second, want 7 to 10", agents, n)
		}
		a, step := f.agents[0], 0
		n := run(func() {
			if step++; step%4 == 0 { // once in a period
				f.admit(0, 7, 1)
			}
			if wait := a.Due() - f.at(a); step >= 4 && wait > period {
				t.Errorf("%d agents: the next tick is %v away while a key is used", agents, wait)
			}
		})
		if n < 19 || n > 41 {
			t.Errorf("%d agents, a key is used: %.1f ticks per second, want 20 to 40", agents, n)
		}
	}
}
