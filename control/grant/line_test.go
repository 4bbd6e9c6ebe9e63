package grant

import (
	"testing"

	"pgregory.net/rapid"
)

// A line whose peer answers nothing sends a window of messages, then fewer and fewer: 40,000 keys cost
// some hundred in 3 s, not one each 8 ms.
func TestLineBacksOff(t *testing.T) {
	var l Line[int]
	for k := range 40_000 {
		l.Add(k, false)
	}
	sent := 0
	for now := int64(1); now < 3*second; now = l.Due(now) {
		for _, ok := l.Next(now); ok; _, ok = l.Next(now) {
			sent++
		}
	}
	if sent > 100 {
		t.Errorf("%d messages in 3 s without an answer", sent)
	}
	now := int64(3 * second) // it answers each message after 1 ms
	for rounds := 0; !l.Empty(); rounds++ {
		var keys []int
		for k, ok := l.Next(now); ok; k, ok = l.Next(now) {
			keys = append(keys, k)
		}
		for now += millisecond; len(keys) > 0; keys = keys[1:] {
			l.Done(now, keys[0], true)
		}
		if now = max(now, l.Due(now)); now > 10*second {
			t.Fatal("the line is not empty 7 s after the peer has come back")
		}
	}
}

// TestPropertyKeysShareLines plays several keys whose messages share windows, with messages lost: each
// conserves its tokens, and each request ends within Hold.
func TestPropertyKeysShareLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScenario(t, 0.3)
		w := s.world()
		for range rapid.IntRange(1, 5).Draw(t, "other keys") {
			other := w.world(s.p, s.n)
			other.poisson(min(s.load*s.p.Rate, 1000), 8*second, anywhere(other))
		}
		w.run(10 * second)
		for _, key := range w.keys {
			key.ended(t)
		}
	})
}
