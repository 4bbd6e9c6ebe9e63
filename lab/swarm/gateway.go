package swarm

import (
	"math"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/drc"
	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/control/pacing"
)

// gateway is one replica's part of the flow. See limiter's flow, whose order of events
// it keeps.
type gateway struct {
	ctl       drc.Controller
	pacer     pacing.Pacer
	police    bool
	full      float64 // credit from which on the bucket counts as full
	credit    float64 // what may pass at once, as last offered
	pending   float64 // arrived since the controller was stepped
	queue     line
	law       limiter.Sole // who may wait
	announced drc.Claim    // this gateway's claim as the others received it
}

const decay = 5.0 // 1/s: of the virtual backlog of a gateway that polices

// The limiter's default queue.
var (
	delayTarget = config.DefaultDelayTarget.Seconds()
	maxWait     = config.DefaultMaxWait.Seconds()
)

func newGateway(p drc.Params, police bool) gateway {
	g := gateway{ctl: drc.New(p), police: police, law: limiter.Sole{Target: delayTarget}}
	most := g.ctl.Params().Bucket
	if police {
		most = min(most, g.pacer.Cap())
	}
	g.full = 0.9 * most
	g.credit = g.ctl.Free()
	return g
}

// step lets h seconds pass with n arrivals, up to the time now, and returns how many
// requests went on and how many were refused.
func (g *gateway) step(now, h, n float64, others drc.Sums) (passed, refused float64) {
	passed = g.admit(n)
	rest := n - passed
	if g.police {
		g.pending, refused = g.pending+rest, rest
	} else {
		g.law.Charge(passed)
		refused = g.enqueue(now, rest, others) + g.queue.expire(now-maxWait, g.queue.len)
	}
	g.pacer.Charge(passed)
	released := g.ctl.Step(h, passed+g.pending, others)
	g.pending = 0
	g.pacer.Advance(0, g.ctl.Rate())
	g.law.Advance(h, g.ctl.Rate(), g.queue.len)
	g.pacer.Add(released)
	g.decayVirtual(h)
	g.reconcile()
	if g.queue.len > 0 {
		sent, late := g.release(now)
		passed, refused = passed+sent, refused+late
		g.reconcile()
	}
	if g.credit = 0; g.queue.len == 0 {
		g.credit = max(0, g.ctl.Free()+g.pacer.Credit())
	}
	return passed, refused
}

// admit lets as many of n requests pass as the credit covers.
func (g *gateway) admit(n float64) float64 {
	if g.queue.len > 0 || n == 0 {
		return 0
	}
	passed := min(n, math.Floor(g.credit))
	g.credit -= passed
	if passed < n && g.credit > 0 && g.credit >= g.full {
		passed, g.credit = passed+1, g.credit-1
	}
	return passed
}

// enqueue lets as many of n requests wait as the law lets, and returns how many it refuses.
// Requests of a client within its part are charged also if they are refused.
func (g *gateway) enqueue(now, n float64, others drc.Sums) (refused float64) {
	if n == 0 {
		return 0
	}
	room := g.law.Room(g.ctl.Rate()) + math.Floor(g.spendable())
	wait := min(n, max(0, room-g.queue.len))
	refused = n - wait
	g.queue.push(now, wait)
	g.pending += wait
	g.law.Charge(wait)
	if refused > 0 && g.law.AtEase() {
		g.law.Charge(refused)
	}
	g.countRefused(refused, others)
	return refused
}

// spendable is the credit that waiting requests may spend.
func (g *gateway) spendable() float64 { return max(0, g.pacer.Credit()+g.ctl.Free()) }

// countRefused lets the controller see demand that was refused.
func (g *gateway) countRefused(cost float64, others drc.Sums) {
	if cost > 0 {
		g.ctl.Step(0, cost, others)
		g.ctl.Remove(cost)
	}
}

// release sends waiting requests: as many as the controller has released, and in advance as many as fit into
// the free part of the bucket. Requests that have waited too long are refused instead, except the last.
func (g *gateway) release(now float64) (sent, late float64) {
	credit := math.Floor(g.spendable() + 1e-9)
	if credit > 0 {
		late = g.queue.expire(now-g.law.LongestWait(g.ctl.Rate()), g.queue.len-1)
	}
	sent = g.queue.pop(credit)
	g.pacer.Charge(sent)
	if g.queue.len == 0 {
		g.pacer.Idle()
	} else {
		g.pacer.Take(1) // refused: the head saves for itself
	}
	return sent, late
}

// decayVirtual lets h seconds of decay pass for the virtual backlog of a gateway that polices.
func (g *gateway) decayVirtual(h float64) {
	if !g.police {
		return
	}
	if virtual := g.ctl.Backlog() - max(0, -g.pacer.Credit()); virtual > 0 {
		g.ctl.Remove(virtual * h * decay / (1 + h*decay))
	}
}

// reconcile holds the backlog against what waits and is owed.
func (g *gateway) reconcile() {
	if g.police {
		return
	}
	want := max(0, g.queue.len-g.pacer.Credit())
	if have := g.ctl.Backlog() + g.pending; have > want {
		excess := have - want
		out := min(excess, g.pending)
		g.pending -= out
		g.ctl.Remove(excess - out)
	} else {
		g.pending += want - have
	}
}

// line is a queue of requests, known by when they came.
type line struct {
	len  float64
	rows []row
}

type row struct{ at, n float64 }

func (l *line) push(now, n float64) {
	if n > 0 {
		l.rows, l.len = append(l.rows, row{now, n}), l.len+n
	}
}

// pop removes up to n from the front and returns how many.
func (l *line) pop(n float64) (taken float64) {
	for len(l.rows) > 0 && taken < n {
		k := min(n-taken, l.rows[0].n)
		taken += k
		if l.rows[0].n -= k; l.rows[0].n == 0 {
			l.rows = l.rows[1:]
		}
	}
	l.len -= taken
	return taken
}

// expire drops up to most that came before a time, and returns how many.
func (l *line) expire(before, most float64) (gone float64) {
	for len(l.rows) > 0 && l.rows[0].at < before && gone < most {
		k := min(most-gone, l.rows[0].n)
		gone += k
		if l.rows[0].n -= k; l.rows[0].n == 0 {
			l.rows = l.rows[1:]
		}
	}
	l.len -= gone
	return gone
}
