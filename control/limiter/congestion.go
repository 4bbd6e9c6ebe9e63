package limiter

import (
	"math"
	"time"

	"github.com/titrate/titrate/control/aqm"
)

// law is the AQM in force.
func (f *flow) law() aqm.Law {
	switch f.queueing.Law {
	case DropTail:
		return &f.tail
	case CoDel:
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

// arrival describes a request to the AQM. A client is greedy when it has more
// than 1.5 of the fair part of a queue that others wait in too.
func (f *flow) arrival(e *Engine, s *sub, now, cost int64) aqm.Arrival {
	q := f.q
	a := aqm.Arrival{
		Now: e.seconds(now), Cost: units(cost), Queued: units(q.eligibleCost),
		Rand: e.uniform(&f.random),
	}
	if s != nil && q.clients() > 1 {
		a.Greedy = 2*s.eligibleCost*int64(q.clients()) > 3*q.eligibleCost
	}
	return a
}

// manage lets the AQM see the queue.
func (f *flow) manage() {
	c0 := f.ctl.Rate()
	if f.q == nil || f.aqmAt != 0 && f.at-f.aqmAt < aqm.Interval(c0) {
		return
	}
	f.heed(f.at-f.aqmAt, c0)
	f.aqmAt = f.at
	f.law().Step(f.at, units(f.q.eligibleCost), c0, float64(max(1, f.q.clients())))
}

// heed chooses what the AQM does to those it picks. Clients that slow down when
// marked are marked. When nearly everybody has been marked for a second and the
// queue is still well beyond its target, they don't heed marks: then the same law
// rejects, until it has hardly had to for as long.
func (f *flow) heed(h, c0 float64) {
	const patience = 1 // s
	p := f.vsd.Probability()
	if f.queueing.Law == CoDel {
		p = 0
		if f.codel.Hitting() {
			p = 1
		}
	}
	cooperative := f.vsd.Mode == aqm.Cooperative
	switch {
	case cooperative && p > 0.9 && units(f.q.eligibleCost) > 1.5*c0*f.vsd.Delay,
		!cooperative && p < 0.02:
		f.doubt += min(h, 0.2)
	default:
		f.doubt = 0
	}
	if f.doubt < patience {
		return
	}
	f.doubt = 0
	if cooperative {
		f.vsd.Mode, f.codel.Mode = aqm.DropMode, aqm.DropMode
	} else {
		f.vsd.Mode, f.codel.Mode = aqm.Cooperative, aqm.Cooperative
	}
}

// judge notes that the tenant stage limits the flow: its oldest request in turn
// has waited for longer than the delay target.
func (f *flow) judge(now int64) {
	if i := f.q.turn(); i != nobody && !f.limited {
		f.limited = now-f.q.entries[i].since > int64(f.queueing.DelayTarget)
	}
}

// leave asks the law about the request whose turn it is; true if it was discarded,
// unserved. A law that acts at the head of the queue does so here.
func (e *Engine) leave(f *flow, i int32, now int64, out []Event) ([]Event, bool) {
	en := &f.q.entries[i]
	waited := now - en.since
	switch f.law().Depart(f.at, units(f.q.eligibleCost-en.cost), float64(waited)*1e-9) {
	case aqm.Mark:
		en.mark = true
	case aqm.Drop:
		o := f.rejected(TenantShare, en.cost, f.q.eligibleCost-en.cost)
		o.Waited = time.Duration(waited)
		f.sum.rejected += en.cost
		f.limited = true
		out = append(out, f.event(en, o))
		e.withdraw(f, i, now)
		return out, true
	}
	return out, false
}
