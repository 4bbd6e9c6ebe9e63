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

// A peer that sent nothing for a while answers again. Its line is soon as fast as before: the window
// doubles, as in TCP.
func TestLineIsSoonFastAgain(t *testing.T) {
	var l Line[int]
	for k := range 10_000 {
		l.Add(k, false)
	}
	now := int64(1)
	for ; now < 3*second; now = l.Due(now) {
		for _, ok := l.Next(now); ok; _, ok = l.Next(now) {
		}
	}
	sent := 0
	for range 20 { // round trips of 20 ms
		var keys []int
		for k, ok := l.Next(now); ok; k, ok = l.Next(now) {
			keys = append(keys, k)
		}
		now += 20 * millisecond
		for _, k := range keys {
			l.Done(now, k, true)
		}
		sent += len(keys)
	}
	if sent < 300 {
		t.Errorf("%d messages in the first 20 round trips", sent)
	}
}

// A key that waits has one place before all others, however often it is added.
func TestLineHasOnePlacePerKey(t *testing.T) {
	var l Line[int]
	for k := range 2 * firstWindow {
		l.Add(k, false)
	}
	for _, ok := l.Next(1); ok; _, ok = l.Next(1) {
	}
	for range 1000 {
		l.Add(2*firstWindow-1, true)
		l.Add(100, true)
	}
	if len(l.first) != 2 {
		t.Errorf("%d places before all others for two keys", len(l.first))
	}
}

// A message that was received and whose answer is lost is sent again soon, then more and more seldom; where the
// peer says how long it takes, then.
func TestLineParks(t *testing.T) {
	var l Line[int]
	l.Add(1, true)
	l.Next(second)
	times, now := 0, int64(second)
	for end := now + 3*second; now < end; times++ {
		l.Park(now, 1, 0)
		for again := false; !again; _, again = l.Next(now) {
			now = l.Due(now)
		}
		if times == 0 && now > second+parkFirst {
			t.Errorf("sent again after %d ms", (now-second)/millisecond)
		}
	}
	if times > 6 {
		t.Errorf("sent %d times in 3 s", times)
	}
	for k := range 3 {
		l.Add(10+k, false)
		l.Next(now)
		l.Park(now, 10+k, []int64{second, 0, 500 * millisecond}[k])
	}
	l.Park(now, 1, 3*second)
	l.Next(now)
	for _, at := range []int64{parkFirst, 500 * millisecond, second, parkMost} {
		if due := l.Due(now); due != now+at {
			t.Errorf("due in %d ms, want %d", (due-now)/millisecond, at/millisecond)
		}
		if key, ok := l.Next(now + at); ok {
			l.Done(now+at, key, true)
		}
		l.Next(now + at)
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

// An urgent message that is lost is repeated before all that is not urgent.
func TestAnUrgentRepeatIsFirst(t *testing.T) {
	var l Line[int]
	for k := range 10_000 {
		l.Add(k, false)
	}
	const urgent = -1
	l.Add(urgent, true)
	if k, ok := l.Next(1); !ok || k != urgent {
		t.Fatalf("%d is sent first, want the urgent one", k)
	}
	now := int64(1)
	for k, ok := urgent+1, true; ok; k, ok = l.Next(now) {
		if k == urgent {
			t.Fatal("sent twice at once")
		}
	}
	now += LeastTimeout
	if k, ok := l.Next(now); !ok || k != urgent {
		t.Errorf("%d is repeated first, want the urgent one", k)
	}
	for k := urgent; k < 10_000; k++ {
		l.Done(now, k, k%2 == 0)
	}
	if !l.Empty() || l.window.out != 0 || l.window.bulk.out != 0 {
		t.Errorf("%d messages in flight, %d not urgent, of an empty line", l.window.out, l.window.bulk.out)
	}
}

// A peer takes a millisecond for each message, in their order. Thousands of messages keep it busy, and an urgent one
// still finds a short queue there.
func TestBulkLeavesTheQueueShort(t *testing.T) {
	var l Line[int]
	for k := range 10_000 {
		l.Add(k, false)
	}
	var queue []int
	began, idle, worst := map[int]int64{}, 0, int64(0)
	urgent := -1
	for now := int64(millisecond); now < 4*second; now += millisecond {
		if len(queue) > 0 {
			l.Done(now, queue[0], true)
			if at, is := began[queue[0]]; is && now > second {
				worst = max(worst, now-at)
			}
			queue = queue[1:]
		} else if now > second {
			idle++
		}
		if now%(20*millisecond) == 0 {
			l.Add(urgent, true)
			began[urgent] = now
			urgent--
		}
		for k, ok := l.Next(now); ok; k, ok = l.Next(now) {
			queue = append(queue, k)
		}
	}
	if worst > 2*shortest || idle > 30 {
		t.Errorf("an urgent message waited %d ms; the peer was idle for %d of 3000 ms", worst/millisecond, idle)
	}
}
