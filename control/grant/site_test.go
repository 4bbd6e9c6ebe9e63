package grant_test

import (
	"container/heap"
	"math/rand/v2"

	"github.com/titrate/titrate/control/grant"
)

const second = int64(1e9)

// site is agents with a gateway each on virtual time. Each agent has its own belief of who owns a key. The
// messages of all keys between two agents go through one line each way.
type site struct {
	rng     *rand.Rand
	now     int64
	events  siteEvents
	order   int
	way     int64
	loss    float64
	keys    []*siteKey
	asks    map[[2]int]*grant.Line[*siteGate] // by gateway and owner
	recalls map[[2]int]*grant.Line[*siteKey]  // by owner and gateway
	lives   uint64
	lie     func(g *grant.Grant, r *grant.Recall) // of agent 0 as an owner; nil: it is honest
}

// siteKey is one key.
type siteKey struct {
	s        *site
	p        grant.Params
	owners   []*grant.Owner // by agent; nil: it has never taken itself for the owner
	changed  []int64        // by agent: when it began to take itself for the owner; 0: it does not
	believes []int          // by agent: the owner
	gates    []*siteGate
	admitted []admission
	waits    int // requests that wait now
}

type admission struct {
	at   int64
	gate int
}

type siteGate struct {
	k       *siteKey
	agent   int
	g       *grant.Gateway
	waiting []*siteWait
}

type siteWait struct {
	at   int64
	gone bool
}

type siteEvent struct {
	at    int64
	order int
	f     func()
}
type siteEvents []siteEvent

func (e siteEvents) Len() int { return len(e) }
func (e siteEvents) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e siteEvents) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *siteEvents) Push(x any)   { *e = append(*e, x.(siteEvent)) }
func (e *siteEvents) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func newSite(seed uint64, way int64) *site {
	return &site{rng: rand.New(rand.NewPCG(seed, 5)), now: 1, way: way, asks: map[[2]int]*grant.Line[*siteGate]{},
		recalls: map[[2]int]*grant.Line[*siteKey]{}}
}

// key adds a key of agent 0, which so many gateways use.
func (s *site) key(p grant.Params, n int) *siteKey {
	k := &siteKey{s: s, p: p, owners: make([]*grant.Owner, n), changed: make([]int64, n), believes: make([]int, n)}
	for i := range n {
		s.lives++
		k.gates = append(k.gates, &siteGate{k: k, agent: i, g: grant.NewGateway(p, s.lives<<20)})
	}
	k.own(0, 0)
	s.keys = append(s.keys, k)
	return k
}

func (s *site) at(t int64, f func()) {
	s.order++
	heap.Push(&s.events, siteEvent{max(t, s.now), s.order, f})
}

func (s *site) run(until int64) {
	for len(s.events) > 0 && s.events[0].at <= until {
		e := heap.Pop(&s.events).(siteEvent)
		s.now = e.at
		e.f()
	}
	s.now = until
}

// send carries a message, unless it is lost.
func (s *site) send(f func()) {
	if s.rng.Float64() >= s.loss {
		s.at(s.now+s.way/2+s.rng.Int64N(s.way+1), f)
	}
}

// own has an agent take itself for the owner, which listens for so long at most.
func (k *siteKey) own(agent int, listen int64) {
	if k.changed[agent] = k.s.now; k.owners[agent] != nil {
		k.owners[agent].Resume(k.s.now, listen, k.outbox(agent))
		k.wake(agent)
		return
	}
	k.s.lives++
	p := k.p
	p.Listen = listen
	k.owners[agent] = grant.NewOwner(p, k.s.lives<<32, k.s.now)
}

// believe changes an agent's view of the owner. Its gateway learns it after a while, as by tokens.Desk.
func (k *siteKey) believe(agent, owner int) {
	before := k.believes[agent]
	if before == owner {
		return
	}
	k.believes[agent] = owner
	if before == agent {
		k.changed[agent] = 0
		k.owners[agent].Suspend()
	}
	if owner == agent {
		k.own(agent, listens)
	}
	k.s.at(k.s.now+told, func() {
		if k.believes[agent] == owner {
			k.gates[agent].do(func() { k.gates[agent].g.NewOwner(k.s.now) })
		}
	})
}

// Times of tokens.Desk.
const (
	told    = second / 10 // until gateways learn of a change
	listens = 3 * second  // a new owner waits for gateways that have not registered
)

// takes reports whether an agent takes itself for the owner.
func (k *siteKey) takes(agent int) bool { return k.owners[agent] != nil && k.believes[agent] == agent }

// registered makes owners grant once all agents agree and all gateways have registered what they hold.
func (k *siteKey) registered() {
	for i, owner := range k.believes {
		if owner != k.believes[0] || k.gates[i].g.Registers() {
			return
		}
	}
	if o := k.believes[0]; k.s.now-k.changed[o] > 2*told {
		k.owners[o].Listened(k.s.now, k.outbox(o))
		k.wake(o)
	}
}

func (k *siteKey) wake(agent int) {
	o := k.owners[agent]
	if d := o.Due(); d > 0 && k.takes(agent) {
		k.s.at(max(d, k.s.now+1), func() {
			if d := o.Due(); k.takes(agent) && d != 0 && d <= k.s.now {
				o.Tick(k.s.now, k.outbox(agent))
				k.wake(agent)
			}
		})
	}
}

// siteOutbox takes what an owner sends.
type siteOutbox struct {
	k     *siteKey
	agent int
}

func (k *siteKey) outbox(agent int) siteOutbox { return siteOutbox{k, agent} }

// Grant sends one. It counts only if the gateway's agent takes the sender for the owner.
func (o siteOutbox) Grant(to grant.Peer, m grant.Grant) {
	k, g := o.k, o.k.gates[to]
	if o.agent == 0 && k.s.lie != nil {
		k.s.lie(&m, nil)
	}
	k.s.send(func() {
		if k.believes[g.agent] == o.agent {
			g.do(func() {
				if g.g.Grant(k.s.now, m) {
					k.s.asksOf(g.agent, o.agent).Park(k.s.now, g, m.Wait)
				}
			})
		}
	})
}

// Recall has one sent.
func (o siteOutbox) Recall(to grant.Peer, _ grant.Recall) {
	o.k.s.recallsOf(o.agent, int(to)).Add(o.k, false)
	o.k.s.at(o.k.s.now, func() { o.k.s.sendRecalls(o.agent, int(to)) })
}

// CallPart has nothing sent: gateways have no parts here.
func (o siteOutbox) CallPart(grant.Peer) {}

func lineOf[K comparable](lines map[[2]int]*grant.Line[K], at [2]int) *grant.Line[K] {
	if lines[at] == nil {
		lines[at] = &grant.Line[K]{}
	}
	return lines[at]
}

func (s *site) asksOf(gate, owner int) *grant.Line[*siteGate] {
	return lineOf(s.asks, [2]int{gate, owner})
}

func (s *site) recallsOf(owner, gate int) *grant.Line[*siteKey] {
	return lineOf(s.recalls, [2]int{owner, gate})
}

// sendRecalls sends a gateway the recalls for which there is room, of all keys.
func (s *site) sendRecalls(owner, to int) {
	line := s.recallsOf(owner, to)
	for k, ok := line.Next(s.now); ok; k, ok = line.Next(s.now) {
		m, open := k.owners[owner].Recalling(grant.Peer(to))
		if !open || !k.takes(owner) {
			line.Done(s.now, k, false)
			continue
		}
		if owner == 0 && s.lie != nil {
			s.lie(nil, &m)
		}
		s.send(func() {
			if g := k.gates[to]; k.believes[to] == owner {
				g.do(func() { g.g.Recall(s.now, m) })
			}
		})
	}
	if d := line.Due(s.now); d > 0 {
		s.at(max(d, s.now+1), func() { s.sendRecalls(owner, to) })
	}
}

// do runs a step of the gateway and what follows from it.
func (g *siteGate) do(f func()) {
	now := g.k.s.now
	f()
	for len(g.waiting) > 0 {
		w := g.waiting[0]
		if !w.gone {
			out := g.g.Retry(now, w.at, grant.Token)
			if out == grant.Waits {
				break
			}
			g.end(w, out)
		}
		g.waiting = g.waiting[1:]
	}
	if q, ok := g.g.Poll(now); ok {
		g.send(q)
	}
	owner := g.k.believes[g.agent]
	line := g.k.s.asksOf(g.agent, owner)
	is, urgent := g.g.Wants(now)
	if is {
		line.Add(g, urgent)
	}
	if !is || !g.g.Open() {
		line.Done(now, g, !is)
	}
	if is {
		line.Add(g, urgent)
	}
	g.k.s.sendAsks(g.agent, owner)
}

// sendAsks sends the questions of a gateway for which there is room, of all keys.
func (s *site) sendAsks(gate, owner int) {
	line := s.asksOf(gate, owner)
	for g, ok := line.Next(s.now); ok; g, ok = line.Next(s.now) {
		q, ok := g.g.Ask(s.now)
		if !ok || g.k.believes[gate] != owner {
			line.Done(s.now, g, false)
			continue
		}
		g.send(q)
	}
	if d := line.Due(s.now); d > 0 {
		s.at(max(d, s.now+1), func() { s.sendAsks(gate, owner) })
	}
}

func (g *siteGate) send(q grant.Request) {
	k, owner := g.k, g.k.believes[g.agent]
	k.s.send(func() {
		if k.takes(owner) {
			o, from := k.owners[owner], grant.Peer(g.agent)
			before, _ := o.Recalling(from)
			o.Request(k.s.now, from, q, k.outbox(owner))
			if after, open := o.Recalling(from); !open || after.Number != before.Number { // as tokens.Desk
				k.s.recallsOf(owner, g.agent).Done(k.s.now, k, true)
				if open {
					k.outbox(owner).Recall(from, after)
				}
			}
			k.wake(owner)
		}
	})
}

// request offers one request at a gateway. What no owner answers is not admitted.
func (k *siteKey) request(gate int) {
	g := k.gates[gate]
	w := &siteWait{at: k.s.now}
	g.do(func() {
		out := g.g.Take(k.s.now, grant.Token)
		if out != grant.Waits {
			g.end(w, out)
			return
		}
		k.waits++
		g.waiting = append(g.waiting, w)
		k.s.at(k.s.now+hold, func() {
			if !w.gone {
				g.do(func() { g.end(w, g.g.Expire(k.s.now, grant.Token)) })
			}
		})
	})
}

// hold is grant.Params.Hold by default.
const hold = second / 50

func (g *siteGate) end(w *siteWait, out grant.Outcome) {
	if !w.gone && w.at < g.k.s.now || len(g.waiting) > 0 && g.waiting[0] == w {
		g.k.waits--
	}
	if w.gone = true; out == grant.Admitted {
		g.k.admitted = append(g.k.admitted, admission{g.k.s.now, g.agent})
	}
}

// poisson offers requests at rate per second, at any gateway.
func (k *siteKey) poisson(rate float64, until int64) {
	var next func()
	next = func() {
		if k.s.now < until {
			k.request(k.s.rng.IntN(len(k.gates)))
			k.s.at(k.s.now+int64(k.s.rng.ExpFloat64()/rate*float64(second)), next)
		}
	}
	k.s.at(k.s.now, next)
}

// over returns the excess of the admitted cost over r·t + b, from a time on, in the worst window.
func (k *siteKey) over(from int64) float64 {
	level, worst, at := 0., 0., from
	for _, a := range k.admitted {
		if a.at >= from {
			level = max(0, level-k.p.Rate*float64(a.at-at)/float64(second)) + 1
			worst, at = max(worst, level), a.at
		}
	}
	return worst - float64(k.p.Burst)/grant.Token
}
