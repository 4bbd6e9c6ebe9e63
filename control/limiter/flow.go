package limiter

import (
	"math"
	"sync/atomic"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/drc"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter/internal/fairness"
	"github.com/titrate/titrate/control/limiter/internal/hash"
	"github.com/titrate/titrate/control/limiter/internal/lock"
	"github.com/titrate/titrate/control/limiter/internal/members"
	"github.com/titrate/titrate/control/limiter/internal/queue"
	"github.com/titrate/titrate/control/pacing"
)

// flow is a tenant's traffic to one pool: the tenant stage. It has two halves. Requests
// use the first without a lock. The second is guarded by mu; advance brings it up to a
// time, and publish offers to the first half what may pass until it advances again.
//
// The controller decides how much may pass. Between two advances the flow offers credit:
// free enzyme, and what pacing has left. What requests took of the credit is the
// controller's arrival at the next advance.
//
//	S = cost that waits − cost released or drawn, and not yet sent     at each advance
type flow struct {
	// What each request changes is together in the first 56 bytes. With the 8 bytes that
	// Go's allocator puts before them they are one line of the processor's cache. With
	// two lines a decision takes a tenth longer on two cores that share a flow.
	credit credit
	held   atomic.Pointer[heldCounts] // once there was a queue
	active atomic.Bool                // in the ticker's list
	counts counters                   // its first field counts what is admitted at once

	tenant, pool string
	salt         hash.State                     // of the clients' hashes within the flow
	meter        atomic.Pointer[fairness.Meter] // once something was refused or had to wait
	flight       atomic.Pointer[Flight]         // once the pool was adaptive
	unused       *unused                        // of the pool
	belowMax     unused                         // of the quota's max, beyond the share

	place place   // guarded by Engine.names
	list  listing // guarded by Engine.work

	mu     lock.Mutex[lock.Flow] // guards what follows
	terms  terms
	pace   pace
	law    law
	queue  *flowQueue
	report reporting
}

// terms are the numbers that configuration, shares and the other replicas give a flow.
type terms struct {
	key        uint64  // its name in claims and sums
	unmeasured bool    // it has no lease
	demand     float64 // by its lease, of all replicas together, cost units/s
	vmax       float64 // the share of all replicas together, cost units/s
	mode       config.Mode
	blocked    bool // nothing may pass: the quota's max is 0
	queueing   config.Queue
	expired    bool // SafeRate in force
	isolated   drc.Isolation
	members    uint32 // version of the view that the controller is configured for
	absent     float64
	sums       drc.Sums
	sumsAt     uint64             // version of the sums
	told       exchange.FlowClaim // announced last; key 0: nothing
}

// pace is the controller and what it has to know of the time since its last step.
type pace struct {
	controller drc.Controller
	pacer      pacing.Pacer
	begun      bool
	at         float64 // time of the last advance, seconds
	published  int64   // credit as last offered, fixed point
	recent     int64   // cost that recently came without the lock, halved at each advance
	pending    float64 // arrived since the last step and waiting
	lastSeen   float64 // time of the last arrival
	passed     int64   // cost since the last step, of the flow's share, fixed point
	beyond     float64 // cost passed beyond the measured demand, and not charged yet
	drawn      int64   // of the unused capacity, for what waits, fixed point
	demandAt   float64 // when the demand began after a rest
}

// others returns the controller's sums over the other replicas. The absent weight is the
// same for all flows, also for a flow that no other replica claims.
func (t *terms) others() drc.Sums {
	s := t.sums
	s.Absent = t.absent
	return s
}

// policing reports whether the flow has no queue. Its controller then keeps what is
// turned away as a virtual backlog that fades: it keeps the enzyme at work, and what that
// releases is credit. Without it the enzyme, which recharges in proportion to what is
// spent, would never reach its rate.
func (t *terms) policing() bool { return t.queueing.Law == config.Police }

// advance brings controller and pacer up to now. The flow is locked.
func (f *flow) advance(e *Engine, now int64) {
	if f.gone() {
		f.takeLate()
		return
	}
	f.lookUpSums(e)
	p, at := &f.pace, e.seconds(now)
	if !p.begun {
		p.begun, p.at = true, at
	}
	h := max(0, at-p.at)
	p.at = max(p.at, at)
	if m := e.member.Load(); m.Version != f.terms.members {
		f.configure(e, m)
	}
	f.takePassed(at)
	released := p.controller.Step(h, p.pending, f.terms.others())
	p.pending = 0
	p.pacer.Advance(0, p.controller.Rate())
	p.pacer.Add(released)
	f.credit.rate.Store(math.Float64bits(p.controller.Rate()))
	f.advanceMeter(h)
	f.fade(h)
	f.oweUnused(e.member.Load(), now, h)
	f.drawUnused(e.member.Load(), now)
	f.reconcile()
}

// takePassed takes what came without the lock since the last advance into the totals and
// into what arrives at the controller.
func (f *flow) takePassed(at float64) {
	p := &f.pace
	left := f.credit.amount.Load()
	passed := p.published - left
	p.published = left
	f.report.sum.demand += passed
	f.report.sum.served += passed
	turned := f.counts.turned.Swap(0)
	p.recent = p.recent/2 + passed + turned
	f.countRefused(turned)
	f.countBypassed(f.counts.bypassed.Swap(0))
	if passed != 0 || p.pending > 0 {
		p.seen(at)
	}
	p.pacer.Charge(units(passed))
	p.passed += passed
	p.pending += units(passed)
}

// newDemand is the rest, in seconds, after which a demand counts as new, and for how long it does.
const newDemand = 1

// seen notes that something arrived.
func (p *pace) seen(at float64) {
	if at-p.lastSeen > newDemand {
		p.demandAt = at
	}
	p.lastSeen = at
}

// countRefused counts demand that was turned away: it arrived, and is no backlog.
func (f *flow) countRefused(cost int64) {
	if cost == 0 {
		return
	}
	f.pace.seen(f.pace.at)
	f.report.limited = true
	f.report.sum.demand += cost
	f.report.sum.rejected += cost
	if f.terms.policing() {
		f.pace.pending += units(cost)
		return
	}
	f.measure(cost)
}

// countBypassed counts demand that passed without credit.
func (f *flow) countBypassed(cost int64) {
	if cost == 0 {
		return
	}
	f.pace.seen(f.pace.at)
	f.report.sum.demand += cost
	f.report.sum.served += cost
	f.measure(cost)
}

// measure has the controller measure cost as demand: a step of no length takes it into
// the estimate and releases nothing.
func (f *flow) measure(cost int64) {
	f.pace.controller.Step(0, units(cost), f.terms.others())
	f.pace.controller.Remove(units(cost))
}

// fade lets the virtual backlog of a flow without a queue go, at 5/s. What has passed
// ahead of its release is owed, and does not fade.
func (f *flow) fade(h float64) {
	const kd = 5 // 1/s
	if !f.terms.policing() {
		return
	}
	c := &f.pace.controller
	if virtual := c.Backlog() - max(0, -f.pace.pacer.Credit()); virtual > 0 {
		c.Remove(virtual * h * kd / (1 + h*kd))
	}
}

// reconcile holds the flow's law, S = waiting − released and unsent, against rounding,
// clamped credit after a stalled ticker, and requests that left.
func (f *flow) reconcile() {
	const rounding = 1e-9
	if f.terms.policing() && f.eligible() == 0 {
		return
	}
	p := &f.pace
	want := max(0, units(f.eligibleCost()-p.drawn)-p.pacer.Credit())
	have := p.controller.Backlog() + p.pending
	switch {
	case have > want+rounding:
		excess := have - want
		out := min(excess, p.pending)
		p.pending -= out
		p.controller.Remove(excess - out)
	case have < want-rounding:
		p.pending += want - have
	}
}

// publish offers the credit of now. It adds the difference, so that what the other
// threads take meanwhile is not lost.
func (f *flow) publish() {
	if f.gone() {
		return
	}
	p, offer := &f.pace, int64(0)
	if f.eligible() == 0 {
		offer = int64((p.controller.Free() + p.pacer.Credit()) * unit)
		if !f.terms.policing() { // there clients may overdraw it, and repay it
			offer = max(0, offer)
		}
	}
	f.credit.amount.Add(offer - p.published)
	p.published = offer
	f.credit.whole.Store(int64(0.9 * f.wholeCredit() * unit))
	if f.queue != nil {
		f.credit.waiting.Store(int32(f.queue.Eligible()))
		f.held.Load().requests.Store(int32(f.queue.Held()))
	}
}

// wholeCredit is the most credit that the flow can have. Without a queue the virtual
// backlog takes all free enzyme under overload, and pacing alone is left.
func (f *flow) wholeCredit() float64 {
	b := f.pace.controller.Params().Bucket
	if f.terms.policing() {
		return min(b, f.pace.pacer.Cap())
	}
	return b
}

// eligible is the number of requests that wait for the share, eligibleCost their cost,
// and waits the number of all requests that wait.
func (f *flow) eligible() int {
	if f.queue == nil {
		return 0
	}
	return f.queue.Eligible()
}

func (f *flow) eligibleCost() int64 {
	if f.queue == nil {
		return 0
	}
	return f.queue.EligibleCost()
}

func (f *flow) waits() int {
	if f.queue == nil {
		return 0
	}
	return f.queue.Len()
}

// obtainQueue returns the flow's queue, made when first needed.
func (f *flow) obtainQueue() *flowQueue {
	if f.queue == nil {
		f.queue = queue.New[waiting, holding](f.place.generation)
		f.held.Store(new(heldCounts))
	}
	return f.queue
}

// configure gives the controller its share and membership.
func (f *flow) configure(e *Engine, m *members.View) {
	f.terms.members, f.terms.absent = m.Version, m.Absent
	f.pace.controller.Configure(controllerParams(m, f.terms.vmax, e.settings.period, f.terms.policing()))
	f.isolate(m)
}

// isolate puts the stricter of partition and lost shares in force.
func (f *flow) isolate(m *members.View) {
	mode := isolations[m.Isolation]
	if f.terms.expired && mode == drc.Connected {
		mode = drc.Alone
	}
	if mode != f.terms.isolated {
		f.terms.isolated = mode
		f.pace.controller.Isolate(mode, -1)
	}
}

// lookUpSums takes in what the others claimed last of the flow.
func (f *flow) lookUpSums(e *Engine) {
	if version := e.heard.version.Load(); version != f.terms.sumsAt {
		f.terms.sumsAt, f.terms.sums = version, e.heard.get(f.terms.key)
	}
}

// isQuiet reports whether the controller rests: stepping it would change nothing that
// matters.
func (f *flow) isQuiet(m *members.View) bool {
	if f.gone() {
		return true
	}
	p := &f.pace
	if f.waits() > 0 || f.terms.announced() || p.pending != 0 || p.at-p.lastSeen <= 1+2*m.Lag {
		return false
	}
	return f.terms.vmax <= 0 ||
		p.controller.Want() < f.terms.trace() && p.controller.Free() > 0.98*p.controller.Params().Bucket
}

// announced reports whether the flow is claimed, so that the end must be announced.
func (t *terms) announced() bool { return t.told.Key != 0 }

// trace is the claim that is not worth announcing, cost units/s.
func (t *terms) trace() float64 { return min(0.02, 0.001*t.vmax) }

// controllerParams returns the parameters of the controller of a flow, which polices or lets
// requests wait.
func controllerParams(m *members.View, rate, period float64, polices bool) drc.Params {
	return drc.Params{
		Rate: rate, Weight: m.Weight, TotalWeight: m.Total, Replicas: m.Replicas,
		Guarantee: drc.DefaultGuarantee, Lag: m.Lag, Period: period,
		Bucket: Bucket(rate/m.Replicas, polices),
	}
}

// isolations are the controller's names of the states of isolation.
var isolations = [...]drc.Isolation{
	exchange.Connected: drc.Connected, exchange.Frozen: drc.Frozen, exchange.Split: drc.Split,
	exchange.Alone: drc.Alone,
}
