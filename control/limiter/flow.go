package limiter

import (
	"math"
	"sync/atomic"

	"github.com/titrate/titrate/control/aqm"
	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/drc"
	"github.com/titrate/titrate/control/pacing"
)

// flow is a tenant's traffic to one pool: the tenant stage.
//
// Its controller decides how much may pass; between two looks at it the flow
// offers credit, the cost that may pass at once: free enzyme and what pacing has
// left. The fast path takes from it without a lock, and only while nothing
// waits. What was taken is the controller's arrival of the next step.
//
//	S = cost that waits − cost released and not yet sent     at each advance
type flow struct {
	credit   atomic.Int64 // fixed point; may be overdrawn by one large request
	brim     atomic.Int64 // a full bucket: a larger request needs no more than this
	eligible atomic.Int32 // requests that wait for the share
	held     atomic.Int32 // requests that wait for a limit
	active   atomic.Bool  // in the ticker's list
	open     atomic.Bool  // shares lost, OnLoss Open
	admits   atomic.Uint64

	turned   atomic.Int64 // cost turned away without the lock: demand, not backlog
	bypassed atomic.Int64 // cost that passed without credit: OFF, SHADOW, OPEN
	counts   counters
	waiters  atomic.Pointer[[waiterBits]atomic.Int32] // held requests by client hash
	meter    atomic.Pointer[meter]                    // once something was refused or had to wait
	rate     atomic.Uint64                            // rate in force, float bits
	flight   atomic.Pointer[Flight]                   // once the pool was adaptive

	id     uint32 // guarded by Engine.names, as freed and folded
	freed  bool
	folded PoolStats // what of its counts is in Engine.past
	salt   uint64    // of the clients' hashes within the flow
	tenant string
	pool   string

	untold   bool  // in Engine.untold; guarded by Engine.work, as are the next two
	listedAt int64 // when it was put into Engine.resting, 0: it is not there
	restedAt int64 // when it left the ticker's list last

	mu       mutex[flowRank]
	key      uint64 // FlowKey
	ctl      drc.Controller
	pacer    pacing.Pacer
	sums     drc.Sums
	heard    uint64 // version of what sums are from
	vmax     float64
	version  uint32 // of the membership the controller is configured for
	absent   float64
	expired  bool // SafeRate in force
	isolated drc.Isolation
	mode     config.Mode
	blocked  bool // nothing may pass: the quota's max is 0
	queueing config.Queue
	q        *queue
	// generation is what the places of the queue begin with, see freed.
	generation uint32
	vsd        aqm.VSD
	tail       aqm.DropTail
	codel      aqm.CoDel
	aqmAt      float64
	lateAt     float64 // when a request was last refused because it would have waited for too long
	beganAt    float64 // when the demand began after a rest
	fore       float64 // rate at which requests join the front of the queue, cost units/s
	fronted    int64   // cost that has since it was last measured
	doubt      float64 // seconds for which the AQM's mode has looked wrong
	begun      bool
	at         float64 // time of the last advance, seconds
	published  int64   // credit as last offered
	recent     int64   // cost that came by the fast path lately, halved at each advance
	pending    float64 // arrived since the last step and waiting
	lastSeen   float64 // time of the last arrival
	random     uint64
	told       bool // claimed, so its end must be announced
	limited    bool // since the last report
	sum        totals
	reported   totals
	flown      flown
}

const waiterBits = 64

// totals is what a flow reports, in fixed point.
type totals struct{ demand, served, marked, rejected, client, shadowed int64 }

// counters count requests that the fast path does not.
type counters struct {
	waited, marked, shadowed, cancelled, late atomic.Uint64
	rejected                                  [Reasons]atomic.Uint64
	clientRejected, shadowedCost              atomic.Int64
}

// offers reports whether take would succeed now.
func (f *flow) offers(cost int64) bool {
	have := f.credit.Load()
	return f.eligible.Load() == 0 && (have >= cost || have > 0 && have >= f.brim.Load())
}

// take takes cost from the credit if that covers it, or is as full as it gets.
func (f *flow) take(cost int64) bool {
	for {
		have := f.credit.Load()
		if have < cost && (have <= 0 || have < f.brim.Load()) {
			return false
		}
		if f.credit.CompareAndSwap(have, have-cost) {
			return true
		}
	}
}

// borrow takes cost from a credit that does not cover it, for a client within its
// equal part: the further beyond it a client is, the less. What it takes the others
// wait for.
func (f *flow) borrow(who subject, cost int64) bool {
	m := f.meter.Load()
	if m == nil {
		return false
	}
	key := clientKey(f.salt, who.client)
	x := m.pressure(key, cost)
	room := int64(min(1, spare(x)/(1-ahead)) * float64(max(m.room.Load(), burst*cost)))
	for {
		have := f.credit.Load()
		if have-cost < -room && (have <= 0 || have < f.brim.Load()) {
			if x < 1 {
				m.charge(key, cost)
			}
			return false
		}
		if f.credit.CompareAndSwap(have, have-cost) {
			return true
		}
	}
}

// behind reports whether an earlier request of the same line may be held: later
// ones must queue behind it. It may be wrong in saying so.
func (f *flow) behind(rt *route, who subject) bool {
	if f.held.Load() == 0 {
		return false
	}
	w := f.waiters.Load()
	return w != nil && w[f.line(rt, who)%waiterBits].Load() > 0
}

// wait estimates when the share lets cost pass, in nanoseconds. It needs no lock.
func (f *flow) wait(cost, queued int64) int64 {
	rate := math.Float64frombits(f.rate.Load())
	missing := units(queued + cost - min(f.credit.Load(), cost))
	if !(rate > 0) {
		return int64(config.DefaultMaxWait)
	}
	return int64(min(max(0, missing/rate), 60) * 1e9)
}

// advance brings controller and pacer up to now. The flow is locked.
func (f *flow) advance(e *Engine, now int64) {
	if f.gone() {
		f.takeLate()
		return
	}
	f.listen(e)
	at := e.seconds(now)
	if !f.begun {
		f.begun, f.at = true, at
	}
	h := max(0, at-f.at)
	f.at = max(f.at, at)
	if m := e.member.Load(); m.version != f.version {
		f.configure(e, m)
	}
	left := f.credit.Load()
	passed := f.published - left
	f.published = left
	f.sum.demand += passed
	f.sum.served += passed
	turned := f.turned.Swap(0)
	f.recent = f.recent/2 + passed + turned
	f.refuse(turned)
	f.bypass(f.bypassed.Swap(0))
	if passed != 0 || f.pending > 0 {
		f.seen(at)
	}
	f.pacer.Charge(units(passed))
	released := f.ctl.Step(h, units(passed)+f.pending, f.others())
	f.pending = 0
	f.pacer.Advance(0, f.ctl.Rate())
	f.pacer.Add(released)
	f.rate.Store(math.Float64bits(f.ctl.Rate()))
	f.measure(h)
	f.fade(h)
	f.reconcile()
}

// fresh is for how long a demand that begins again after as long a rest counts as new,
// seconds.
const fresh = 1

// seen notes that something arrived.
func (f *flow) seen(at float64) {
	if at-f.lastSeen > fresh {
		f.beganAt = at
	}
	f.lastSeen = at
}

// measure lets the meter of clients follow, and makes one when clients compete.
func (f *flow) measure(h float64) {
	m := f.meter.Load()
	switch {
	case m != nil && !m.worn():
		m.advance(h, f.ctl.Rate()*f.slack())
		m.room.Store(int64(2 * f.ctl.Params().Bucket * unit))
	case m != nil, f.limited, f.q != nil && f.q.eligible > 0:
		f.meter.Store(newMeter())
	}
}

// metered counts a client's request in the meter, if there is one.
func (f *flow) metered(who subject, cost int64) {
	if m := f.meter.Load(); m != nil {
		m.charge(clientKey(f.salt, who.client), cost)
	}
}

// corrected tells the meter that a client's requests have cost so much more than it
// was told, or less.
func (f *flow) corrected(client string, extra int64) {
	m := f.meter.Load()
	switch {
	case m == nil:
	case extra > 0:
		m.charge(clientKey(f.salt, client), extra)
	default:
		m.repay(clientKey(f.salt, client), -extra)
	}
}

// others is what the controller must know of the other replicas. Who is absent is the
// same for all flows, also for one that nobody claims.
func (f *flow) others() drc.Sums {
	s := f.sums
	s.Absent = f.absent
	return s
}

// fade lets the virtual backlog of a flow without a queue go, at 5/s. What has
// passed ahead of its release is owed, and does not fade.
func (f *flow) fade(h float64) {
	const kd = 5 // 1/s
	if !f.policing() {
		return
	}
	if virtual := f.ctl.Backlog() - max(0, -f.pacer.Credit()); virtual > 0 {
		f.ctl.Remove(virtual * h * kd / (1 + h*kd))
	}
}

// refuse counts demand that was turned away: it arrived, and is no backlog. A
// step of no length takes it into the demand estimate and releases nothing.
func (f *flow) refuse(cost int64) {
	if cost == 0 {
		return
	}
	f.seen(f.at)
	f.limited = true
	f.sum.demand += cost
	f.sum.rejected += cost
	if f.policing() {
		f.pending += units(cost)
		return
	}
	f.phantom(cost)
}

// policing reports whether the flow has no queue. Its controller then keeps what
// is turned away as a virtual backlog that fades: it keeps the enzyme at work,
// and what that releases is credit. Without it the enzyme, which recharges in
// proportion to what is spent, would never reach its rate.
func (f *flow) policing() bool { return f.queueing.Law == config.Police }

// bypass counts demand that passed without asking.
func (f *flow) bypass(cost int64) {
	if cost == 0 {
		return
	}
	f.seen(f.at)
	f.sum.demand += cost
	f.sum.served += cost
	f.phantom(cost)
}

func (f *flow) phantom(cost int64) {
	f.ctl.Step(0, units(cost), f.others())
	f.ctl.Remove(units(cost))
}

// reconcile holds the flow's law, S = waiting − released and unsent, against
// rounding, clamped credit after a stalled ticker, and requests that left.
func (f *flow) reconcile() {
	const rounding = 1e-9
	if f.policing() && (f.q == nil || f.q.eligible == 0) {
		return
	}
	waiting := 0.0
	if f.q != nil {
		waiting = units(f.q.eligibleCost)
	}
	want := max(0, waiting-f.pacer.Credit())
	have := f.ctl.Backlog() + f.pending
	switch {
	case have > want+rounding:
		excess := have - want
		out := min(excess, f.pending)
		f.pending -= out
		f.ctl.Remove(excess - out)
	case have < want-rounding:
		f.pending += want - have
	}
}

// publish offers the credit of now. It adds the difference, so that what the
// fast path takes meanwhile is not lost.
func (f *flow) publish() {
	if f.gone() {
		return
	}
	offer := int64(0)
	if f.q == nil || f.q.eligible == 0 {
		offer = int64((f.ctl.Free() + f.pacer.Credit()) * unit)
		if !f.policing() { // there clients may overdraw it, and repay it
			offer = max(0, offer)
		}
	}
	f.credit.Add(offer - f.published)
	f.published = offer
	f.brim.Store(int64(0.9 * f.full() * unit))
	if f.q != nil {
		f.eligible.Store(int32(f.q.eligible))
		f.held.Store(int32(f.q.held))
	}
}

// full is the most credit that the flow can have. Without a queue the virtual
// backlog takes all free enzyme under overload, and pacing alone is left.
func (f *flow) full() float64 {
	b := f.ctl.Params().Bucket
	if f.policing() {
		return min(b, f.pacer.Cap())
	}
	return b
}

// configure gives the controller its share and membership.
func (f *flow) configure(e *Engine, m *membership) {
	f.version, f.absent = m.version, m.absent
	f.ctl.Configure(m.flow(f.vmax, e.period))
	f.isolate(m)
}

// isolate puts the stricter of partition and lost shares in force.
func (f *flow) isolate(m *membership) {
	mode := isolations[m.isolation]
	if f.expired && mode == drc.Connected {
		mode = drc.Alone
	}
	if mode != f.isolated {
		f.isolated = mode
		f.ctl.Isolate(mode, -1)
	}
}

// listen takes in what the others claimed last of the flow.
func (f *flow) listen(e *Engine) {
	if h := e.heard.Load(); h.version != f.heard {
		f.heard, f.sums = h.version, h.flows[f.key]
	}
}

// queue returns the flow's queue, made when first needed.
func (f *flow) queue() *queue {
	if f.q == nil {
		f.q = newQueue(f.generation)
		f.waiters.Store(new([waiterBits]atomic.Int32))
	}
	return f.q
}

// quiet reports whether the controller rests: ticking it would change nothing
// that matters.
func (f *flow) quiet(m *membership) bool {
	if f.gone() {
		return true
	}
	waits := f.q != nil && f.q.len() > 0 || f.told || f.pending != 0 || f.at-f.lastSeen <= 1+2*m.lag
	return !waits && (f.vmax <= 0 || f.ctl.Want() < f.trace() && f.ctl.Free() > 0.98*f.ctl.Params().Bucket)
}

// trace is the claim that is not worth announcing, cost units/s.
func (f *flow) trace() float64 { return min(0.02, 0.001*f.vmax) }
