package enforcer

import (
	"time"

	"github.com/titrate/titrate/control/limiter"
)

// drainAnswered drains when no answer is being processed: requests that an answer has put into a queue are
// drained, too.
func (e *Enforcer) drainAnswered() {
	e.answering.Lock()
	defer e.answering.Unlock()
	e.drain()
}

func (e *Enforcer) run() {
	defer close(e.stopped)
	for e.due.Set(BusyTick); e.due.Wait(); {
		if e.o.OnWake != nil {
			e.o.OnWake()
		}
		period := e.tick()
		e.due.Set(period - time.Duration(Now())%period) // with the link's times, so that both wake the process once
	}
}

// tick steps the engine and returns the period of the next ticks. If the engine
// panicked, all held requests are released.
func (e *Enforcer) tick() (next time.Duration) {
	next = BusyTick
	failed := true
	defer func() {
		if failed {
			e.drain()
		}
	}()
	defer e.RecoverPanic("tick")
	// slow is cleared before Busy is read. A request that starts to wait after Busy
	// returned false finds slow set, and wakes the ticker.
	e.slow.Store(false)
	e.deliver(e.o.Engine.Tick(Now(), e.events[:0]))
	e.slow.Store(true)
	if e.o.Engine.Busy() {
		e.slow.Store(false)
	} else {
		next = IdleTick
	}
	failed = false
	return next
}

func (e *Enforcer) drain() {
	defer e.RecoverPanic("drain")
	e.events = e.events[:0]
	e.deliver(e.o.Engine.Drain(Now(), e.events[:0]))
}

// deliver passes a batch on and keeps its memory for the next one.
func (e *Enforcer) deliver(events []limiter.Event) {
	e.send(events)
	e.events = events
}

// send delivers a batch, if there is any.
func (e *Enforcer) send(events []limiter.Event) {
	if len(events) == 0 {
		return
	}
	e.delivering.Lock()
	defer e.delivering.Unlock()
	e.lastEvent = Now()
	e.o.Deliver(events)
	if e.o.Observer != nil {
		e.o.Observer.Ended(Now(), events)
	}
}
