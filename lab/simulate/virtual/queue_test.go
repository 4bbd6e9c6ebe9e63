package virtual

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Events come by time; events of one time come in the order in which they were added, also if more are added in
// between.
func TestQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q Queue[int]
		now, last, lastAt, added, done := time.Duration(0), 0, time.Duration(-1), 0, 0
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			for range rapid.IntRange(0, 3).Draw(t, "new") {
				added++
				q.Add(now+time.Duration(rapid.IntRange(0, 5).Draw(t, "after")), added)
			}
			at, event, ok := q.Next(now + 5)
			if !ok {
				continue
			}
			done++
			if at < lastAt || at == lastAt && event < last {
				t.Fatalf("event %d at %d after event %d at %d", event, at, last, lastAt)
			}
			last, lastAt, now = event, at, max(now, at)
		}
		if q.Len() != added-done {
			t.Fatalf("%d events left of %d, %d done", q.Len(), added, done)
		}
	})
}
