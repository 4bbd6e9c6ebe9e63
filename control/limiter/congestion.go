package limiter

import (
	"math"
	"time"

	"github.com/titrate/titrate/control/aqm"
	"github.com/titrate/titrate/control/config"
)

// law is the AQM in force.
func (f *flow) law() aqm.Law {
	switch f.queueing.Law {
	case config.DropTail:
		return &f.tail
	case config.CoDel:
		return &f.codel
	}
	return &f.vsd
}

// aim gives every law its delay target, in seconds. CoDel's window must span the
// time in which clients react, which includes the wait itself; its buffer is the
// queue's MaxRequests.
func (f *flow) aim(delay float64) {
	f.vsd.Delay, f.tail.Delay = delay, delay
	f.codel.Delay, f.codel.Window, f.codel.Buffer = delay, max(0.1, 2*delay), math.Inf(1)
}

const (
	// shortPatience is the longest wait that a request is let begin, in delay targets:
	// what would take longer is refused when it comes.
	shortPatience = 1.15
	// longPatience is the same while clients heed marks: marks hold the queue then, and
	// a refusal would cost the client a pause.
	longPatience = 2.25
	// overdue is the wait that a request at the back may have at its turn, in the longest
	// that it is let begin. What is above 1 is for what was not known when it came.
	overdue = 1.3
	// ahead is the pressure from which on a client waits at the back: those that hover
	// about their equal part, which is 1, take turns with the others there.
	ahead = 0.75
	// least is how many requests of its size the delay target lasts for in a small share,
	// where chance alone makes as many wait; longest is what it is stretched to for that
	// at most, in targets.
	least, longest = 2.6, 1.5
	// burst is how many requests may wait with that of a client well within its equal
	// part, and one more for three clients, whose bursts it may meet.
	burst = 3
)

// face lets a request that has to wait for the share face the queue and its law. A
// client within its equal part waits in front, where the law does not pick; of the
// others the law picks, the more the further beyond it they are. While clients heed
// marks fair turns are enough: all wait at the back.
func (f *flow) face(e *Engine, who subject, s *sub, now, cost int64) verdict {
	key := clientKey(f.salt, who.client)
	m := f.meter.Load()
	if m == nil {
		m = newMeter()
		f.meter.Store(m)
	}
	x := m.pressure(key, cost)
	v := verdict{Verdict: Wait, class: front}
	if x >= ahead || f.cooperative() {
		v.class = back
	}
	long, late := f.delayed(s, v.class, x, cost, f.prospect(e.member.Load()))
	if late {
		f.lateAt = f.at
		if x < 1 { // its neighbours are within their parts, too: find out who asks for more
			m.charge(key, cost)
		}
		return f.turnAway(TenantShare, cost)
	}
	switch f.law().Arrive(f.arrival(e, s, x, now, cost)) {
	case aqm.Drop:
		return f.turnAway(TenantShare, cost)
	case aqm.Mark:
		v.mark = true
	}
	v.mark = v.mark || long && f.cooperative()
	if v.class == front {
		f.fronted += cost
	}
	m.charge(key, cost)
	return v
}

// delayed reports whether a request that begins to wait now would wait for longer than
// the delay target (long: a client that obeys marks is told so), and for longer than it
// may (late). Ahead of it stands what is in front; and at the back, where turns are fair,
// each client will have been served as much as its own by then, of what is there or will
// come, from what the front leaves of the rate. A request with nothing ahead may wait.
func (f *flow) delayed(s *sub, class uint8, x float64, cost int64, rate float64) (long, late bool) {
	q := f.q
	total := q.rings[front].cost + cost
	if class == back {
		if m := f.meter.Load(); m.n > 1 { // who is alone had the front, too
			rate = max(rate-f.fore, rate/4)
		}
		own, turns := cost, int64(q.clients())
		if s != nil && s.eligible > 0 {
			own += s.eligibleCost - s.frontCost // the rest is in total
		} else {
			turns++
		}
		total = max(total+own-cost, min(turns, math.MaxInt64/own)*own)
	}
	if total == cost {
		return false, false
	}
	target := rate * f.target(cost)
	most := max(f.patience()*target, (burst+f.meter.Load().n/3)*units(cost)*spare(x))
	wait := units(total) - max(0, units(f.spendable()))
	return wait > target, wait > most
}

// prospect is the rate that a request which begins to wait can count on, cost units/s:
// what is in force, and at least the equal part of a gateway while its demand is new and
// the others have not made room yet.
func (f *flow) prospect(m *membership) float64 {
	rate := f.ctl.Rate()
	if f.at-f.beganAt < fresh {
		rate = max(rate, f.vmax/m.replicas)
	}
	return rate
}

// target is the wait that the AQM aims at, in seconds, for requests of such a cost.
func (f *flow) target(cost int64) float64 {
	target := f.queueing.DelayTarget.Seconds()
	return max(target, min(longest*target, least*units(cost)/(f.ctl.Rate()+1e-9)))
}

// patience is the longest wait that a request is let begin, in targets.
func (f *flow) patience() float64 {
	if f.cooperative() {
		return longPatience
	}
	return shortPatience
}

// cooperative reports whether clients are told by marks to send less, and heed them as
// far as is known.
func (f *flow) cooperative() bool {
	return f.queueing.Law != config.DropTail && f.vsd.Mode == aqm.Cooperative
}

// arrival describes a request to the AQM: the less its client is beyond its equal
// part, the less likely it is to be picked; the law of one within it sees no queue. A
// client is greedy when it has more than 1.5 of the fair part of a queue that others
// wait in too.
func (f *flow) arrival(e *Engine, s *sub, x float64, now, cost int64) aqm.Arrival {
	q := f.q
	a := aqm.Arrival{Now: e.seconds(now), Cost: units(cost), Rand: 1}
	if x < 1 {
		return a
	}
	a.Queued, a.Rand = units(q.eligibleCost), e.uniform(&f.random)/excess(x)
	if s != nil && q.clients() > 1 {
		a.Greedy = 2*float64(s.eligibleCost)*float64(q.clients()) > 3*float64(q.eligibleCost)
	}
	return a
}

// slack is how fast clients get their equal parts back: more slowly while more waits
// than the target. Where all ask for more than their parts, who is beyond them then
// shows, and the law holds the queue.
func (f *flow) slack() float64 {
	if f.q == nil || f.q.eligible == 0 {
		return 1
	}
	full := units(f.q.eligibleCost) / (f.ctl.Rate()*f.queueing.DelayTarget.Seconds() + 1e-9)
	return min(1.05, max(0.75, 1.5-0.5*min(full, float64(f.q.eligible)/burst)))
}

// manage lets the AQM see the queue.
func (f *flow) manage(e *Engine) {
	c0 := f.prospect(e.member.Load())
	if f.q == nil || f.aqmAt != 0 && f.at-f.aqmAt < aqm.Interval(c0) {
		return
	}
	f.heed(f.at-f.aqmAt, c0)
	f.foresee(f.at - f.aqmAt)
	f.aqmAt = f.at
	f.law().Step(f.at, units(f.q.eligibleCost), c0, float64(max(1, f.q.clients())))
}

// heed chooses what the AQM does to those it picks. Clients that slow down when
// marked are marked. When the queue has for a while been longer than marks would leave
// it, they don't heed marks: then the same law rejects, until it has hardly had to for
// some seconds.
func (f *flow) heed(h, c0 float64) {
	const (
		doubted = 0.5 // s until clients are taken not to heed marks, or to heed them
		recent  = 0.2 // s since a request was last refused because it would wait too long
		calm    = 2   // s since then
	)
	cooperative := f.cooperative()
	p := f.vsd.Probability()
	if f.queueing.Law == config.CoDel {
		p = 0
		if f.codel.Hitting() {
			p = 1
		}
	}
	switch {
	case cooperative && (units(f.q.eligibleCost) > shortPatience*c0*f.vsd.Delay || f.at-f.lateAt < recent),
		!cooperative && p < 0.02 && f.at-f.lateAt > calm:
		f.doubt += min(h, 0.2)
	default:
		f.doubt = max(0, f.doubt-h)
	}
	if f.doubt < doubted {
		return
	}
	f.doubt = 0
	if cooperative {
		f.vsd.Mode, f.codel.Mode = aqm.DropMode, aqm.DropMode
	} else {
		f.vsd.Mode, f.codel.Mode = aqm.Cooperative, aqm.Cooperative
	}
}

// foresee measures the rate of the front, over a second.
func (f *flow) foresee(h float64) {
	if h > 0 {
		f.fore += (units(f.fronted) - f.fore*h) / (1 + h)
		f.fronted = 0
	}
}

// judge notes that the tenant stage limits the flow: its oldest request in turn
// has waited for longer than the delay target.
func (f *flow) judge(now int64) {
	if i := f.q.turn(); i != nobody && !f.limited {
		f.limited = now-f.q.entries[i].since > int64(f.queueing.DelayTarget)
	}
}

// leave asks about the request whose turn it is; true if it was discarded, unserved.
// A law that acts at the head of the queue does so here. What has waited for too long
// after all, since the share was cut or the front had a burst, makes room for what has
// not, if anything else waits. Nothing is discarded in front.
func (e *Engine) leave(f *flow, i int32, now int64, out []Event) ([]Event, bool) {
	en := &f.q.entries[i]
	if en.class == front {
		return out, false
	}
	waited := now - en.since
	eligible := now - en.deadline + int64(f.queueing.MaxWait)
	late := f.q.eligible > 1 && float64(eligible)*1e-9 > f.patience()*max(overdue*f.queueing.DelayTarget.Seconds(), f.target(en.cost))
	verdict := f.law().Depart(f.at, units(f.q.eligibleCost-en.cost), float64(waited)*1e-9)
	if verdict == aqm.Mark {
		en.mark = true
	}
	if verdict != aqm.Drop && !late {
		return out, false
	}
	o := f.rejected(TenantShare, en.cost, f.q.eligibleCost-en.cost)
	o.Waited = time.Duration(waited)
	f.sum.rejected += en.cost
	f.limited = true
	out = append(out, f.event(en, o))
	e.withdraw(f, i, now)
	return out, true
}
