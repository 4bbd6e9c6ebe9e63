package world

import (
	"time"

	"github.com/titrate/titrate/lab/simulate/scenario"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/allocation"
	"github.com/titrate/titrate/services/coordinator/leadership"
)

// reconnectWithin is the longest time that an agent takes to find the coordinator again.
const reconnectWithin = time.Second

// coordinatorPlace is its place in the network.
const coordinatorPlace = -1

// leader is the coordinator.
type leader struct {
	loop   *leadership.Loop // nil: there is none
	epoch  int64
	series uint32 // number of the present series of rounds; rounds of earlier series are void
}

// date is now as the coordinator counts.
func (w *World) date() time.Time { return time.Unix(1_000_000_000, 0).Add(w.now) }

// way is the one-way time between coordinator and agents.
func (w *World) way() time.Duration { return max(w.stage.Scenario.Control.Delay, time.Millisecond) }

// begin starts a leadership without knowledge of demand.
func (w *World) begin(epoch int64) {
	c := &w.stage.Scenario.Control
	l := &w.lead
	l.epoch = epoch
	l.loop = leadership.New(leadership.Options{Params: allocation.Defaults(), Settle: c.Settle, Expiry: c.SoftExpiry})
	l.loop.Configure(w.configuration().Allocation)
	l.loop.Begin(w.date(), epoch, false)
	w.books.book.Opened(w.date())
	l.series++
	w.plan(0, runRound, 0, l.series, nil)
}

// configuration is the newest.
func (w *World) configuration() *scenario.Configuration { return w.stage.Scenario.InForce }

// lose ends the leadership; no other begins.
func (w *World) lose() {
	w.lead.loop = nil
	w.lead.series++
	w.sever()
}

// sever breaks the streams of agents that the coordinator is cut off from.
func (w *World) sever() {
	for i := range w.agents {
		a := &w.agents[i]
		a.connected = a.connected && w.reaches(a)
	}
}

func (w *World) reaches(a *agent) bool {
	return w.lead.loop != nil && w.net.passes(a.place, coordinatorPlace)
}

// reconnect lets agents without a stream find the coordinator.
func (w *World) reconnect() {
	for i := range w.agents {
		if a := &w.agents[i]; a.core != nil && !a.connected {
			w.plan(w.phase(reconnectWithin), connect, int32(i), a.life, nil)
		}
	}
}

// connect opens an agent's stream: it sends a hello and receives the latest state.
func (w *World) connect(a *agent) {
	if a.connected || !w.reaches(a) {
		return
	}
	a.connected = true
	stream, hello := a.core.Hello(a.time(w))
	a.stream = stream
	a.receiver = w.lead.loop.Hello(w.date(), hello)
	if newest := w.configuration().Gateways; hello.GetRevision() != newest.Revision {
		w.plan(w.way(), takeConfig, a.place, a.life, newest)
	}
	w.sendLeases(a)
	w.sendPeriods(a, true)
}

// sendLeases sends an agent the changes of its leases.
func (w *World) sendLeases(a *agent) {
	for _, m := range w.lead.loop.Next(w.date(), a.receiver) {
		w.plan(w.way(), takeLeases, a.place, a.life, m.Leases())
	}
}

func (w *World) takeReport(a *agent, r *controlv1.Report) {
	if w.reaches(a) && w.lead.loop.Report(w.date(), w.stage.Cast.Gateways[a.place], r) && a.connected {
		w.sendLeases(a)
	}
}

// round computes shares and publishes them.
func (w *World) round(series uint32) {
	l := &w.lead
	if l.loop == nil || series != l.series {
		return
	}
	w.announcePeriods()
	if l.loop.Step(w.date()) {
		for i := range w.agents {
			if a := &w.agents[i]; a.connected {
				w.sendLeases(a)
			}
		}
	}
	s := w.stage.Scenario
	w.plan(l.loop.Every(s.Control.Round, s.Gossip.Period), runRound, 0, l.series, nil)
}

// change puts the scenario's new configuration in force: at the coordinator now, at agents with the next
// message, at agents that are cut off when they are connected again.
func (w *World) change() {
	l := &w.lead
	if l.loop == nil {
		return
	}
	l.loop.Configure(w.configuration().Allocation)
	for i := range w.agents {
		if a := &w.agents[i]; a.connected {
			w.plan(w.way(), takeConfig, int32(i), a.life, w.configuration().Gateways)
		}
	}
	l.series++
	w.round(l.series)
}
