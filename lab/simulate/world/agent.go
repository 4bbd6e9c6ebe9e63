package world

import (
	"errors"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/applied"
	"github.com/titrate/titrate/services/agent/core"
	"github.com/titrate/titrate/services/agent/gossip/schedule"
	"github.com/titrate/titrate/services/coordinator/delivery"
)

// agent is the agent of a gateway, or the place of an agent that has ended or not yet begun.
type agent struct {
	place     int32
	name      string // also its gateway's
	life      uint32
	start     time.Duration
	end       time.Duration
	core      *core.Core   // nil: there is no agent
	peers     []peer       // by place
	stream    *core.Stream // to the coordinator; an old one unless connected
	connected bool
	receiver  *delivery.Receiver
	looked    time.Duration // at all other agents, last
	tokens    wake          // the next task for tokens
	counted   time.Duration // until then it is counted how long it ran
	paused    *pause        // nil: it runs
	resumed   time.Duration // when its last pause ended
	lastPause time.Duration // how long that was
}

// peer is the modelled memberlist's last report of another agent.
type peer struct {
	life  uint32 // 0: nothing yet
	alive bool
}

// letter is a packet on its way.
type letter struct {
	from   int32
	life   uint32 // of the sender
	packet *gossipv1.Packet
}

// time is now as an agent counts: since it began.
func (a *agent) time(w *World) time.Duration { return w.now - a.start }

// startAgent begins an agent, with the configuration of its last good snapshot.
func (w *World) startAgent(a *agent) {
	s := w.stage.Scenario
	a.name = w.stage.Cast.Gateways[a.place]
	a.life++
	a.start, a.looked, a.tokens, w.net.touched = w.now, 0, wake{}, w.now
	a.core = core.New(core.Options{Name: a.name, Site: w.site(a.place), Incarnation: uint64(w.now),
		Period: s.Gossip.Period, Everybody: s.Gossip.Everybody, Shared: s.Gossip.Shared,
		T1: s.Gossip.SplitAfter, T2: s.Gossip.ForgetAfter, ExactWithin: s.Gossip.ExactWithin})
	a.peers, a.connected, a.paused, a.resumed = make([]peer, len(w.agents)), false, nil, 0
	w.configure(a, w.configuration().Gateways)
	who := a.place
	w.planTimer(w.phase(s.Gossip.Period/2), tickAgent, who, a.life)
	w.planTimer(w.phase(s.Gossip.Period/2), gossip, who, a.life)
	w.planTimer(w.phase(exchange.ReportEvery), reportUp, who, a.life)
	w.plan(0, connect, who, a.life, nil)
}

// stopAgent ends an agent without leaving.
func (w *World) stopAgent(a *agent) {
	w.ran(a)
	a.core, a.connected, a.paused, a.end, w.net.touched = nil, false, nil, w.now, w.now
	a.life++
}

// perform performs the effects of an event at an agent.
func (w *World) perform(a *agent, e core.Effects) {
	g := &w.gateways[a.place]
	for _, f := range e.Frames {
		if g.engine != nil && f.To == g.link {
			w.deliverToGateway(g, f.Message)
		}
	}
	if len(e.Packets) > 0 {
		w.sendPackets(a, e.Packets)
	}
	if len(e.Bookings) > 0 {
		w.sendBookings(a, e.Bookings)
	}
	if e.GossipSoon {
		w.sendState(a, true)
	}
	w.planTokens(a)
}

// planTokens plans when the owners of keys here have something to do.
func (w *World) planTokens(a *agent) {
	if due := a.core.TokensDue(); due != 0 && a.tokens.sooner(a.start+due) {
		w.planTimer(a.tokens.set(max(a.start+due, w.now+1))-w.now, tickTokens, a.place, a.life)
	}
}

// tickTokens lets an agent do the due work for the keys that it owns.
func (w *World) tickTokens(a *agent) {
	a.tokens.done(w.due)
	w.perform(a, a.core.TickTokens(a.time(w)))
}

// configure gives an agent a configuration.
func (w *World) configure(a *agent, c *config.Config) {
	out, err := a.core.Configure(&applied.Configuration{Revision: c.Revision, Config: c})
	if err == nil {
		w.perform(a, out)
	}
}

// tickAgent lets time pass at an agent.
func (w *World) tickAgent(a *agent) {
	w.planNext(w.stage.Scenario.Gossip.Period/2, tickAgent, a.place, a.life)
	w.perform(a, a.core.Tick(a.time(w)))
}

// sendState sends an agent's state to the other agents, if it is due.
func (w *World) sendState(a *agent, soon bool) {
	w.updatePeers(a)
	out, _ := a.core.Round(a.time(w), soon)
	w.sendPackets(a, out)
}

func (w *World) sendPackets(a *agent, out []schedule.Outgoing) {
	letters := make([]letter, 0, len(out))
	for _, o := range out {
		w.send(a, o.Packet)
		to := &w.agents[w.place(o.To)]
		if to.core == nil {
			continue
		}
		packets := []*gossipv1.Packet{o.Packet}
		if w.Tamper != nil {
			packets = w.Tamper(a.name, o.To, o.Packet)
		}
		for _, p := range packets {
			letters = append(letters, letter{a.place, a.life, p})
			if delay, ok := w.net.carry(w.now, a.place, to.place); ok {
				delay += w.draw(w.stage.Scenario.Late.Agents)
				w.plan(delay, deliverPacket, to.place, to.life, &letters[len(letters)-1])
			}
		}
	}
}

// receivePacket gives an agent a packet. The packet is sealed for the sender's life that memberlist has reported: a
// packet of another life does not open.
func (w *World) receivePacket(a *agent, l *letter) {
	w.updatePeer(a, &w.agents[l.from])
	if a.peers[l.from].life != l.life {
		return
	}
	_, out := a.core.ReceivePackets(a.time(w), l.packet)
	w.perform(a, out)
}

// updatePeers gives an agent the modelled memberlist's reports of the others. They change for a while after an
// event, and not again before the next event.
func (w *World) updatePeers(a *agent) {
	if a.looked > w.net.touched+longest {
		return
	}
	a.looked = w.now
	for i := range w.agents {
		w.updatePeer(a, &w.agents[i])
	}
}

func (w *World) updatePeer(a, b *agent) {
	if b == a || b.life == 0 {
		return
	}
	p, life, alive := &a.peers[b.place], b.life, b.core != nil && w.net.believes(a, b, w.now) && b.answers(w.now)
	if b.core == nil { // its end takes a while to be noticed
		life, alive = b.life-1, p.alive && w.now-b.end < giveUpAfter
	}
	switch newLife := p.life != life; {
	case alive && (newLife || !p.alive):
		a.core.PeerSite(b.name, w.site(b.place))
		a.core.PeerAlive(a.time(w), b.name, "", newLife, schedule.Version)
		p.life, p.alive = life, true
	case !alive && p.alive:
		a.core.PeerFailed(a.time(w), b.name)
		p.alive = false
	}
}

// report sends the agent's report to the coordinator.
func (w *World) report(a *agent) {
	w.planNext(exchange.ReportEvery, reportUp, a.place, a.life)
	if a.connected {
		w.add(item{at: w.now + w.way(), task: takeReport, who: a.place, load: a.stream.Report(a.time(w))})
	}
}

// takeLeases gives an agent leases.
func (w *World) takeLeases(a *agent, l *controlv1.Leases) {
	if !a.connected {
		return
	}
	out, err := a.stream.Leases(a.time(w), l)
	if missed := new(applied.MissedError); errors.As(err, &missed) {
		w.lead.loop.Again(a.receiver, err.Error())
	}
	if err == nil { // else of a leader that was replaced, or leases before these are missing
		w.perform(a, out)
	}
}
