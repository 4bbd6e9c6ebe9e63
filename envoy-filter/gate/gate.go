// Package gate is the one gate of an Envoy process: the limiter's engine, the
// ticker that drives it, and the barrier that keeps a fault in either from
// taking Envoy down.
//
// # Model
//
// Envoy's workers call [Gate.Decide] on every request, [Gate.Enqueue] when the
// engine would hold it and [Gate.Cancel] when a held one goes away. One
// goroutine ticks: every 5 ms while something is held or contended, otherwise
// every 50 ms, and at once when a request starts to wait. What a tick releases
// is delivered as one batch.
//
// # Invariants
//
//   - Each ticket of a held request is ended once: by an event in a delivered
//     batch, or by a Cancel that returned true.
//   - After Stop nothing is held, and nothing ever will be: what would wait is
//     then decided by the boot policy.
//   - A panic below Decide, Enqueue, Cancel or the tick is recovered and
//     counted. The request then passes (OPEN) or is refused (CLOSED); after one
//     in a tick everything held is released by the same policy.
//   - No allocation and no lock of this package on the admit path.
package gate

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/limiter"
)

const (
	// BusyTick is the period while something is held or contended.
	BusyTick = 5 * time.Millisecond
	// IdleTick is the period otherwise.
	IdleTick = 50 * time.Millisecond
	// stopPatience bounds how long Stop waits for a tick that is under way.
	stopPatience = time.Second
	// Linger is how long a request that has waited may take to be answered, once it does
	// not wait any more: Envoy is kept from ending for as long (LINGER_MS of process.c).
	Linger = 500 * time.Millisecond
)

// InternalError is the reason of a request that was refused because the
// decision itself failed and the policy is CLOSED.
const InternalError = limiter.Reason(200)

// ReasonName is the stable name of a reason, InternalError included.
func ReasonName(r limiter.Reason) string {
	if r == InternalError {
		return "internal_error"
	}
	return r.String()
}

// Options are fixed for the gate's life.
type Options struct {
	// Engine decides. The gate is its only caller of Tick and Drain.
	Engine *limiter.Engine
	// Fail says what becomes of a request when its decision panicked, and of
	// one that would wait after Stop.
	Fail limiter.BootPolicy
	// Deliver takes one tick's events. It must not keep the slice.
	Deliver func([]limiter.Event)
	// Watch is told of what was not admitted at once; nil: nobody is.
	Watch Watcher
	// Log takes what an operator must know.
	Log func(text string)
	// Woken, if set, is called first in each tick, on the thread that the timer
	// woke.
	Woken func()
}

// Watcher sees refusals and the ends of waits, off the path of what is admitted.
// Safe for concurrent use; it must not keep what it is given, nor wait.
type Watcher interface {
	// Refused tells of a request that was refused when it came. Its strings alias
	// foreign memory.
	Refused(now int64, r *limiter.Request)
	// Ended tells of one tick's events.
	Ended(now int64, events []limiter.Event)
}

// Gate is the process's gate. Create it with New.
type Gate struct {
	o        Options
	panics   atomic.Uint64
	badCosts atomic.Uint64
	slow     atomic.Bool // the ticker is in its long sleep
	draining atomic.Bool
	wake     chan struct{}
	stop     chan struct{}
	stopped  chan struct{}
	start    sync.Once
	end      sync.Once
	events   []limiter.Event
	ended    int64 // when waits ended last; of the ticker, and of Stop after it
}

// New returns a gate whose ticker does not run yet.
func New(o Options) *Gate {
	return &Gate{o: o, wake: make(chan struct{}, 1), stop: make(chan struct{}), stopped: make(chan struct{}),
		ended: Now() - int64(Linger)}
}

var epoch = time.Now()

// Now is the monotonic clock that the engine lives by, in nanoseconds.
func Now() int64 { return int64(time.Since(epoch)) }

// Panics is the number of panics recovered so far.
func (g *Gate) Panics() uint64 { return g.panics.Load() }

// Decide decides a request that has just arrived. Wait: call Enqueue.
func (g *Gate) Decide(r *limiter.Request) (out limiter.Outcome) {
	defer g.barrier(&out, r)
	if faulty {
		fault("decide", r)
	}
	now := Now()
	out = g.o.Engine.Decide(now, r)
	if out.Verdict == limiter.Reject && g.o.Watch != nil {
		g.o.Watch.Refused(now, r)
	}
	return out
}

// Unsure is the handle of a request whose Enqueue panicked: the engine may have
// queued it before, and then ends its ticket after all.
const Unsure = ^limiter.Handle(0)

// Enqueue decides again and holds the request if it still has to wait. The
// ticket comes back in its event, and must not be 0. Without a Wait the handle is
// 0, or Unsure: then the ticket must stay good.
func (g *Gate) Enqueue(r *limiter.Request, ticket uint64) (out limiter.Outcome, h limiter.Handle) {
	defer g.barrier(&out, r)
	if faulty {
		fault("enqueue", r)
	}
	if ticket == 0 || g.draining.Load() {
		return g.byPolicy(r), 0
	}
	now := Now()
	h = Unsure
	out, h = g.o.Engine.Enqueue(now, r, ticket)
	if out.Verdict == limiter.Reject && g.o.Watch != nil {
		g.o.Watch.Refused(now, r)
	}
	if out.Verdict != limiter.Wait {
		return out, 0
	}
	// A drain that began meanwhile may have missed it.
	if g.draining.Load() && g.o.Engine.Cancel(Now(), h) {
		return g.byPolicy(r), 0
	}
	if g.slow.Load() {
		select {
		case g.wake <- struct{}{}:
		default:
		}
	}
	return out, h
}

// Peek tells what Decide would answer and what is left; it changes nothing.
func (g *Gate) Peek(r *limiter.Request) (out limiter.Outcome, a limiter.Allowance) {
	defer g.barrier(&out, r)
	return g.o.Engine.Peek(Now(), r)
}

// Allowance tells what is left for a request that was decided with that reason.
func (g *Gate) Allowance(r *limiter.Request, why limiter.Reason) limiter.Allowance {
	defer g.Contain("an allowance")
	return g.o.Engine.Allowance(Now(), r, why)
}

// Settle corrects the charge of an admitted request by its true cost.
func (g *Gate) Settle(r *limiter.Request, actual float64) {
	defer g.Contain("a settlement")
	g.o.Engine.Settle(Now(), r, actual)
}

// Cancel takes a held request out. False: its event was or is being delivered.
func (g *Gate) Cancel(h limiter.Handle) (removed bool) {
	defer g.Contain("cancel")
	return g.o.Engine.Cancel(Now(), h)
}

// Start runs the ticker.
func (g *Gate) Start() { g.start.Do(func() { go g.run() }) }

// Stop ends the ticker and releases everything held. It returns when the last
// batch has been delivered; nothing is delivered afterwards. A tick that does
// not end within a second is a fault: it is logged, and nothing is released,
// rather than keep the process from ending. The first call tells whether requests that
// have waited may be under way: some were released now, or within Linger before.
func (g *Gate) Stop() (underWay bool) {
	g.end.Do(func() {
		g.draining.Store(true)
		close(g.stop)
		g.start.Do(func() { close(g.stopped) }) // it never ran
		select {
		case <-g.stopped:
			g.drain()
			underWay = Now()-g.ended < int64(Linger)
		case <-time.After(stopPatience):
			if g.o.Log != nil {
				g.o.Log("titrate: the ticker does not end; this is a bug, please report it")
			}
		}
	})
	return underWay
}

func (g *Gate) run() {
	defer close(g.stopped)
	timer := time.NewTimer(BusyTick)
	defer timer.Stop()
	for {
		select {
		case <-g.stop:
			return
		case <-timer.C:
		case <-g.wake:
		}
		if g.o.Woken != nil {
			g.o.Woken()
		}
		timer.Reset(g.tick())
	}
}

// tick steps the engine and returns the time to the next tick.
func (g *Gate) tick() (next time.Duration) {
	next = BusyTick
	failed := true
	defer func() {
		if failed {
			g.drain()
		}
	}()
	defer g.Contain("tick")
	// slow is cleared before the engine is asked: a request that starts to wait
	// after the answer finds it set again and wakes the ticker.
	g.slow.Store(false)
	g.deliver(g.o.Engine.Tick(Now(), g.events[:0]))
	g.slow.Store(true)
	if g.o.Engine.Busy() {
		g.slow.Store(false)
	} else {
		next = IdleTick
	}
	failed = false
	return next
}

func (g *Gate) drain() {
	defer g.Contain("drain")
	g.events = g.events[:0]
	g.deliver(g.o.Engine.Drain(Now(), g.events[:0]))
}

// deliver hands a batch over; g.events is then that batch, and memory for the next.
func (g *Gate) deliver(events []limiter.Event) {
	if len(events) > 0 {
		g.ended = Now()
		g.o.Deliver(events)
		if g.o.Watch != nil {
			g.o.Watch.Ended(Now(), events)
		}
	}
	g.events = events
}

// byPolicy is the outcome when no decision can be had: the pool's policy for lost
// shares where it says enough (OPEN admits, SAFE_RATE protects the upstream and
// refuses), else the process's.
func (g *Gate) byPolicy(r *limiter.Request) limiter.Outcome {
	admit := g.o.Fail == limiter.BootOpen
	switch loss, _ := g.onLoss(r); loss {
	case config.Open:
		admit = true
	case config.SafeRate:
		admit = false
	}
	if admit || r.Mode != config.Enforce {
		return limiter.Outcome{Verdict: limiter.Admit}
	}
	return limiter.Outcome{Verdict: limiter.Reject, Reason: InternalError, RetryAfter: time.Second}
}

// onLoss asks the engine, which may be what has failed.
func (g *Gate) onLoss(r *limiter.Request) (loss config.OnLoss, ok bool) {
	defer func() {
		if recover() != nil {
			loss, ok = config.Freeze, false
		}
	}()
	return g.o.Engine.OnLoss(r.Pool)
}

// barrier turns a panic of a decision into the policy's outcome.
func (g *Gate) barrier(out *limiter.Outcome, r *limiter.Request) {
	if p := recover(); p != nil {
		g.Report("decision", p)
		*out = g.byPolicy(r)
	}
}

// Contain is deferred by goroutines and callbacks beside the gate: it recovers
// a panic, counts it and logs it.
func (g *Gate) Contain(where string) {
	if p := recover(); p != nil {
		g.Report(where, p)
	}
}

// Report counts a panic that somebody has recovered, and logs the first ones in
// full: a fault that repeats with every request must not fill the disk.
func (g *Gate) Report(where string, p any) {
	const logged = 10
	if n := g.panics.Add(1); n <= logged && g.o.Log != nil {
		g.o.Log(fmt.Sprintf("titrate: recovered a panic in %s (%d so far; this is a bug, please report it): %v\n%s", where, n, p, debug.Stack()))
	}
}
