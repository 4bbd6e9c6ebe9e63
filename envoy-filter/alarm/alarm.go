// Package alarm wakes a loop on time, and a process once for it.
//
// A timer of Go wakes a process that is at rest several times (BenchmarkWake). The runtime waits in epoll for whole
// milliseconds, rounded down: it wakes up to a millisecond too early, and then waits for one more. Meanwhile its
// watchdog sees that the timer is late, and looks again each 20 µs. A file that becomes readable on time wakes the
// process once.
package alarm

import (
	"sync"
	"time"
)

// Alarm rings at the earliest of the times that it was set to since it rang last. Any goroutine may set it, one waits.
type Alarm struct {
	mu sync.Mutex
	at time.Time // zero: it does not ring
	of timer
}

// timer does the work of an alarm.
type timer interface {
	reset(after time.Duration)
	wait() bool // until it has run out; false: it is stopped
	stop()
}

// New returns an alarm that does not ring.
func New() *Alarm { return &Alarm{of: newTimer()} }

// Set has the alarm ring after a time, unless it rings before.
func (a *Alarm) Set(after time.Duration) {
	at := time.Now().Add(after)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.at.IsZero() || at.Before(a.at) {
		a.at = at
		a.of.reset(max(0, after))
	}
}

// Wait waits until the alarm rings; false: it is stopped. The caller then does what is due, and sets it again.
func (a *Alarm) Wait() bool {
	if !a.of.wait() {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at = time.Time{}
	return true
}

// Stop ends the alarm, once.
func (a *Alarm) Stop() { a.of.stop() }

// ofGo is a timer of Go, where the system has none that a process can wait for with its sockets.
type ofGo struct {
	*time.Timer
	stopped chan struct{}
}

func newOfGo() timer {
	t := ofGo{time.NewTimer(time.Hour), make(chan struct{})}
	t.Stop()
	return t
}

func (t ofGo) reset(after time.Duration) { t.Reset(after) }
func (t ofGo) stop()                     { close(t.stopped) }
func (t ofGo) wait() bool {
	select {
	case <-t.C:
	case <-t.stopped:
	}
	select {
	case <-t.stopped:
		return false
	default:
		return true
	}
}
