package world

import (
	"slices"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/proto/link"
	"github.com/titrate/titrate/services/agent/core"
)

// mostHeld bounds the packets that the kernel keeps for a paused agent. The kernel keeps the first packets;
// later packets are lost.
const mostHeld = 256

// pause is a paused agent, and the messages and tasks that wait for it.
type pause struct {
	began   time.Duration
	link    core.Link      // of its gateway, when it began
	held    []item         // in the order in which they were due
	arrived int            // packets of held
	inbox   []link.Message // of its gateway, until that gives the link up
	broken  bool           // it has
}

// hold keeps a task that is due at the agent.
func (p *pause) hold(i *item) {
	if i.task == deliverPacket {
		if p.arrived++; p.arrived > mostHeld {
			return
		}
	}
	p.held = append(p.held, *i)
}

// receive keeps a message of the gateway, except reports and spent tokens: the gateway reuses their memory, and
// a new link brings their state.
func (p *pause) receive(m link.Message) {
	switch m := m.(type) {
	case *exchange.Claims:
		p.inbox = append(p.inbox, &exchange.Claims{Flows: slices.Clone(m.Flows), Keys: slices.Clone(m.Keys),
			Withdrawn: slices.Clone(m.Withdrawn)})
	case *exchange.TokenRequests, *exchange.SlotAsks, *exchange.QuotaAsks, *link.Heartbeat, *exchange.Names:
		p.inbox = append(p.inbox, m)
	}
}

// pauseAgent has an agent stand still. Its gateway gives the link up after DeadAfter.
func (w *World) pauseAgent(place int) {
	a, g := &w.agents[place], &w.gateways[place]
	if a.core == nil || a.paused != nil {
		return
	}
	a.paused, w.net.touched = &pause{began: w.now, link: g.link}, w.now
	w.plan(link.DeadAfter, unlinkGateway, g.place, g.life, nil)
}

// unlinkPaused closes a gateway's link to a paused agent.
func (w *World) unlinkPaused(g *gateway) {
	if p := w.agents[g.place].paused; p != nil && g.link != 0 && w.now-p.began >= link.DeadAfter {
		p.broken = true
		w.unlink(g)
	}
}

// unlink ends the link of a gateway as the gateway sees it.
func (w *World) unlink(g *gateway) {
	g.link, g.partedAt = 0, w.now
	if g.engine != nil {
		g.engine.LinkTokens(w.time(), false)
		g.engine.LinkSlots(false)
		g.engine.LinkQuotas(false)
	}
}

// resumeAgent lets an agent run again, with all kept messages at once.
func (w *World) resumeAgent(place int) {
	a, g := &w.agents[place], &w.gateways[place]
	p := a.paused
	if a.core == nil || p == nil {
		return
	}
	a.paused, a.resumed, a.lastPause, w.net.touched = nil, w.now, w.now-p.began, w.now
	for i := range p.held {
		w.due = p.held[i].due
		w.doAgent(a, &p.held[i])
	}
	for _, m := range p.inbox {
		w.perform(a, a.core.Received(a.time(w), p.link, m))
	}
	if p.broken {
		a.core.Disconnected(a.time(w), p.link)
		w.plan(w.phase(relinkWithin), linkGateway, g.place, g.life, nil)
	}
}

// answers reports whether an agent is alive as the modelled memberlist of another one sees it:
// it runs, or has not stood still for long.
func (a *agent) answers(now time.Duration) bool {
	if a.paused != nil {
		return now-a.paused.began < giveUpAfter
	}
	return a.resumed == 0 || a.lastPause < giveUpAfter || now-a.resumed >= rejoinAfter
}
