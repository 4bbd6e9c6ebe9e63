package world

import (
	"maps"
	"slices"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/envoy-filter/enforcer"
	"github.com/titrate/titrate/lab/simulate/system"
	"github.com/titrate/titrate/lab/simulate/traffic"
	"github.com/titrate/titrate/proto/link"
	"github.com/titrate/titrate/services/agent/core"
)

// The filter's times: package enforcer ticks, package agentlink sends.
const (
	busyTick    = enforcer.BusyTick
	idleTick    = enforcer.IdleTick
	sendEvery   = exchange.DefaultPeriod
	reportTicks = int(exchange.ReportEvery / sendEvery) // a report with every so many claims
	beatTicks   = int(link.HeartbeatEvery / sendEvery)  // a heartbeat
	// Which keys that have spent something are sent. Keys that take at least spentLeast to
	// win the burst back, of a spentParts-th of the table with the claims, at most
	// spentMost.
	spentLeast = 250 * time.Millisecond
	spentParts = 5
	spentMost  = 4096
)

// gateway is a filter process, or the place where one was or will be.
type gateway struct {
	place      int32
	life       uint32 // counts processes
	generation uint64
	link       core.Link       // to its agent; 0: none
	linked     bool            // to an agent, now or before
	engine     *limiter.Engine // nil: there is none
	config     *config.Config  // in force
	sums       *exchange.Sums  // received last, with the isolation that holds
	tickAt     time.Duration   // of the next tick; other ticks are void
	tokens     wake            // the next pollTokens
	registered exchange.Registered
	partedAt   time.Duration // when the link went down
	stats      limiter.Stats // memory for the next
	sends      int
	silent     bool
	configured bool // the process has a configuration
	waiting    map[int]*waiting

	events    []limiter.Event // memory for the next
	claims    exchange.Claims
	report    exchange.Report
	spent     exchange.Spent
	walk      limiter.SpentCursor
	sentNames *limiter.Names

	up           []parcel      // on their way to the agent, in order
	upAt, downAt time.Duration // when the last messages on the link are there

	others   exchange.Estimator // while the agent is unreachable
	withheld exchange.Withheld  // while the agent is unreachable
}

// process names the process to the agent.
func (g *gateway) process(w *World) core.Process {
	return core.Process{Gateway: w.stage.Cast.Gateways[g.place], Generation: g.generation}
}

// waiting is a request that waits.
type waiting struct {
	id      int
	gateway int32
	life    uint32
	handle  limiter.Handle
	request limiter.Request
	flight  *limiter.Flight
	takes   time.Duration
}

// time is now as engines count.
func (w *World) time() int64 { return int64(w.now) }

// start begins a process at a place whose agent is there.
func (w *World) start(g *gateway) {
	p, name := g.place, w.stage.Cast.Gateways[g.place]
	g.life++
	g.generation = uint64(w.now) + uint64(g.life) // as production: a time; no two are the same
	g.tokens, g.registered = wake{}, exchange.Registered{}
	g.engine = limiter.New(limiter.Options{Keys: w.keys(), Contended: w.keys(), Replica: name, Start: w.time(),
		Ask: func() { w.planPoll(g, w.now) }})
	g.engine.Name(w.stage.Cast.Names)
	g.waiting, g.sends, g.linked = map[int]*waiting{}, 0, false
	g.others, g.withheld, g.up, g.configured = exchange.Estimator{}, exchange.Withheld{}, nil, false
	w.planTick(g, w.phase(busyTick))
	w.planTimer(w.phase(sendEvery), sendClaims, p, g.life)
	w.linkGateway(g)
}

// linkGateway connects a process to its agent.
func (w *World) linkGateway(g *gateway) {
	a := &w.agents[g.place]
	if g.engine == nil || g.link != 0 || a.core == nil || a.paused != nil {
		return
	}
	w.links++
	g.link, g.silent, g.sentNames, g.partedAt = w.links, false, nil, 0
	g.walk = limiter.SpentCursor{Least: spentLeast}
	g.engine.RepeatClaims()
	w.perform(a, a.core.Connected(a.time(w), g.link, link.Hello{Version: link.Version, Replica: a.name,
		Generation: g.generation, Weight: w.stage.Cast.Weights[g.place], Again: g.linked}, 0))
	g.linked = true
	g.engine.LinkTokens(w.time(), true)
	g.engine.LinkSlots(true)
	g.engine.LinkQuotas(true)
}

// planPoll plans to send the token questions for the owners of keys, as the filter's link does.
func (w *World) planPoll(g *gateway, at time.Duration) {
	if g.tokens.sooner(at) {
		w.planTimer(g.tokens.set(max(at, w.now+1))-w.now, pollTokens, g.place, g.life)
	}
}

// sendTokens sends it.
func (w *World) sendTokens(g *gateway) {
	g.tokens.done(w.due)
	if g.link == 0 {
		return
	}
	asked := [exchange.Scopes]exchange.TokenRequests{exchange.OfAll: {Global: true}}
	for i := range asked {
		if next := g.engine.PollTokens(w.time(), &asked[i]); next != 0 {
			w.planPoll(g, time.Duration(next))
		}
	}
	asks, next, known := g.engine.PollSlots(w.time(), nil)
	if next != 0 {
		w.planPoll(g, time.Duration(next))
	}
	asked[exchange.OfSite].Registered = g.registered.Add(asked[exchange.OfSite].Registered, known)
	for i := range asked {
		if !asked[i].Empty() {
			w.deliverToAgent(g, &asked[i])
		}
	}
	for _, m := range asks {
		w.deliverToAgent(g, m)
	}
	units, next := g.engine.PollQuotas(w.time(), nil)
	if next != 0 {
		w.planPoll(g, time.Duration(next))
	}
	for _, m := range units {
		w.deliverToAgent(g, m)
	}
}

// receive takes a message of the agent, as the filter's link does.
func (w *World) receive(g *gateway, m link.Message) {
	switch m := m.(type) {
	case *config.Config:
		g.config, g.configured = m, true
		if err := g.engine.Apply(m); err != nil {
			panic("world: a configuration that was checked is refused: " + err.Error())
		}
	case *exchange.Shares:
		g.engine.SetShares(m)
	case *exchange.Sums:
		g.others.Set(w.time(), m)
		g.sums = m
		g.engine.SetSums(w.time(), m)
	case *exchange.TokenAnswers:
		g.events = g.engine.AnswerTokens(w.time(), m, g.events[:0])
		w.deliver(g)
	case *exchange.SlotReplies:
		g.events = g.engine.AnswerSlots(w.time(), m, g.events[:0])
		w.deliver(g)
	case *exchange.QuotaReplies:
		g.events = g.engine.AnswerQuotas(w.time(), m, g.events[:0])
		w.deliver(g)
	case *exchange.Spent:
		for _, k := range m.Keys {
			g.engine.RestoreSpent(w.time(), k)
		}
	}
}

// mostKeys bounds the key budgets of all gateways together, 32 bytes a key.
const mostKeys = 1 << 23

// keys returns a key budget with room to spare: the table's size is not under test. If so many gateways would
// need too large a budget together, each gateway has only some of the keys.
func (w *World) keys() int {
	return max(1024, min(16*len(w.stage.Cast.Keys), mostKeys/len(w.gateways)))
}

// ask lets a gateway decide a request.
func (w *World) ask(g *gateway, id int, c *traffic.Client, cost float64) {
	if g.engine == nil {
		w.answer(id, system.Lost, limiter.Outcome{})
		return
	}
	r := limiter.Request{Tenant: c.Tenant, Client: c.Name, Pool: c.Pool, Cost: cost, Identities: c.Identities,
		Classes: c.Classes}
	out := g.engine.Decide(w.time(), &r)
	if out.Verdict == limiter.Wait {
		var handle limiter.Handle
		if out, handle = g.engine.Enqueue(w.time(), &r, uint64(id)+1); out.Verdict == limiter.Wait {
			w.hold(g, c, &waiting{id: id, handle: handle, request: r, flight: out.Flight, takes: c.Takes})
			return
		}
	}
	w.decided(g, out, &waiting{id: id, request: r, flight: out.Flight, takes: c.Takes})
}

// decided answers a request, and sends it on if it was admitted.
func (w *World) decided(g *gateway, out limiter.Outcome, h *waiting) {
	fate := system.Admitted
	if out.Verdict == limiter.Reject {
		fate = system.Rejected
	} else if h.flight != nil {
		w.depart(&h.request, h.flight)
	}
	if out.Slots != 0 {
		slots := out.Slots
		w.plan(h.takes, endFlight, g.place, g.life, &slots)
	}
	w.answer(h.id, fate, out)
}

// hold keeps a request until its event, its client's patience or the gateway ends.
func (w *World) hold(g *gateway, c *traffic.Client, h *waiting) {
	h.gateway, h.life = g.place, g.life
	g.waiting[h.id] = h
	if c.Patience > 0 {
		w.add(item{at: w.now + c.Patience, task: losePatience, load: h})
	}
	if g.tickAt > w.now+busyTick { // a slow ticker is woken
		w.planTick(g, 0)
	}
}

// abandon takes back a request whose client has lost patience.
func (w *World) abandon(h *waiting) {
	g := &w.gateways[h.gateway]
	if g.life != h.life || g.waiting[h.id] != h || !g.engine.Cancel(w.time(), h.handle) {
		return
	}
	delete(g.waiting, h.id)
	w.answer(h.id, system.Abandoned, limiter.Outcome{})
}

// tick steps the engine, at the pace of the filter's ticker.
func (w *World) tick(g *gateway) {
	g.events = g.engine.Tick(w.time(), g.events[:0])
	w.deliver(g)
	next := idleTick
	if g.engine.Busy() {
		next = busyTick
	}
	w.planTick(g, next)
}

// planTick plans the next tick. A tick that was planned before has no effect.
func (w *World) planTick(g *gateway, after time.Duration) {
	g.tickAt = w.now + after + w.draw(w.stage.Scenario.Late.Gateways)
	w.plan(g.tickAt-w.now, tickGateway, g.place, g.life, nil)
}

func (w *World) deliver(g *gateway) {
	for _, e := range g.events {
		id := int(e.Ticket) - 1
		h := g.waiting[id]
		delete(g.waiting, id)
		w.decided(g, e.Outcome, h)
	}
}

// goOn lets a process run on estimates while its agent is unreachable, as the filter does.
func (w *World) goOn(g *gateway) {
	if g.link == 0 {
		g.engine.ForgetUnused()
	}
	since, isolation, silent := g.others.Silent(w.time(), g.link != 0, g.engine.ClaimedByOthers())
	if silent {
		sums := *g.sums
		sums.Isolation, g.sums = isolation, &sums
		g.engine.GoOn(since, isolation)
	}
}

// sendToAgent sends the filter's periodic messages to its agent. Without a link it takes the engine's claims,
// and keeps the keys that they withdraw.
func (w *World) sendToAgent(g *gateway) {
	w.planNext(sendEvery, sendClaims, g.place, g.life)
	w.goOn(g)
	if g.link == 0 {
		if g.partedAt != 0 && w.now-g.partedAt >= link.DeadAfter {
			g.partedAt = 0
			g.engine.ForgetTokens()
		}
		g.claims.Reset()
		g.engine.Claims(w.time(), &g.claims)
		g.withheld.Add(&g.claims)
		return
	}
	if g.sends%beatTicks == 0 {
		g.stats.Keys = -1 // do not count them
		g.engine.Stats(w.time(), &g.stats)
		w.deliverToAgent(g, &link.Heartbeat{Sequence: uint64(g.sends), Revision: g.config.Revision,
			Parted: g.stats.Unpromoted})
	}
	if n := g.engine.Named(); n != g.sentNames {
		g.sentNames = n
		w.deliverToAgent(g, n.Known())
	}
	g.claims.Reset()
	g.engine.Claims(w.time(), &g.claims)
	g.withheld.AddTo(&g.claims)
	empty := len(g.claims.Flows)+len(g.claims.Keys)+len(g.claims.Withdrawn) == 0
	if !empty || !g.silent {
		w.deliverToAgent(g, &g.claims)
	}
	g.silent = empty
	g.spent.Keys = g.spent.Keys[:0]
	g.engine.SpentChanges(w.time(), &g.walk, spentParts, spentMost, func(s exchange.KeySpent) {
		g.spent.Keys = append(g.spent.Keys, s)
	})
	if len(g.spent.Keys) > 0 {
		w.deliverToAgent(g, &g.spent)
	}
	if g.sends%reportTicks == 0 {
		g.engine.Report(w.time(), &g.report)
		w.deliverToAgent(g, &g.report)
	}
	g.sends++
}

// stop ends the process; waiting requests are lost.
func (w *World) stop(g *gateway) {
	for _, id := range slices.Sorted(maps.Keys(g.waiting)) {
		w.answer(id, system.Lost, limiter.Outcome{})
	}
	g.engine, g.waiting = nil, nil
	g.life++
}

// drain ends the process in order: waiting requests are released.
func (w *World) drain(g *gateway) {
	g.events = g.engine.Drain(w.time(), g.events[:0])
	w.deliver(g)
	g.engine.ReleaseTokens(w.time())
	w.sendTokens(g)
	w.stop(g)
}
