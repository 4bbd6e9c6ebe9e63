package stats

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/limiter"
)

// The error of a published wait is less than an eighth of the wait plus half a millisecond, up to the longest
// wait that a queue allows.
func TestBucketsAreClose(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Float64Range(0, 60_000).Draw(t, "ms")
		got := float64(middle(bucket(time.Duration(ms * 1e6))))
		if d := got - ms; d > .5+ms/8 || -d > .5+ms/8 {
			t.Fatalf("%v ms is published as %v", ms, got)
		}
	})
	for _, d := range []time.Duration{-time.Hour, 1<<63 - 1, -1 << 63} {
		if b := bucket(d); b < 0 || b >= buckets {
			t.Errorf("%v is in bucket %d", d, b)
		}
	}
	for b := 1; b < buckets; b++ {
		if middle(b) <= middle(b-1) {
			t.Errorf("bucket %d is %d, after %d", b, middle(b), middle(b-1))
		}
	}
}

// Each wait is published once; many waits are published in portions.
func TestWaitsArePublishedOnce(t *testing.T) {
	var w Waits
	f := &fake{counts: map[string]uint64{}}
	wait := func(verdict limiter.Verdict, d time.Duration) limiter.Event {
		return limiter.Event{Pool: "api", Outcome: limiter.Outcome{Verdict: verdict, Waited: d}}
	}
	w.Add([]limiter.Event{
		wait(limiter.Admit, 5*time.Millisecond), wait(limiter.Admit, 5*time.Millisecond),
		wait(limiter.Reject, 300*time.Millisecond),
	})
	for range 2 {
		w.publish(f)
	}
	if len(f.counts) != 2 || f.counts["titrate_wait_ms/api/admitted/5"] != 2 ||
		f.counts["titrate_wait_ms/api/refused/287"] != 1 {
		t.Errorf("%v", f.counts)
	}
	flood := make([]limiter.Event, 10_000)
	for range 5 {
		w.Add(flood)
	}
	for i := range 3 {
		w.publish(f)
		if want := uint64(min((i+1)*mostPerCall, 50_000)); f.counts["titrate_wait_ms/-/admitted/0"] != want {
			t.Fatalf("%d published after %d times, want %d", f.counts["titrate_wait_ms/-/admitted/0"], i+1, want)
		}
	}
}
