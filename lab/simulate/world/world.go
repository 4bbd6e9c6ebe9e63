package world

import (
	"math/rand/v2"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/lab/simulate/scenario"
	"github.com/titrate/titrate/lab/simulate/system"
	"github.com/titrate/titrate/lab/simulate/traffic"
	"github.com/titrate/titrate/lab/simulate/virtual"
	"github.com/titrate/titrate/proto/link"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/core"
)

// origin is the first time of a run: production's times are never 0.
const origin = time.Second

// World is Titrate as a system of a simulation.
type World struct {
	stage    system.Stage
	random   *rand.Rand
	agenda   virtual.Queue[item]
	now      time.Duration // since the quiet time began, plus origin
	due      time.Duration // when the present task was due
	zero     time.Duration // the scenario's time 0, as now counts
	gateways []gateway     // by place in the cast
	agents   []agent       // by place in the cast
	sent     []system.Sent // by place in the cast
	places   map[string]int
	links    core.Link // given to gateways
	net      network
	lead     leader
	books    bookkeeping
	servers  []time.Duration // by upstream: when it has done all that it was sent

	// Tamper, if set, returns the packets that are sent instead of an agent's packet, which it does not change:
	// for tests of agents that send false packets.
	Tamper func(from, to string, p *gossipv1.Packet) []*gossipv1.Packet
	// TamperLink does the same for the messages of a gateway to its agent, for tests of gateways that send false
	// messages; it gets a copy.
	TamperLink func(gateway string, m link.Message) []link.Message
	// Healing, if set, returns how long after a heal the first packet from one agent to another arrives. It
	// also returns how long the memberlist of the first one takes to know the other one as alive. nil stands
	// for 0 and 0.5 s.
	Healing func(of, other string) (packets, alive time.Duration)
}

// New makes a world at −Scenario.Lead. It is a system.Maker.
func New(stage system.Stage) (system.System, error) {
	s := stage.Scenario
	w := &World{
		stage: stage, random: rand.New(rand.NewPCG(s.Seed, 0x7469747261746521)),
		now: origin, zero: origin + s.Lead,
		servers:  make([]time.Duration, len(s.Upstreams)),
		places:   map[string]int{},
		gateways: make([]gateway, len(stage.Cast.Gateways)), agents: make([]agent, len(stage.Cast.Gateways)),
		sent: make([]system.Sent, len(stage.Cast.Gateways)),
	}
	w.net = newNetwork(s, stage.Cast.Gateways, w.random)
	w.net.healing = func(of, other int32) (packets, alive time.Duration) {
		if w.Healing == nil {
			return 0, rejoinAfter
		}
		return w.Healing(stage.Cast.Gateways[of], stage.Cast.Gateways[other])
	}
	w.books = w.newBookkeeping()
	w.begin(1)
	for i, name := range stage.Cast.Gateways {
		w.places[name] = i
	}
	for i := range w.gateways {
		w.gateways[i].place, w.agents[i].place = int32(i), int32(i)
		if stage.Up[i] {
			w.join(i)
		}
	}
	return w, nil
}

// Clock is the scenario's time.
func (w *World) Clock() time.Duration { return w.now - w.zero }

// plan adds a task for an agent or gateway of this life.
func (w *World) plan(after time.Duration, t task, who int32, life uint32, load any) {
	w.add(item{at: w.now + after, task: t, who: who, life: life, load: load})
}

// phase returns a random offset in a period, so that no two processes are in step.
func (w *World) phase(period time.Duration) time.Duration {
	return time.Duration(w.random.Int64N(int64(period)))
}

// Advance does the work that is due until now.
func (w *World) Advance(now time.Duration) { w.until(now + w.zero) }

func (w *World) until(end time.Duration) {
	for {
		at, i, ok := w.agenda.Next(end)
		if !ok {
			break
		}
		w.now, w.due = at, i.due
		w.do(&i)
	}
	w.now = max(w.now, end)
}

// do does one item, unless it is void.
func (w *World) do(i *item) {
	if i.task.ofGateway() {
		if g := &w.gateways[i.who]; g.life == i.life && g.engine != nil {
			w.doGateway(g, i)
		}
		return
	}
	switch i.task {
	case runRound:
		w.round(i.life)
	case losePatience:
		w.abandon(i.load.(*waiting))
	case landFlight:
		i.load.(*flying).land(w.now)
	case takeReport:
		w.takeReport(&w.agents[i.who], i.load.(*controlv1.Report))
	case takeBookings:
		w.takeBookings(&w.agents[i.who], i.load.(*controlv1.Bookings))
	default:
		a := &w.agents[i.who]
		switch {
		case a.life != i.life || a.core == nil:
		case a.paused != nil:
			a.paused.hold(i)
		default:
			w.doAgent(a, i)
		}
	}
}

func (w *World) doGateway(g *gateway, i *item) {
	switch {
	case i.task == sendClaims:
		w.sendToAgent(g)
	case i.task == linkGateway:
		w.linkGateway(g)
	case i.task == unlinkGateway:
		w.unlinkPaused(g)
	case i.task == pollTokens:
		w.sendTokens(g)
	case i.task == endFlight:
		g.events = g.engine.FreeSlots(w.time(), *i.load.(*limiter.Slots), g.events[:0])
		w.deliver(g)
	case i.task == takeUp:
		w.takeUp(g)
	case i.task == takeDown:
		w.takeDown(g, i.load.(*parcel))
	case i.at == g.tickAt:
		w.tick(g)
	}
}

func (w *World) doAgent(a *agent, i *item) {
	switch i.task {
	case tickAgent:
		w.tickAgent(a)
	case gossip:
		w.planNext(w.stage.Scenario.Gossip.Period/2, gossip, a.place, a.life)
		w.sendState(a, false)
	case deliverPacket:
		w.receivePacket(a, i.load.(*letter))
	case reportUp:
		w.report(a)
	case takeLeases:
		w.takeLeases(a, i.load.(*controlv1.Leases))
	case takeConfig:
		w.configure(a, i.load.(*config.Config))
	case takeBooked:
		w.takeBooked(a, i.load.(*controlv1.Booked))
	case takePeriods:
		w.takePeriods(a, i.load.(*periods))
	case connect:
		w.connect(a)
	case endAgent:
		w.endAgent(a)
	case tickTokens:
		w.tickTokens(a)
	}
}

// Offer brings a request to a gateway.
func (w *World) Offer(id int, r *traffic.Request) {
	w.until(r.At + w.zero)
	c := &w.stage.Cast.Clients[r.Client]
	w.ask(&w.gateways[r.Gateway], id, c, r.Cost)
}

// answer answers a request, now.
func (w *World) answer(id int, fate system.Fate, o limiter.Outcome) {
	w.stage.Answer(system.Answer{ID: id, At: w.Clock(), Fate: fate, Reason: o.Reason, Limit: o.Limit, Mark: o.Mark})
}

// Happen acts on an event.
func (w *World) Happen(e *scenario.Event) {
	w.until(e.At + w.zero)
	switch e.Kind {
	case scenario.Partition:
		w.net.cut(w.now, w.stage.Cast.Gateways, e.Groups)
		w.sever()
	case scenario.Heal:
		w.net.heal(w.now)
		w.reconnect()
	case scenario.Join:
		w.join(w.place(e.Replica))
	case scenario.Leave:
		w.leave(w.place(e.Replica))
	case scenario.Crash:
		w.crash(w.place(e.Replica))
	case scenario.Restart:
		w.restart(w.place(e.Replica))
	case scenario.AgentLost:
		w.loseAgent(w.place(e.Replica))
	case scenario.AgentBack:
		w.backAgent(w.place(e.Replica))
	case scenario.AgentPaused:
		w.pauseAgent(w.place(e.Replica))
	case scenario.AgentResumed:
		w.resumeAgent(w.place(e.Replica))
	case scenario.CoordinatorLost:
		w.lose()
	case scenario.CoordinatorBack:
		w.begin(w.lead.epoch + 1)
		w.reconnect()
	case scenario.Apply:
		w.change()
	}
}

// place returns the place of a gateway and its agent in the cast.
func (w *World) place(name string) int {
	i, ok := w.places[name]
	if !ok {
		panic("world: event of a gateway that is not in the cast: " + name) // Check has looked
	}
	return i
}
