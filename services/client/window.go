package client

import (
	"container/list"
	"context"
	"sync"
	"time"
)

const (
	minWindow = 1.0 / 64
	gain      = 1.0 / 8 // of the smoothed round trip time, RFC 6298
)

// window is the congestion window of one destination.
type window struct {
	mu       sync.Mutex
	most     float64
	maxPause time.Duration

	size     float64
	slow     bool // no mark yet: slow start
	inFlight int
	rtt      time.Duration
	cut      time.Time // when the window was last halved
	until    time.Time // end of the pause
	next     time.Time // by the pacing, the next request leaves
	used     time.Time
	waiting  list.List // of chan struct{}, closed when its request may leave
	timer    *time.Timer
}

func newWindow(o Options) *window {
	return &window{most: float64(o.MaxInFlight), maxPause: o.MaxPause, size: float64(o.Start), slow: true,
		used: time.Now()}
}

// acquire waits until a request may leave. It fails with the context's error, or at once when the deadline is before
// the end of the pause.
func (w *window) acquire(ctx context.Context, destination string) error {
	w.mu.Lock()
	if deadline, ok := ctx.Deadline(); ok && w.until.After(deadline) {
		defer w.mu.Unlock()
		return &ThrottledError{Destination: destination, RetryAt: w.until}
	}
	turn := make(chan struct{})
	place := w.waiting.PushBack(turn)
	w.pump()
	w.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-turn: // both at once: give it back
		w.inFlight--
	default:
		w.waiting.Remove(place)
	}
	w.pump()
	return ctx.Err()
}

// pump lets go the calls that may leave, and sets the timer for the next. Callers hold mu.
func (w *window) pump() {
	now := time.Now()
	w.used = now
	for w.waiting.Len() > 0 && float64(w.inFlight) < max(1, w.size) {
		at := w.next
		if w.until.After(at) {
			at = w.until
		}
		if at.After(now) {
			w.wake(at.Sub(now))
			return
		}
		turn := w.waiting.Remove(w.waiting.Front()).(chan struct{})
		close(turn)
		w.inFlight++
		w.next = now.Add(time.Duration(float64(w.rtt) / w.size))
	}
}

func (w *window) wake(after time.Duration) {
	if w.timer == nil {
		w.timer = time.AfterFunc(after, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.pump()
		})
		return
	}
	w.timer.Reset(after)
}

// release takes in what became of a request that left at sent.
func (w *window) release(sent time.Time, a answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	full := float64(w.inFlight) >= w.size/2
	w.inFlight--
	if a.pause > 0 {
		if until := now.Add(min(a.pause, w.maxPause)); until.After(w.until) {
			w.until = until
		}
	}
	switch {
	case a.failed:
	case a.marked || a.refused:
		w.shrink(now, sent)
	case full && w.slow:
		w.size = min(w.size+1, w.most)
	case full:
		w.size = min(w.size+1/max(1, w.size), w.most)
	}
	if !a.failed && !a.refused { // a refusal says nothing of the way
		w.measure(now.Sub(sent))
	}
	w.pump()
}

// shrink halves the window unless it was halved since the request left: one round trip's marks are one sign.
func (w *window) shrink(now, sent time.Time) {
	w.slow = false
	if sent.Before(w.cut) {
		return
	}
	w.size, w.cut = max(w.size/2, minWindow), now
}

func (w *window) measure(rtt time.Duration) {
	if w.rtt == 0 {
		w.rtt = rtt
		return
	}
	w.rtt += time.Duration(gain * float64(rtt-w.rtt))
}

func (w *window) state() State {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := State{Window: w.size, InFlight: w.inFlight, Waiting: w.waiting.Len(), RTT: w.rtt}
	if w.until.After(time.Now()) {
		s.Until = w.until
	}
	return s
}

func (w *window) idleFor() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inFlight > 0 || w.waiting.Len() > 0 {
		return 0
	}
	return time.Since(w.used)
}
