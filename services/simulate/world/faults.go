package world

import "github.com/titrate/titrate/services/agent/tally"

// join starts an agent and its gateway, with nothing known of the others.
func (w *World) join(place int) {
	a := &w.agents[place]
	if a.tally != nil { // of a gateway that left a moment ago
		a.end()
	}
	w.startAgent(a)
	w.start(&w.gateways[place])
}

// leave drains a gateway. Its agent says so for a while, then it ends.
func (w *World) leave(place int) {
	g, a := &w.gateways[place], &w.agents[place]
	generation := g.generation
	w.drain(g)
	w.bury(a, generation)
	w.plan(tally.Linger, endAgent, int32(place), a.life, nil)
}

// bury withdraws the claims of a process that is gone, and tells the others.
func (w *World) bury(a *agent, generation uint64) {
	w.catchUp(a)
	now := a.time(w)
	a.tally.Lose(now, a.name, generation)
	a.tally.Drain(now, a.name, generation)
	w.speak(a, true)
}

// crash ends a gateway and its agent without a word.
func (w *World) crash(place int) {
	w.stop(&w.gateways[place])
	w.agents[place].end()
}

// restart replaces a gateway's process; the agent sees the old one gone.
func (w *World) restart(place int) {
	g, a := &w.gateways[place], &w.agents[place]
	generation := g.generation
	w.stop(g)
	w.bury(a, generation)
	w.start(g)
}
