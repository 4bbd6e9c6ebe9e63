package world

import "github.com/titrate/titrate/services/agent/aggregation"

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
	w.sendRound(a, a.core.LastRound(a.time(w)))
	w.stopAgent(a)
}

// exited lets an agent see that its gateway's process is gone.
func (w *World) exited(a *agent, g *gateway) {
	a.core.Disconnected(a.time(w), g.link)
	w.perform(a, a.core.Exited(a.time(w), g.process(w)))
}

// crash ends a gateway and its agent without a word.
func (w *World) crash(place int) {
	w.stop(&w.gateways[place])
	w.stopAgent(&w.agents[place])
}

// restart replaces a gateway's process; the agent sees that the old one is gone.
func (w *World) restart(place int) {
	g, a := &w.gateways[place], &w.agents[place]
	w.stop(g)
	w.exited(a, g)
	w.start(g)
}
