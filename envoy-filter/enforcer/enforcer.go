// Package enforcer runs the limiter's engine inside an Envoy process. It has the clock
// and the ticker that the engine lacks, and it recovers the engine's panics, so that a
// fault in the limiter does not end Envoy.
//
// # Model
//
// Envoy's workers call [Enforcer.Decide] on every request, [Enforcer.Enqueue] when the request has to wait, and
// [Enforcer.Cancel] when a waiting request goes away. One goroutine ticks: every 5 ms while a request is held
// or a key is contended, otherwise every 50 ms, and at once when a request starts to wait. The requests that a
// tick releases are delivered as one batch. A held request waits in the queue, or for the owner of an EXACT
// limit's key; in the second case it goes on when the answer comes ([Enforcer.Answer]).
//
// # Invariants
//
//   - Each ticket of a held request is ended once: by an event in a delivered
//     batch, or by a Cancel that returned true.
//   - After Stop no request is held, and none will be: the failure policy decides
//     requests that would have to wait.
//   - A panic below Decide, Enqueue, Cancel or the tick is recovered and counted. The
//     failure policy then decides the request; after a panic in a tick it decides all
//     held requests.
//   - The admit path neither allocates nor takes a lock of this package.
package enforcer

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/envoy-filter/alarm"
	"github.com/titrate/titrate/envoy-filter/answer"
)

const (
	// BusyTick is the period while something is held or contended.
	BusyTick = 5 * time.Millisecond
	// IdleTick is the period otherwise.
	IdleTick = 50 * time.Millisecond
	// stopTimeout bounds how long Stop waits for the current tick to end.
	stopTimeout = time.Second
	// Linger is the delay of Envoy's shutdown after the last held request was released, so that the upstream
	// can answer the request.
	Linger = 500 * time.Millisecond
)

// Options are fixed for the enforcer's life.
type Options struct {
	// Engine decides. Only the enforcer calls its Tick and Drain.
	Engine *limiter.Engine
	// FailurePolicy decides a request whose decision panicked, and requests that would have to wait after Stop.
	FailurePolicy limiter.BootPolicy
	// Deliver receives the events of one tick, or of one answer of owners, one batch at a time.
	// It must not keep the slice.
	Deliver func([]limiter.Event)
	// Observer, if set, sees the requests that were not admitted at once.
	Observer Observer
	// Log receives messages for the operator.
	Log func(text string)
	// OnWake, if set, is called first in each tick, on the thread that the timer
	// woke.
	OnWake func()
}

// Observer sees refused and shadowed requests, and the ends of waits. It is not called for
// other requests that are admitted at once. Safe for concurrent use; an observer neither keeps
// its arguments nor waits.
type Observer interface {
	// Refused is called with a request that was refused on arrival, and the limit that
	// refused it. The request's strings alias memory of Envoy.
	Refused(now int64, r *limiter.Request, limit string)
	// Shadowed is called with a request that a SHADOW mode let pass on arrival.
	Shadowed(now int64, r *limiter.Request, limit string)
	// Ended is called with the events of one tick.
	Ended(now int64, events []limiter.Event)
}

// Enforcer is the engine with its ticker. Create it with New.
type Enforcer struct {
	o            Options
	panics       atomic.Uint64
	invalidCosts atomic.Uint64
	usages       [Usages]atomic.Uint64
	slow         atomic.Bool // the ticker sleeps for IdleTick
	draining     atomic.Bool
	due          *alarm.Alarm // the next tick
	stopped      chan struct{}
	start        sync.Once
	end          sync.Once
	events       []limiter.Event
	answering    sync.Mutex      // an answer is taken in, or all are drained
	answered     []limiter.Event // of Answer; answering is locked
	delivering   sync.Mutex      // one batch at a time; guards lastEvent
	lastEvent    int64           // time of the last batch
}

// New returns an enforcer whose ticker does not run yet.
func New(o Options) *Enforcer {
	return &Enforcer{o: o, due: alarm.New(), stopped: make(chan struct{}),
		lastEvent: Now() - int64(Linger)}
}

var epoch = time.Now()

// Now is the engine's clock: monotonic, in nanoseconds since the process started.
func Now() int64 { return int64(time.Since(epoch)) }

// Panics is the number of panics recovered so far.
func (e *Enforcer) Panics() uint64 { return e.panics.Load() }

// Decide decides a request that has just arrived. After a verdict of Wait the caller
// calls Enqueue.
func (e *Enforcer) Decide(r *limiter.Request) (out limiter.Outcome) {
	defer e.recoverDecision(&out, r)
	if injectFaults {
		injectFault("decide", r)
	}
	now := Now()
	out = e.o.Engine.Decide(now, r)
	if out.Verdict == limiter.Reject || out.Shadow {
		e.observe(now, r, out.Limit, out.Shadow)
	}
	return out
}

func (e *Enforcer) observe(now int64, r *limiter.Request, limit string, shadow bool) {
	switch {
	case e.o.Observer == nil:
	case shadow:
		e.o.Observer.Shadowed(now, r, limit)
	default:
		e.o.Observer.Refused(now, r, limit)
	}
}

// HandleUnknown is the handle of a request whose Enqueue panicked. The engine may have
// queued the request before the panic; then it still ends the ticket.
const HandleUnknown = ^limiter.Handle(0)

// Enqueue decides the request again and queues it if it still has to wait. The
// ticket comes back in the request's event; it must not be 0. If the verdict is not
// Wait the handle is 0, or HandleUnknown: then the ticket must remain valid, since an
// event may still come.
func (e *Enforcer) Enqueue(r *limiter.Request, ticket uint64) (out limiter.Outcome, h limiter.Handle) {
	defer e.recoverDecision(&out, r)
	if injectFaults {
		injectFault("enqueue", r)
	}
	if ticket == 0 || e.draining.Load() {
		return e.decideByPolicy(r), 0
	}
	now := Now()
	h = HandleUnknown
	out, h = e.o.Engine.Enqueue(now, r, ticket)
	if out.Verdict == limiter.Reject || out.Shadow {
		e.observe(now, r, out.Limit, out.Shadow)
	}
	if out.Verdict != limiter.Wait {
		return out, 0
	}
	// A drain that began after the enqueueing may have missed the request.
	if e.draining.Load() && e.o.Engine.Cancel(Now(), h) {
		return e.decideByPolicy(r), 0
	}
	if e.slow.CompareAndSwap(true, false) {
		e.due.Set(0)
	}
	return out, h
}

// Peek returns Decide's answer, and the allowance; it changes nothing.
func (e *Enforcer) Peek(r *limiter.Request) (out limiter.Outcome, a limiter.Allowance) {
	defer e.recoverDecision(&out, r)
	return e.o.Engine.Peek(Now(), r)
}

// Allowance returns the allowance after a request that was decided for this reason.
func (e *Enforcer) Allowance(r *limiter.Request, why limiter.Reason) limiter.Allowance {
	defer e.RecoverPanic("an allowance")
	return e.o.Engine.Allowance(Now(), r, why)
}

// RefusedAllowance returns the allowance after a request that was refused.
func (e *Enforcer) RefusedAllowance(r *limiter.Request, out limiter.Outcome) limiter.Allowance {
	defer e.RecoverPanic("an allowance")
	if a, ok := e.o.Engine.RefusedAllowance(r, out); ok {
		return a
	}
	return e.o.Engine.Allowance(Now(), r, out.Reason)
}

// CorrectCharge replaces the estimate of a cost of an admitted request by its true cost: of the one at a place of
// r.Costs, or at limiter.Plain. It returns whether the request's pool counts that cost.
func (e *Enforcer) CorrectCharge(r *limiter.Request, place int, actual float64) (ofPool bool) {
	defer e.RecoverPanic("the correction of a charge")
	e.o.Engine.Settle(Now(), r, place, actual)
	_, counted := e.o.Engine.PoolCost(r)
	return counted == place
}

// PoolCost returns what a request counts at its pool, in millionths of a cost unit. Only for a request with named
// costs it asks the engine.
func (e *Enforcer) PoolCost(r *limiter.Request) (micros int64) {
	if r.Costs == nil {
		return r.Micros()
	}
	defer e.RecoverPanic("the cost of a request")
	micros, _ = e.o.Engine.PoolCost(r)
	return micros
}

// CountedAs returns the tenant and the pool of the configuration that a request counts for, see
// [limiter.Engine.CountedAs].
func (e *Enforcer) CountedAs(r *limiter.Request) (tenant, pool string, ok bool) {
	defer e.RecoverPanic("the tenant of a request")
	return e.o.Engine.CountedAs(r)
}

// Cancel removes a held request from the queue. It returns false if the request's event
// was or is being delivered.
func (e *Enforcer) Cancel(h limiter.Handle) (removed bool) {
	defer e.RecoverPanic("cancel")
	return e.o.Engine.Cancel(Now(), h)
}

// Answer passes on the answers of the owners of EXACT limits' keys, and delivers the requests that they
// release, without waiting for a tick. One caller at a time.
func (e *Enforcer) Answer(a *exchange.TokenAnswers) {
	defer e.RecoverPanic("an owner's answer")
	e.answering.Lock()
	defer e.answering.Unlock()
	if e.draining.Load() {
		return // Stop releases the waiting requests
	}
	e.answered = e.o.Engine.AnswerTokens(Now(), a, e.answered[:0])
	e.send(e.answered)
}

// FreeSlots notes that a stream with slots of concurrency limits has ended, and delivers the requests that go on by
// that.
func (e *Enforcer) FreeSlots(s limiter.Slots) {
	defer e.RecoverPanic("the end of a stream")
	e.send(e.o.Engine.FreeSlots(Now(), s, nil))
}

// LendSlots notes that a stream with slots was redirected: the stream that follows it calls KeepSlots.
func (e *Enforcer) LendSlots(s limiter.Slots) {
	defer e.RecoverPanic("a redirect")
	e.o.Engine.LendSlots(Now(), s)
}

// KeepSlots gives the slots of a redirected stream to the stream that follows it; false: they are free by now.
func (e *Enforcer) KeepSlots(s limiter.Slots) (kept bool) {
	defer e.RecoverPanic("a redirect")
	return e.o.Engine.KeepSlots(s)
}

// AnswerSlots passes on what an owner of slots says, and delivers the requests that go on by that.
func (e *Enforcer) AnswerSlots(m *exchange.SlotReplies) {
	defer e.RecoverPanic("an owner's message about slots")
	e.answering.Lock()
	defer e.answering.Unlock()
	if e.draining.Load() {
		return
	}
	e.answered = e.o.Engine.AnswerSlots(Now(), m, e.answered[:0])
	e.send(e.answered)
}

// AnswerQuotas is the same for an owner of units of a quota.
func (e *Enforcer) AnswerQuotas(m *exchange.QuotaReplies) {
	defer e.RecoverPanic("an owner's message about a quota")
	e.answering.Lock()
	defer e.answering.Unlock()
	if e.draining.Load() {
		return
	}
	e.answered = e.o.Engine.AnswerQuotas(Now(), m, e.answered[:0])
	e.send(e.answered)
}

// Start runs the ticker.
func (e *Enforcer) Start() { e.start.Do(func() { go e.run() }) }

// Stop ends the ticker and releases all held requests. It returns when the last batch
// has been delivered; nothing is delivered afterwards. If the current tick does not end
// within a second, Stop logs this and releases nothing, so that the process can end. The
// first call returns whether released requests may still be at the upstream: some were
// released now, or within Linger before.
func (e *Enforcer) Stop() (inFlight bool) {
	e.end.Do(func() {
		e.draining.Store(true)
		e.due.Stop()
		e.start.Do(func() { close(e.stopped) }) // it never ran
		select {
		case <-e.stopped:
			e.drainAnswered()
			e.delivering.Lock()
			inFlight = Now()-e.lastEvent < int64(Linger)
			e.delivering.Unlock()
		case <-time.After(stopTimeout):
			if e.o.Log != nil {
				e.o.Log("titrate: the ticker does not end; this is a bug, please report it")
			}
		}
	})
	return inFlight
}

// decideByPolicy is the outcome when the engine cannot decide. The pool's on_loss
// policy comes first: OPEN admits, SAFE_RATE refuses, since it protects the upstream.
// Otherwise the process's failure policy decides. Requests that are not enforced pass.
func (e *Enforcer) decideByPolicy(r *limiter.Request) limiter.Outcome {
	admit := e.o.FailurePolicy == limiter.BootOpen
	switch loss, _ := e.onLoss(r); loss {
	case config.Open:
		admit = true
	case config.SafeRate:
		admit = false
	}
	if admit || r.Mode != config.Enforce {
		return limiter.Outcome{Verdict: limiter.Admit}
	}
	return limiter.Outcome{Verdict: limiter.Reject, Reason: answer.InternalError, RetryAfter: time.Second}
}

// onLoss reads the pool's policy from the engine, which may panic again.
func (e *Enforcer) onLoss(r *limiter.Request) (loss config.OnLoss, ok bool) {
	defer func() {
		if recover() != nil {
			loss, ok = config.Freeze, false
		}
	}()
	return e.o.Engine.OnLoss(r.Pool)
}

// recoverDecision replaces the outcome of a decision that panicked by the policy's.
func (e *Enforcer) recoverDecision(out *limiter.Outcome, r *limiter.Request) {
	if p := recover(); p != nil {
		e.ReportPanic("decision", p)
		held := out.Slots
		if *out = e.decideByPolicy(r); held != 0 {
			e.FreeSlots(held)
		}
	}
}

// RecoverPanic is deferred by goroutines and callbacks: it recovers a panic, counts it
// and logs it.
func (e *Enforcer) RecoverPanic(where string) {
	if p := recover(); p != nil {
		e.ReportPanic(where, p)
	}
}

// ReportPanic counts a panic that the caller has recovered. It logs only the first ten:
// a fault that repeats with every request must not fill the disk.
func (e *Enforcer) ReportPanic(where string, p any) {
	const logged = 10
	if n := e.panics.Add(1); n <= logged && e.o.Log != nil {
		const text = "titrate: recovered a panic in %s (%d so far; this is a bug, please report it): %v\n%s"
		e.o.Log(fmt.Sprintf(text, where, n, p, debug.Stack()))
	}
}
