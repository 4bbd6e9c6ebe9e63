package limiter

import (
	"math"
	"time"

	"github.com/titrate/titrate/control/aqm"
	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/limiter/internal/fairness"
	"github.com/titrate/titrate/control/limiter/internal/hash"
	"github.com/titrate/titrate/control/limiter/internal/members"
	"github.com/titrate/titrate/control/limiter/internal/queue"
)

// law is the queue's law of one flow. It has the AQM in force, and what it must know to
// mark or refuse requests of clients that ask for more than their equal part.
type law struct {
	vsd       aqm.VSD
	tail      aqm.DropTail
	codel     aqm.CoDel
	steppedAt float64 // seconds
	lateAt    float64 // when a request was last refused because it would have waited for too long
	frontRate float64 // rate at which requests join the front of the queue, cost units/s
	frontCost int64   // cost that has since the rate was last measured, fixed point
	doubt     float64 // seconds for which the AQM's mode has looked wrong
	random    uint64
}

// inForce is the AQM of a law.
func (l *law) inForce(by config.Law) aqm.Law {
	switch by {
	case config.DropTail:
		return &l.tail
	case config.CoDel:
		return &l.codel
	}
	return &l.vsd
}

// setTarget gives every AQM its delay target, in seconds. CoDel's window must span the
// time in which clients react, which includes the wait itself; its buffer is the queue's
// MaxRequests.
func (l *law) setTarget(delay float64) {
	l.vsd.Delay, l.tail.Delay = delay, delay
	l.codel.Delay, l.codel.Window, l.codel.Buffer = delay, max(0.1, 2*delay), math.Inf(1)
}

const (
	// shortPatience is the longest wait that a request may begin, in delay targets: what
	// would take longer is refused when it comes.
	shortPatience = 1.15
	// longPatience is the same while clients slow down when marked: marks hold the queue
	// then, and a refusal would cost the client a pause.
	longPatience = 2.25
	// overdue is the wait that a request at the back may have at its turn, in the longest
	// that it may begin. What is above 1 is for what was not known when it came.
	overdue = 1.3
	// backPressure is the pressure from which on a client waits at the back: clients that
	// are about at their equal part, which is 1, take turns with the others there.
	backPressure = 0.75
	// leastTarget is the number of requests of its size for which the delay target lasts in a
	// small share, where chance alone makes as many wait. mostTarget is the most to which the
	// target is stretched for that, in targets.
	leastTarget, mostTarget = 2.6, 1.5
	// burst is the number of requests of a client that may come together by chance.
	burst = 3
)

// applyLaw decides whether a request that has to wait for the share joins the queue, and
// where. A client within its equal part waits in front, where the law does not pick; of
// the others the law picks, the more the further beyond it they are. While clients slow
// down when marked fair turns are enough: all wait at the back.
func (f *flow) applyLaw(e *Engine, c *call, line *queue.Line[holding]) ruling {
	key := hash.Client(f.salt, c.client)
	m := f.meter.Load()
	if m == nil {
		m = fairness.New()
		f.meter.Store(m)
	}
	pressure := m.Pressure(key, c.cost)
	r := ruling{passage: mustWait, class: queue.Front}
	if pressure >= backPressure || f.isCooperative() {
		r.class = queue.Back
	}
	long, late := f.expectedDelay(line, r.class, pressure, c.cost, f.prospect(e.member.Load()))
	if late {
		f.law.lateAt = f.pace.at
		if pressure < 1 { // other clients are within their parts, too: find out who asks for more
			m.Charge(key, c.cost)
		}
		return f.turnAway(TenantShare, c.cost)
	}
	switch f.law.inForce(f.terms.queueing.Law).Arrive(f.arrival(e, c, line, pressure)) {
	case aqm.Drop:
		return f.turnAway(TenantShare, c.cost)
	case aqm.Mark:
		r.mark = true
	}
	r.mark = r.mark || long && f.isCooperative()
	if r.class == queue.Front {
		f.law.frontCost += c.cost
	}
	m.Charge(key, c.cost)
	return r
}

// expectedDelay reports whether a request that begins to wait now would wait for longer
// than the delay target (long), and for longer than it may (late). A client that obeys
// marks gets one for long. Ahead of it is what waits in front. At the back turns are fair.
// By its turn each client will have been served as much as its own client, of what waits or
// will come. They are served from what the front leaves of the rate. A request with nothing
// ahead may wait.
func (f *flow) expectedDelay(
	line *queue.Line[holding], class queue.Class, pressure float64, cost int64, rate float64,
) (long, late bool) {
	q, clients := f.queue, f.meter.Load().Clients()
	total := q.FrontCost() + cost
	if class == queue.Back {
		if clients > 1 { // who is alone had the front, too
			rate = max(rate-f.law.frontRate, rate/4)
		}
		own, turns := cost, int64(q.Clients())
		if line != nil && line.Eligible > 0 {
			own += line.EligibleCost - line.FrontCost // the rest is in total
		} else {
			turns++
		}
		total = max(total+own-cost, min(turns, math.MaxInt64/own)*own)
	}
	if total == cost {
		return false, false
	}
	target := f.terms.queueing.DelayTarget.Seconds()
	most := room(rate, target, f.patience(), units(cost), clients, pressure, f.roomAtEase())
	ahead := units(total) - max(0, units(f.spendable()))
	return ahead > rate*stretched(target, units(cost), rate), ahead > most
}

// prospect is the rate that a request which begins to wait can count on, cost units/s. It
// is the rate in force. It is at least the equal part of a gateway while its demand is new
// and the others have not made room yet.
func (f *flow) prospect(m *members.View) float64 {
	rate := f.pace.controller.Rate()
	if f.pace.at-f.pace.demandAt < newDemand {
		rate = max(rate, f.terms.vmax/m.Replicas)
	}
	return rate
}

// patience is the longest wait that a request may begin, in targets.
func (f *flow) patience() float64 {
	if f.isCooperative() {
		return longPatience
	}
	return shortPatience
}

// roomAtEase returns the number of requests that a client well within its equal part may have
// ahead. Drop tail has its own bound.
func (f *flow) roomAtEase() float64 {
	if f.terms.queueing.Law == config.DropTail {
		return 0
	}
	return roomAtEase
}

// isCooperative reports whether marks ask clients to send less, and clients do so as far as
// is known.
func (f *flow) isCooperative() bool {
	return f.terms.queueing.Law != config.DropTail && f.law.vsd.Mode == aqm.Cooperative
}

// arrival describes a request to the AQM: the less its client is beyond its equal part,
// the less likely it is to be picked. The law of one within it sees no queue. A client is
// greedy when it has more than 1.5 of the fair part of a queue that others wait in, too.
func (f *flow) arrival(e *Engine, c *call, line *queue.Line[holding], pressure float64) aqm.Arrival {
	q := f.queue
	a := aqm.Arrival{Now: e.seconds(c.now), Cost: units(c.cost), Rand: 1}
	if pressure < 1 {
		return a
	}
	a.Queued, a.Rand = units(q.EligibleCost()), e.uniform(&f.law.random)/fairness.Excess(pressure)
	if line != nil && q.Clients() > 1 {
		a.Greedy = 2*float64(line.EligibleCost)*float64(q.Clients()) > 3*float64(q.EligibleCost())
	}
	return a
}

// slack returns the factor on the rate at which clients get their equal parts back.
func (f *flow) slack() float64 {
	return slack(f.pace.controller.Rate(), f.terms.queueing.DelayTarget.Seconds(), float64(f.eligible()),
		units(f.eligibleCost()))
}

// stepLaw lets the AQM see the queue.
func (f *flow) stepLaw(e *Engine) {
	l, at := &f.law, f.pace.at
	capacity := f.prospect(e.member.Load())
	if f.queue == nil || l.steppedAt != 0 && at-l.steppedAt < aqm.Interval(capacity) {
		return
	}
	h := at - l.steppedAt
	f.chooseMode(h, capacity)
	l.measureFront(h)
	l.steppedAt = at
	queued, clients := units(f.queue.EligibleCost()), float64(max(1, f.queue.Clients()))
	l.inForce(f.terms.queueing.Law).Step(at, queued, capacity, clients)
}

// chooseMode chooses what the AQM does to those it picks. Clients that slow down when
// marked are marked. When the queue has for a while been longer than marks would leave
// it, they do not slow down. Then the same law rejects, until it has hardly had to for
// some seconds.
func (f *flow) chooseMode(h, capacity float64) {
	const (
		doubted = 0.5 // s until clients are taken not to slow down when marked, or to do so
		recent  = 0.2 // s since a request was last refused because it would wait too long
		calm    = 2   // s since then
	)
	l, at := &f.law, f.pace.at
	cooperative := f.isCooperative()
	p := l.vsd.Probability()
	if f.terms.queueing.Law == config.CoDel {
		p = 0
		if l.codel.Hitting() {
			p = 1
		}
	}
	isLong := units(f.queue.EligibleCost()) > shortPatience*capacity*l.vsd.Delay
	switch {
	case cooperative && (isLong || at-l.lateAt < recent), !cooperative && p < 0.02 && at-l.lateAt > calm:
		l.doubt += min(h, 0.2)
	default:
		l.doubt = max(0, l.doubt-h)
	}
	if l.doubt < doubted {
		return
	}
	l.doubt = 0
	mode := aqm.Cooperative
	if cooperative {
		mode = aqm.DropMode
	}
	l.vsd.Mode, l.codel.Mode = mode, mode
}

// measureFront measures the rate of the front, over a second.
func (l *law) measureFront(h float64) {
	if h > 0 {
		l.frontRate += (units(l.frontCost) - l.frontRate*h) / (1 + h)
		l.frontCost = 0
	}
}

// longestWait is the longest wait that a request may have had at its turn while others wait,
// in seconds.
func (f *flow) longestWait(i int32) float64 {
	pressure, cost := 2.0, f.queue.Entry(i).Cost
	if m := f.meter.Load(); m != nil {
		pressure = m.Pressure(hash.Client(f.salt, f.queue.LineOf(i).Client), cost)
	}
	target := f.terms.queueing.DelayTarget.Seconds()
	return longestWait(f.pace.controller.Rate(), target, f.patience(), units(cost), pressure, f.roomAtEase())
}

// noteLimited notes that the tenant stage limits the flow: the request whose turn it is
// has waited for longer than the delay target.
func (f *flow) noteLimited(now int64) {
	if i := f.queue.Head(); i != queue.Nobody && !f.report.limited {
		f.report.limited = now-f.queue.Entry(i).Since > int64(f.terms.queueing.DelayTarget)
	}
}

// discardLate asks the law about the request whose turn it is; true if it was discarded,
// unserved. A law that acts at the head of the queue does so here. What has waited for too
// long after all, since the share was cut or the front had a burst, makes room for what has
// not, if anything else waits. That of a client within its part may have waited for longer.
// Nothing is discarded in front.
func (e *Engine) discardLate(f *flow, i int32, now int64, out []Event) ([]Event, bool) {
	en := f.queue.Entry(i)
	if en.Class == queue.Front {
		return out, false
	}
	waited := now - en.Since
	eligible := now - en.Deadline + int64(f.terms.queueing.MaxWait)
	late := f.queue.Eligible() > 1 && float64(eligible)*1e-9 > f.longestWait(i)
	behind := f.queue.EligibleCost() - en.Cost
	verdict := f.law.inForce(f.terms.queueing.Law).Depart(f.pace.at, units(behind), float64(waited)*1e-9)
	if verdict == aqm.Mark {
		en.Request.mark = true
	}
	if verdict != aqm.Drop && !late {
		return out, false
	}
	o := f.rejected(TenantShare, en.Cost, behind)
	o.Waited = time.Duration(waited)
	f.report.sum.rejected += en.Cost
	f.report.limited = true
	out = append(out, f.event(i, o))
	e.withdraw(f, i, now)
	return out, true
}
