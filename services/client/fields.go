package client

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"
)

// markField is the response header by which a gateway asks to slow down.
const markField = "x-titrate-congestion"

// answer has a response's signs of congestion.
type answer struct {
	marked  bool
	refused bool          // by a limit, unprocessed
	failed  bool          // no answer: nothing to be learnt
	pause   time.Duration // send nothing for so long; 0: not said
}

// read takes the signs out of an HTTP response.
func read(r *http.Response, now time.Time) answer {
	pause := retryAfter(r.Header.Get("Retry-After"), now)
	a := answer{
		marked: r.Header.Get(markField) != "",
		refused: r.StatusCode == http.StatusTooManyRequests ||
			r.StatusCode == http.StatusServiceUnavailable && pause > 0,
	}
	if a.refused {
		a.pause = pause
	}
	return a.and(exhausted(r.Header.Values("RateLimit")))
}

// and lengthens the pause.
func (a answer) and(pause time.Duration) answer {
	a.pause = max(a.pause, pause)
	return a
}

// retryAfter reads seconds or a date (RFC 9110 §10.2.3); 0 if it is neither or has passed.
func retryAfter(v string, now time.Time) time.Duration {
	v = strings.TrimSpace(v)
	if s, err := strconv.ParseUint(v, 10, 32); err == nil {
		return time.Duration(s) * time.Second
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// exhausted returns the time until a policy that has nothing left (r=0) gives more (t), the longest of all; 0 if all
// have some. What does not parse says nothing.
func exhausted(fields []string) (pause time.Duration) {
	if len(fields) == 0 {
		return 0
	}
	list, err := httpsfv.UnmarshalList(fields)
	if err != nil {
		return 0
	}
	for _, member := range list {
		item, ok := member.(httpsfv.Item)
		if !ok {
			continue
		}
		r, hasR := item.Params.Get("r")
		t, hasT := item.Params.Get("t")
		left, okR := r.(int64)
		seconds, okT := t.(int64)
		if hasR && hasT && okR && okT && left <= 0 && seconds > 0 {
			pause = max(pause, time.Duration(min(seconds, 1<<31))*time.Second)
		}
	}
	return pause
}

// pushback reads gRPC's grpc-retry-pushback-ms: below 0, or unreadable, forbids retries.
func pushback(v []string) (pause time.Duration, never bool) {
	if len(v) == 0 {
		return 0, false
	}
	ms, err := strconv.ParseInt(v[0], 10, 32)
	if err != nil || ms < 0 {
		return 0, true
	}
	return time.Duration(ms) * time.Millisecond, false
}
