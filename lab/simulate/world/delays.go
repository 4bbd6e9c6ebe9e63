package world

import (
	"bytes"
	"time"

	"github.com/titrate/titrate/lab/simulate/scenario"
	"github.com/titrate/titrate/proto/link"
	"github.com/titrate/titrate/services/agent/core"
)

// draw draws how long something takes.
func (w *World) draw(d scenario.Delay) time.Duration {
	if d.Jitter == 0 {
		return d.Delay
	}
	return max(0, d.Delay+time.Duration((2*w.random.Float64()-1)*float64(d.Jitter)))
}

// planTimer plans a task of a process, which runs late by chance. A periodic task is due a period after it was
// due last, however late it was done.
func (w *World) planTimer(after time.Duration, t task, who int32, life uint32) {
	late := w.stage.Scenario.Late.Agents
	if t.ofGateway() {
		late = w.stage.Scenario.Late.Gateways
	}
	due := w.now + after
	w.add(item{at: due + w.draw(late), due: due, task: t, who: who, life: life})
}

// planNext plans a periodic task again.
func (w *World) planNext(period time.Duration, t task, who int32, life uint32) {
	w.planTimer(max(0, w.due+period-w.now), t, who, life)
}

// wake is a task that is planned once, and again only if it is to be done sooner.
type wake struct {
	at      time.Duration
	planned bool
}

// sooner reports whether it is to be planned for a time.
func (k *wake) sooner(at time.Duration) bool { return !k.planned || at < k.at }

// set notes for when it is planned.
func (k *wake) set(at time.Duration) time.Duration {
	k.at, k.planned = at, true
	return at
}

// done notes that it is done that was due at a time.
func (k *wake) done(due time.Duration) { k.planned = k.planned && due < k.at }

// parcel is a message on a link.
type parcel struct {
	link    core.Link
	message link.Message
}

// instant reports whether links and processes take no time.
func (w *World) instant() bool {
	s := w.stage.Scenario
	return s.Link == scenario.Delay{} && s.Late.Gateways == scenario.Delay{} && s.Late.Agents == scenario.Delay{}
}

// deliverToAgent brings the agent a message of its gateway, in order.
func (w *World) deliverToAgent(g *gateway, m link.Message) {
	if w.TamperLink == nil {
		w.bringToAgent(g, m)
		return
	}
	for _, m := range w.TamperLink(w.stage.Cast.Gateways[g.place], copied(m)) {
		if g.link != 0 { // else the agent has ended the link at the message before
			w.bringToAgent(g, copied(m))
		}
	}
}

func (w *World) bringToAgent(g *gateway, m link.Message) {
	if w.instant() {
		w.receivedByAgent(g, m)
		return
	}
	s := w.stage.Scenario
	g.upAt = max(g.upAt, w.now+w.draw(s.Link)+w.draw(s.Late.Agents))
	g.up = append(g.up, parcel{g.link, copied(m)})
	w.plan(g.upAt-w.now, takeUp, g.place, g.life, nil)
}

// takeUp gives the agent the first message that is on its way there.
func (w *World) takeUp(g *gateway) {
	if len(g.up) == 0 { // it came when the process ended
		return
	}
	first := g.up[0]
	if g.up = g.up[1:]; first.link == g.link {
		w.receivedByAgent(g, first.message)
	}
}

// flush gives the agent all that its gateway has sent: it reads a link to the end.
func (w *World) flush(g *gateway) {
	for len(g.up) > 0 {
		w.takeUp(g)
	}
}

func (w *World) receivedByAgent(g *gateway, m link.Message) {
	a := &w.agents[g.place]
	if a.paused != nil {
		a.paused.receive(m)
		return
	}
	w.perform(a, a.core.Received(a.time(w), g.link, m))
}

// deliverToGateway brings the gateway a message of its agent, in order. The first one is there at once: a
// process decides nothing before it has its configuration.
func (w *World) deliverToGateway(g *gateway, m link.Message) {
	if w.instant() || !g.configured {
		w.receive(g, m)
		return
	}
	s := w.stage.Scenario
	g.downAt = max(g.downAt, w.now+w.draw(s.Link)+w.draw(s.Late.Gateways))
	w.plan(g.downAt-w.now, takeDown, g.place, g.life, &parcel{g.link, m})
}

// takeDown gives the gateway a message, unless its link has ended.
func (w *World) takeDown(g *gateway, p *parcel) {
	if p.link == g.link {
		w.receive(g, p.message)
	}
}

// copied returns a message as it comes out of the link: the gateway reuses the memory of the original.
func copied(m link.Message) link.Message {
	var wire bytes.Buffer
	to := link.NewWriter(&wire)
	to.SetVersion(link.Version)
	err := to.Write(m)
	if err == nil {
		m, err = link.NewReader(&wire).Next()
	}
	if err != nil {
		panic("world: a message does not pass its link: " + err.Error())
	}
	return m
}
