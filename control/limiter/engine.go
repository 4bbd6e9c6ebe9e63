package limiter

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
)

// Engine is one gateway's limiter. Decide, Enqueue and Cancel may be called from
// any thread; Tick and Drain from one at a time, and so Claims and Report; Apply,
// SetShares and SetSums from any.
//
// The order of its locks is in lock.go.
type Engine struct {
	snap   atomic.Pointer[snapshot]
	member atomic.Pointer[membership]
	shares atomic.Pointer[shares]
	heard  atomic.Pointer[heardFlows]
	round  atomic.Uint32 // of Sums
	table  table
	states states
	stats  tallies

	unknown UnknownPolicy
	boot    BootPolicy
	rand    func() float64
	seed    uint64 // of the default random numbers
	flight  func() *Flight
	start   int64
	period  float64 // P, seconds
	busy    atomic.Bool
	heldNow atomic.Int64 // requests in all queues

	fresh    mutex[leafRank]
	awakened []*flow // became active since the last tick

	work     mutex[workRank] // the slow callers: Tick, Drain, Claims, Report
	running  []*flow
	resting  []*flow // those that are not running, see free.go
	untold   []*flow // and have something to report
	reportAt int64

	told   atomic.Pointer[Names] // by Name
	naming mutex[namingRank]     // one Apply or Name at a time; guards what follows
	known  Names
	config *config.Config // in force
	wanted Wanted         // by it
	wants  func(Wanted)

	admin mutex[adminRank] // one change of snapshot, shares or sums at a time

	names   mutex[leafRank] // guards flows and what follows
	flows   map[flowName]*flow
	peak    int         // the most flows since the map was last made
	places  []flowPlace // of flows, by id
	vacant  []uint32    // places without a flow
	flights []*Flight   // of flows that are freed
	past    []PoolStats // counts of flows that are freed

	reserved sync.Map // of hash: the *bucket of a key outside the table
	reserves reserves
}

type flowName struct{ tenant, pool string }

// tallies are counters of the engine as a whole.
type tallies struct {
	overflow, unpromoted, displaced, bypassed, unknownPool atomic.Uint64
	rejected                                               [Reasons]atomic.Uint64 // before any flow was known
	booted                                                 atomic.Uint64
}

// New returns an engine without configuration. It allocates the key table.
func New(o Options) *Engine {
	o = o.withDefaults()
	e := &Engine{
		table: newTable(o.Keys), unknown: o.Unknown, boot: o.Boot, rand: o.Rand, wants: o.Wants,
		seed: absorb(mulA, o.Replica), flight: o.Flight, start: o.Start, period: exchange.DefaultPeriod.Seconds(),
		flows: map[flowName]*flow{},
	}
	e.states.budget = int32(min(o.Contended, chunkStates*maxChunks))
	e.member.Store(alone())
	e.shares.Store(&shares{})
	e.heard.Store(&heardFlows{version: 1})
	return e
}

// seconds converts the caller's nanoseconds to the controllers' seconds.
func (e *Engine) seconds(now int64) float64 { return float64(now-e.start) * 1e-9 }

// uniform returns a random number in [0,1).
func (e *Engine) uniform(state *uint64) float64 {
	if e.rand != nil {
		return e.rand()
	}
	return next(state)
}

// Decide decides a request at now. Wait means that it would have to be held:
// nothing was charged and nothing waits; call Enqueue if its caller can be
// woken later, and reject it otherwise.
func (e *Engine) Decide(now int64, r *Request) Outcome {
	if r.Mode != config.Enforce {
		return e.lenient(now, r)
	}
	rt, out, done := e.resolve(r)
	if done {
		return out
	}
	cost := r.cost()
	if rt.flow == nil {
		return e.limitsOnly(rt, r, now, cost)
	}
	f := rt.flow
	if rt.blocked {
		return e.shutOut(f, cost)
	}
	who := r.subject()
	if f.behind(rt, who) {
		return Outcome{Verdict: Wait}
	}
	if rt.queues() && !f.open.Load() && !f.offers(cost) && e.admits(rt, who, now, cost) {
		return e.waits(f, now, r)
	}
	ref := e.charge(rt, who, now, cost, ask)
	if ref.by != nil {
		if !ref.hopeless() {
			return Outcome{Verdict: Wait, Reason: ClientLimit, RetryAfter: time.Duration(ref.wait), Limit: ref.by.name}
		}
		out := f.refusedBy(ref, cost)
		e.wake(f)
		return out
	}
	out, ok := e.pass(f, rt, who, now, cost, ref.shadow)
	if !ok {
		e.refund(rt, who, now, cost, ref.charged)
		if out.Verdict == Wait {
			return e.waits(f, now, r)
		}
		return out
	}
	out.Flight = rt.flight
	return out
}

// waits answers that a request would have to wait for its share, unless the flow has
// none because it has just been freed.
func (e *Engine) waits(f *flow, now int64, r *Request) Outcome {
	if f.gone() {
		e.unroute(f)
		return e.Decide(now, r)
	}
	return Outcome{Verdict: Wait, Reason: TenantShare, Limit: ShareName}
}

// resolve finds the request's route. It is done when there is none.
func (e *Engine) resolve(r *Request) (*route, Outcome, bool) {
	s := e.snap.Load()
	if s == nil {
		if e.boot == BootOpen {
			e.stats.booted.Add(1)
			return nil, Outcome{}, true
		}
		return nil, e.reject(NotConfigured), true
	}
	t, ok := s.tenants[r.Tenant]
	if !ok {
		switch e.unknown {
		case UnknownBypass:
			e.stats.bypassed.Add(1)
			return nil, Outcome{}, true
		case UnknownDefault:
			t, ok = s.tenants[config.DefaultTenant]
		}
		if !ok {
			return nil, e.reject(UnknownTenant), true
		}
	}
	return e.route(s, t, r.Pool), Outcome{}, false
}

func (e *Engine) reject(why Reason) Outcome {
	e.stats.rejected[why].Add(1)
	return Outcome{Verdict: Reject, Reason: why}
}

// limitsOnly decides a request to an unknown pool: it has no share and no
// queue, but its client's limits hold.
func (e *Engine) limitsOnly(rt *route, r *Request, now, cost int64) Outcome {
	ref := e.charge(rt, r.subject(), now, cost, final)
	if ref.by != nil {
		out := e.reject(ClientLimit)
		out.RetryAfter, out.Limit = retryAfter(ref.wait), ref.by.name
		return out
	}
	e.stats.unknownPool.Add(1)
	return ref.shadow.seen()
}

// pass is the tenant stage without the lock: it admits, rejects, or answers
// Wait. ok says that the request was admitted.
func (e *Engine) pass(f *flow, rt *route, who subject, now, cost int64, shadow *limit) (out Outcome, ok bool) {
	if shadow != nil {
		out = shadow.seen()
	}
	switch {
	case rt.mode == config.Off || f.open.Load():
		f.bypassed.Add(cost)
	case f.eligible.Load() == 0 && f.take(cost):
		f.metered(who, cost)
	case rt.mode == config.Shadow:
		f.bypassed.Add(cost)
		out = shadowed(out)
	case rt.queue.Law == config.Police && (f.borrow(who, cost) || e.catchUp(f, now) && f.take(cost)):
		f.metered(who, cost)
	case rt.queue.Law == config.Police && !f.gone():
		f.turned.Add(cost)
		out = f.rejected(TenantShare, cost, 0)
		e.wake(f)
		return out, false
	default:
		return Outcome{Verdict: Wait}, false
	}
	f.admits.Add(1)
	if out.Shadow {
		f.counts.shadowed.Add(1)
		f.counts.shadowedCost.Add(cost)
	}
	e.wake(f)
	return out, true
}

// catchUp brings the credit up to date when it is more than a millisecond old and
// nobody else is at it: a slow tick must not cost a request.
func (e *Engine) catchUp(f *flow, now int64) bool {
	if !f.mu.TryLock() {
		return false
	}
	defer f.mu.Unlock()
	if e.seconds(now)-f.at < 1e-3 {
		return false
	}
	f.advance(e, now)
	f.publish()
	return true
}

// wake puts a flow into the ticker's list.
func (e *Engine) wake(f *flow) {
	if f.active.Load() || !f.active.CompareAndSwap(false, true) {
		return
	}
	e.fresh.Lock()
	defer e.fresh.Unlock()
	e.awakened = append(e.awakened, f)
}

// refusedBy is the answer to a request that a limit has refused.
func (f *flow) refusedBy(ref refusal, cost int64) Outcome {
	f.counts.rejected[ClientLimit].Add(1)
	f.counts.clientRejected.Add(cost)
	return Outcome{Verdict: Reject, Reason: ClientLimit, RetryAfter: retryAfter(ref.wait), Limit: ref.by.name}
}

// rejected is the answer to a request that the tenant stage has refused.
func (f *flow) rejected(why Reason, cost, queued int64) Outcome {
	f.counts.rejected[why].Add(1)
	return Outcome{Verdict: Reject, Reason: why, RetryAfter: retryAfter(f.wait(cost, queued)), Limit: ShareName}
}

// blocked is the answer to all requests of a tenant whose quota has a max of 0:
// waiting does not help.
var blocked = Outcome{Verdict: Reject, Reason: TenantShare, Limit: ShareName}

// shutOut refuses a request of such a tenant and counts it as demand.
func (e *Engine) shutOut(f *flow, cost int64) Outcome {
	f.turned.Add(cost)
	f.counts.rejected[TenantShare].Add(1)
	e.wake(f)
	return blocked
}

// retryAfter turns a wait into advice: 0 when waiting does not help, and never 0
// when it does.
func retryAfter(wait int64) time.Duration {
	if wait == never {
		return 0
	}
	return time.Duration(max(1, wait))
}

// Apply installs a configuration. When a field is wrong it returns a
// *FieldError and the configuration before stays whole. Flows and keys keep
// their state; what waits is decided by the new numbers from now on. The caller
// must not change c any more.
func (e *Engine) Apply(c *config.Config) error {
	if err := c.Validate(); err != nil {
		return err
	}
	e.naming.Lock()
	defer e.naming.Unlock()
	e.install(c)
	return nil
}

// refreshAll gives every flow what is known of it now.
func (e *Engine) refreshAll() {
	for _, f := range e.live() {
		e.refresh(f)
	}
}

// refresh gives a flow what configuration, leases and sums say of it. A flow
// whose tenant or pool is gone keeps what it has: nothing new can reach it, and
// what waits drains at the last share.
func (e *Engine) refresh(f *flow) {
	s, sh := e.snap.Load(), e.shares.Load()
	t := s.tenants[f.tenant]
	pool, ok := s.pools[f.pool]
	if t == nil || !ok {
		return
	}
	loss, lost := sh.lost[f.pool]
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mode, f.queueing = t.quotas[f.pool].Mode, s.list[pool].Queue
	f.blocked = t.blocked(f.pool) // at the next tick nothing waits any more
	f.aim(f.queueing.DelayTarget.Seconds())
	f.open.Store(lost && loss == config.Open)
	f.expired = lost && loss == config.SafeRate
	f.key = FlowKey(s.seed, f.tenant, f.pool)
	f.heard = 0
	f.listen(e)
	f.vmax = sh.of(s, t, pool)
	f.configure(e, e.member.Load())
}

// flowOf returns the flow of a tenant and a pool, and makes it if need be.
func (e *Engine) flowOf(s *snapshot, t *tenant, pool int) *flow {
	name := flowName{t.name, s.list[pool].Name}
	f, fresh := e.obtainFlow(s, name)
	if fresh { // after it is in the list, or a change might miss it
		e.refresh(f)
		f.offer()
		e.wake(f) // last: it is freed once it has left the ticker's list
	}
	return f
}

// offer publishes the first credit of a flow.
func (f *flow) offer() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.publish()
}

func (e *Engine) obtainFlow(s *snapshot, name flowName) (f *flow, fresh bool) {
	e.names.Lock()
	defer e.names.Unlock()
	if f := e.flows[name]; f != nil {
		return f, false
	}
	return e.newFlow(s, name), true
}

// newFlow makes a flow; names is locked.
func (e *Engine) newFlow(s *snapshot, name flowName) *flow {
	salt := FlowKey(s.seed, name.tenant, name.pool)
	f := &flow{tenant: name.tenant, pool: name.pool, salt: salt, key: salt, random: salt ^ e.seed}
	e.occupy(f)
	e.flows[name] = f
	e.peak = max(e.peak, len(e.flows))
	return f
}
