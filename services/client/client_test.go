package client

import (
	"context"
	"errors"
	"math"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

func TestSigns(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		status int
		header http.Header
		want   answer
	}{
		"plain":            {200, http.Header{}, answer{}},
		"marked":           {200, http.Header{"X-Titrate-Congestion": {"1"}}, answer{marked: true}},
		"refused, seconds": {429, http.Header{"Retry-After": {"7"}}, answer{refused: true, pause: 7 * time.Second}},
		"refused, date": {429, http.Header{"Retry-After": {"Sat, 21 Nov 2026 12:00:30 GMT"}},
			answer{refused: true, pause: 30 * time.Second}},
		"refused, past": {429, http.Header{"Retry-After": {"Sat, 21 Nov 2026 11:00:30 GMT"}},
			answer{refused: true}},
		"refused, nonsense": {429, http.Header{"Retry-After": {"-3"}}, answer{refused: true}},
		"overloaded":        {503, http.Header{"Retry-After": {"1"}}, answer{refused: true, pause: time.Second}},
		"broken":            {503, http.Header{}, answer{}},
		"redirect later":    {301, http.Header{"Retry-After": {"9"}}, answer{}},
		"some left":         {200, http.Header{"Ratelimit": {`"default";r=5;t=3`}}, answer{}},
		"nothing left": {200, http.Header{"Ratelimit": {`"a";r=0;t=3, "b";r=0;t=9`, `"c";r=2;t=60`}},
			answer{pause: 9 * time.Second}},
		"malformed":   {200, http.Header{"Ratelimit": {`"a";r=0;t=3,,`}}, answer{}},
		"wrong types": {200, http.Header{"Ratelimit": {`"a";r="0";t=3, "b";r=0;t=-3, ("c");r=0;t=3`}}, answer{}},
	} {
		if got := read(&http.Response{StatusCode: c.status, Header: c.header}, now); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// Whatever a gateway sends, a pause is not negative.
func FuzzSigns(f *testing.F) {
	f.Add(429, "3", `"default";r=0;t=3`)
	f.Add(503, "99999999999999999999", `a;r=0;t=999999999999999`)
	f.Fuzz(func(t *testing.T, status int, after, limit string) {
		h := http.Header{"Retry-After": {after}, "Ratelimit": {limit}}
		if a := read(&http.Response{StatusCode: status, Header: h}, time.Now()); a.pause < 0 {
			t.Fatalf("%q %q: %v", after, limit, a.pause)
		}
	})
}

func TestWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWindow(Options{}.withDefaults())
		ask := func(a answer) {
			t.Helper()
			if err := w.acquire(t.Context(), "x"); err != nil {
				t.Fatal(err)
			}
			sent := time.Now()
			time.Sleep(100 * time.Millisecond)
			w.release(sent, a)
		}
		ask(answer{marked: true})
		if w.size != 5 {
			t.Fatalf("window %v after a mark, want 5", w.size)
		}
		for range 40 {
			ask(answer{marked: true})
		}
		if w.size != minWindow {
			t.Fatalf("window %v, want the least, %v", w.size, minWindow)
		}
		// Below one in flight it goes on, w per round trip.
		before := time.Now()
		ask(answer{})
		ask(answer{})
		if took := time.Since(before); took < 6*time.Second || took > 20*time.Second {
			t.Fatalf("two requests at w = 1/64, 100 ms each: %v", took)
		}
	})
}

// A request whose deadline is before the end of a pause fails at once; a request that is cancelled while it waits
// leaves nothing behind.
func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWindow(Options{}.withDefaults())
		_ = w.acquire(t.Context(), "x")
		w.release(time.Now(), answer{refused: true, pause: math.MaxInt64})
		if until := time.Until(w.until); until != time.Minute {
			t.Fatalf("paused for %v, want MaxPause", until)
		}
		began := time.Now()
		short, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		var throttled *ThrottledError
		if err := w.acquire(short, "x"); !errors.As(err, &throttled) || time.Since(began) != 0 {
			t.Fatalf("%v after %v", err, time.Since(began))
		}
		cancelled, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if err := w.acquire(cancelled, "x"); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if s := w.state(); s.Waiting != 0 || s.InFlight != 0 {
			t.Fatalf("left behind: %+v", s)
		}
		if err := w.acquire(t.Context(), "x"); err != nil || time.Since(began) != time.Minute {
			t.Fatalf("%v after %v", err, time.Since(began))
		}
	})
}
