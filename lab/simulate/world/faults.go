package world

import (
	"time"

	"github.com/titrate/titrate/services/agent/aggregation"
)

// join starts an agent and its gateway, with nothing known of the others.
func (w *World) join(place int) {
	a := &w.agents[place]
	if a.core != nil { // of a gateway that left a moment ago
		w.stopAgent(a)
	}
	w.startAgent(a)
	w.start(&w.gateways[place])
}

// leave drains a gateway. Its agent withdraws the claims, and leaves a while later.
func (w *World) leave(place int) {
	g, a := &w.gateways[place], &w.agents[place]
	w.drain(g)
	w.exited(a, g)
	w.plan(aggregation.Linger, endAgent, int32(place), a.life, nil)
}

// endAgent stops an agent in order.
func (w *World) endAgent(a *agent) {
	w.perform(a, a.core.CloseQuotas(a.time(w)))
	w.sendPackets(a, a.core.LastRound(a.time(w)))
	w.stopAgent(a)
}

// exited lets an agent see that its gateway's process is gone.
func (w *World) exited(a *agent, g *gateway) {
	w.flush(g)
	a.core.Disconnected(a.time(w), g.link)
	g.link = 0
	w.perform(a, a.core.Exited(a.time(w), g.process(w)))
}

// crash ends a gateway and its agent without leaving.
func (w *World) crash(place int) {
	w.stop(&w.gateways[place])
	w.loseAgent(place)
}

// loseAgent ends an agent without leaving.
func (w *World) loseAgent(place int) {
	w.unlink(&w.gateways[place])
	if a := &w.agents[place]; a.core != nil {
		w.stopAgent(a)
	}
}

// relinkWithin is the longest time that a filter takes to find a new agent.
const relinkWithin = time.Second

// backAgent starts a new agent for a gateway's process.
func (w *World) backAgent(place int) {
	w.startAgent(&w.agents[place])
	g := &w.gateways[place]
	w.plan(w.phase(relinkWithin), linkGateway, g.place, g.life, nil)
}

// restart replaces a gateway's process; the agent sees that the old one is gone.
func (w *World) restart(place int) {
	g, a := &w.gateways[place], &w.agents[place]
	w.stop(g)
	w.exited(a, g)
	w.start(g)
}
