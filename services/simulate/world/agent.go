package world

import (
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/proto/link"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/mesh/pace"
	"github.com/titrate/titrate/services/agent/orders"
	"github.com/titrate/titrate/services/agent/reports"
	"github.com/titrate/titrate/services/agent/tally"
	"google.golang.org/protobuf/types/known/durationpb"
)

// agent is the process beside a gateway, or the place where one was or will be.
type agent struct {
	place  int32
	name   string // also its gateway's
	weight float64
	life   uint32
	start  time.Duration
	tally  *tally.Tally // nil: there is no agent
	orders *orders.Orders
	pace   pace.Pace
	peers  []peer // by place

	reports   *reports.Reports
	config    *config.Config
	connected bool // to the coordinator
	heart     time.Duration
	told      *exchange.Sums
}

// peer is what an agent knows of the way to another.
type peer struct {
	delay  pace.Delay
	oneWay time.Duration // of the last packet heard
	heard  time.Duration // 0: never
	sent   uint64        // packets to it
	seq    uint64        // of the last packet heard
	life   uint32        // of the other, as last heard
	unread *packet       // the latest, heard then
}

// packet is an agent's state on its way to the others.
type packet struct {
	from     int32
	life     uint32 // of the sender
	sent     time.Duration
	promise  time.Duration
	claims   bool
	replicas []*gossipv1.Replica
}

// letter is a packet to one agent.
type letter struct {
	*packet
	seq uint64
}

// time is now as an agent counts: since it began.
func (a *agent) time(w *World) time.Duration { return w.now - a.start }

// startAgent begins an agent, with the configuration of its last good snapshot.
func (w *World) startAgent(a *agent) {
	s := w.stage.Scenario
	a.name, a.weight = w.stage.Cast.Gateways[a.place], w.stage.Cast.Weights[a.place]
	a.life++
	a.start = w.now
	a.tally = tally.New(tally.Options{Period: s.Gossip.Period, T1: s.Gossip.SplitAfter, T2: s.Gossip.ForgetAfter, Incarnation: uint64(w.now)})
	a.orders, a.reports = &orders.Orders{}, reports.New()
	a.pace = pace.Pace{Period: s.Gossip.Period}
	a.peers = make([]peer, len(w.agents))
	a.config, a.connected, a.heart, a.told = w.lead.config, false, 0, nil
	who := a.place
	w.plan(w.phase(s.Gossip.Period), beatAgent, who, a.life, nil)
	w.plan(w.phase(s.Gossip.Period), gossip, who, a.life, nil)
	w.plan(w.phase(exchange.ReportEvery), reportUp, who, a.life, nil)
	w.plan(0, connect, who, a.life, nil)
}

func (a *agent) end() {
	a.tally, a.connected = nil, false
	a.life++
}

// welcome gives a new process all that is in force.
func (w *World) welcome(a *agent, g *gateway) {
	w.catchUp(a)
	a.tally.Join(a.time(w), a.name, g.generation, a.weight)
	w.apply(a)
	if _, shares := a.orders.InForce(); shares != nil {
		g.engine.SetShares(shares)
	}
	g.engine.SetSums(w.time(), a.tally.Sums(a.time(w), a.name))
}

// apply puts the agent's configuration in force at its gateway.
func (w *World) apply(a *agent) {
	if e := w.gateways[a.place].engine; e != nil && a.config != nil {
		if err := e.Apply(a.config); err != nil {
			panic("world: a configuration that was checked is refused: " + err.Error())
		}
	}
}

func (w *World) configure(a *agent, c *config.Config) {
	a.config = c
	w.apply(a)
}

// beat sends sums to the gateway while something is contended, and does what time
// brings.
func (w *World) beat(a *agent) {
	now := a.time(w)
	w.catchUp(a)
	w.plan(w.stage.Scenario.Gossip.Period, beatAgent, a.place, a.life, nil)
	if stale := a.orders.Expire(now); stale != nil {
		w.hand(a, stale)
	}
	second := now-a.heart >= link.HeartbeatEvery
	if second {
		a.heart = now
		a.tally.Sweep(now)
	}
	e := w.gateways[a.place].engine
	if e == nil {
		return
	}
	sums := a.tally.Sums(now, a.name)
	if news := a.told == nil || !tally.SameMembers(a.told, sums); news || second || a.tally.Contended(now) {
		e.SetSums(w.time(), sums)
	}
	a.told = sums
}

// hand gives shares to the gateway.
func (w *World) hand(a *agent, s *exchange.Shares) {
	if e := w.gateways[a.place].engine; e != nil {
		e.SetShares(s)
	}
}

// speak sends the state to the others if it is due.
func (w *World) speak(a *agent, poked bool) {
	now := a.time(w)
	if due, all := a.pace.Due(now, poked); due {
		w.send(a, all)
	}
}

func (w *World) send(a *agent, all bool) {
	now := a.time(w)
	p := &packet{from: a.place, life: a.life, sent: w.now, replicas: a.tally.Outgoing(now)}
	for _, r := range p.replicas {
		p.claims = p.claims || len(r.GetFlows())+len(r.GetKeys()) > 0
	}
	a.tally.SetDelay(a.delay(now))
	promise, ok := a.pace.Speak(now, p.claims, all)
	if !ok {
		return
	}
	p.promise = promise
	letters := make([]letter, len(w.agents))
	for i := range w.agents {
		to := &w.agents[i]
		if to == a || to.tally == nil || !all && !w.net.believes(a, to, w.now) {
			continue
		}
		a.peers[i].sent++
		letters[i] = letter{p, a.peers[i].sent}
		if delay, ok := w.net.carry(a.place, to.place); ok {
			w.plan(delay, hearPacket, int32(i), to.life, &letters[i])
		}
	}
}

// hear takes in a packet. Half of the way there and back is what an
// acknowledgement would have measured.
func (w *World) hear(a *agent, p *letter) {
	now := a.time(w)
	from := &a.peers[p.from]
	switch {
	case p.life < from.life:
		return // of an earlier incarnation
	case p.life > from.life: // of a new one: nothing is known of its way
		w.read(a, from)
		from.life, from.seq, from.delay = p.life, 0, pace.Delay{}
	}
	from.oneWay = w.now - p.sent
	if back := w.agents[p.from].peers; back != nil && back[a.place].heard > 0 {
		from.delay.Sample((from.oneWay + back[a.place].oneWay) / 2)
	}
	if p.claims {
		a.pace.Claims(now)
	}
	if from.seq > 0 && p.seq > from.seq {
		from.delay.Missed(p.seq-from.seq-1, a.pace.Period)
	}
	from.heard = max(now, 1)
	if p.seq > from.seq { // one that was overtaken tells nothing new
		from.seq, from.unread = p.seq, p.packet
	}
}

// read gives the tally what the latest packet says. Packets are states: one that a
// later one has overtaken before anybody asked would change nothing.
func (w *World) read(a *agent, from *peer) {
	p := from.unread
	if p == nil {
		return
	}
	from.unread = nil
	name := w.stage.Cast.Gateways[p.from]
	a.tally.Hear(from.heard, name, uint64(p.life), p.promise, p.replicas)
}

// catchUp reads all that was heard; call it before the tally is asked.
func (w *World) catchUp(a *agent) {
	for i := range a.peers {
		w.read(a, &a.peers[i])
	}
}

// delay is the largest of the peers that were heard lately.
func (a *agent) delay(now time.Duration) (d time.Duration) {
	for i := range a.peers {
		if p := &a.peers[i]; p.heard > 0 && now-p.heard < 3*pace.Idle*a.pace.Period {
			d = max(d, p.delay.Value())
		}
	}
	return d
}

// report tells the coordinator what the gateway saw.
func (w *World) report(a *agent) {
	w.plan(exchange.ReportEvery, reportUp, a.place, a.life, nil)
	if !a.connected {
		return
	}
	now := a.time(w)
	r := &controlv1.Report{Interval: durationpb.New(exchange.ReportEvery), Flows: a.reports.Take(now), Replicas: a.replicas(),
		GossipDelay: durationpb.New(a.delay(now))}
	w.agenda.add(item{at: w.now + w.way(), task: takeReport, who: a.place, load: r})
}

func (a *agent) replicas() []*controlv1.Replica {
	var out []*controlv1.Replica
	for _, m := range a.tally.Local() {
		out = append(out, &controlv1.Replica{Name: m.Name, Weight: m.Weight})
	}
	return out
}

// obey takes leases.
func (w *World) obey(a *agent, l *controlv1.Leases) {
	now := a.time(w)
	if !a.connected {
		return
	}
	grant, err := a.orders.Leases(now, l)
	if err != nil || grant == nil {
		return // of a leader that is no more, or overtaken
	}
	members := make([]tally.Member, len(grant.Members))
	for i, m := range grant.Members {
		members[i] = tally.Member{Name: m.GetName(), Weight: m.GetWeight()}
	}
	a.tally.SetMembers(now, members, grant.Until)
	w.hand(a, grant.Shares)
}
