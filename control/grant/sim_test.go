package grant

import (
	"container/heap"
	"math/rand/v2"
	"slices"
)

// network carries the messages of several keys on virtual time, those between a gateway and the owners
// through one line each way.
type network struct {
	rng     *rand.Rand
	now     int64
	events  events
	order   int
	delay   func(*rand.Rand) int64
	loss    float64
	keys    []*world
	asks    []Line[*gate]  // by gateway
	recalls []Line[*world] // likewise, with room for two liars
	calls   []Line[*world] // of parts
}

// world plays one key: an owner, gateways and a network.
type world struct {
	*network
	p       Params
	owner   *Owner
	gates   []*gate
	ownerUp bool
	life    uint64
	refuses bool // what is left unanswered is refused: what a crashed gateway has is spent
	lenient bool // callers admit what is left unanswered, as a ledger does that knows of all

	messages int
	admitted []entry
	central  []entry // what one bucket admits
	bucket   int64   // its D
	bucketAt int64
	wrongful int // refused although one bucket admits
	offered  int
	held     []int64
	alone    int // admitted though unanswered
	byPart   int // admitted by a standing part

	check func() // after each event, too
}

type entry struct{ at, cost int64 }

type gate struct {
	w       *world
	id      Peer
	g       *Gateway
	waiting []*held
	own     ownPart
	up      bool
	part    gatePart
}

type held struct {
	at, cost int64
	would    bool
	gone     bool
}

type event struct {
	at    int64
	order int
	f     func()
}
type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

func newWorld(p Params, n int, way int64, seed uint64) *world {
	net := &network{rng: rand.New(rand.NewPCG(seed, 1)), asks: make([]Line[*gate], n), recalls: make([]Line[*world], n+2),
		calls: make([]Line[*world], n+2)}
	net.delay = func(r *rand.Rand) int64 { return way/2 + r.Int64N(way+1) }
	return net.world(p, n)
}

// world adds a key.
func (net *network) world(p Params, n int) *world {
	w := &world{network: net, p: p.withDefaults(), ownerUp: true, life: 1}
	w.owner = NewOwner(p, w.life, 0)
	for i := range n {
		w.gates = append(w.gates, &gate{w: w, id: Peer(i), g: NewGateway(p, 1<<20), up: true})
	}
	net.keys = append(net.keys, w)
	return w
}

func (net *network) after(d int64, f func()) {
	net.order++
	heap.Push(&net.events, event{net.now + d, net.order, f})
}

func (net *network) at(t int64, f func()) { net.after(t-net.now, f) }

// run plays until the given time.
func (net *network) run(until int64) {
	for len(net.events) > 0 && net.events[0].at <= until {
		e := heap.Pop(&net.events).(event)
		net.now = e.at
		e.f()
		for _, w := range net.keys {
			w.checkConserved()
			if w.check != nil {
				w.check()
			}
		}
	}
	net.now = until
}

// checkConserved holds the invariant that everything rests on.
func (w *world) checkConserved() {
	if !w.ownerUp {
		return
	}
	b := &w.owner.b
	if b.out < 0 || b.spent < b.out {
		panic("out must be in [0, D]")
	}
	canSpend, buckets := int64(0), 0
	for _, g := range w.gates {
		if !g.up || g.g.owner != w.life && g.g.owner != 0 {
			continue
		}
		canSpend += max(0, g.g.counts.tokens())
		if g.g.exclusive {
			buckets++
		}
	}
	lost, deaf := w.owner.writtenOff()
	if w.loss < 2 && canSpend > b.out+lost && w.life == 1 {
		panic("gateways can spend more than is out")
	}
	if buckets > 1+deaf && w.life == 1 {
		panic("two gateways have the bucket")
	}
}

// writtenOff returns the tokens that the owner has counted as spent because their gateway did not answer a
// recall, and how many gateways have not answered. With messages lost each repeat of a recall may be lost.
func (o *Owner) writtenOff() (tokens int64, deaf int) {
	for i := range o.users {
		u := &o.users[i]
		tokens += u.gone
		if u.recall.deaf || u.recall.slow {
			deaf++
		}
	}
	return tokens, deaf
}

func (w *world) send(f func()) {
	w.messages++
	if w.rng.Float64() < w.loss {
		return
	}
	w.after(w.delay(w.rng), f)
}

// Grant and Recall make the world the owner's outbox.
func (w *world) Grant(to Peer, m Grant) {
	w.send(func() {
		if g := w.gates[to]; g.up {
			g.do(func() {
				if g.g.Grant(w.now, m) {
					w.asks[to].Park(w.now, g, m.Wait)
				}
			})
		}
	})
}

func (w *world) Recall(to Peer, _ Recall) {
	w.recalls[to].Add(w, false)
	w.after(0, func() { w.sendRecalls(to) })
}

// sendRecalls sends a gateway the recalls for which there is room, of all keys.
func (net *network) sendRecalls(to Peer) {
	line := &net.recalls[to]
	for w, ok := line.Next(net.now); ok; w, ok = line.Next(net.now) {
		m, open := w.owner.Recalling(to)
		if !open || !w.ownerUp {
			line.Done(net.now, w, false)
			continue
		}
		w.send(func() {
			if g := w.gates[to]; g.up {
				g.do(func() { g.g.Recall(w.now, m) })
			}
		})
	}
	if d := line.Due(net.now); d > 0 {
		net.at(max(d, net.now+1), func() { net.sendRecalls(to) })
	}
}

// do runs a step of the gateway and what follows from it.
func (g *gate) do(f func()) {
	f()
	for len(g.waiting) > 0 {
		h := g.waiting[0]
		if h.gone {
			g.waiting = g.waiting[1:]
			continue
		}
		out := g.g.Retry(g.w.now, h.at, h.cost)
		if out == Waits {
			break
		}
		g.waiting = g.waiting[1:]
		g.done(h, out)
	}
	g.flush()
}

func (g *gate) flush() {
	w := g.w
	if q, ok := g.g.Poll(w.now); ok {
		g.send(q)
	}
	line := &w.asks[g.id]
	is, urgent := g.g.Wants(w.now)
	if is {
		line.Add(g, urgent)
	}
	if !is || !g.g.ask.open {
		line.Done(w.now, g, !is)
	}
	if is {
		line.Add(g, urgent)
	}
	w.sendAsks(g.id)
}

// sendAsks sends the questions of a gateway for which there is room, of all keys.
func (net *network) sendAsks(of Peer) {
	line := &net.asks[of]
	for g, ok := line.Next(net.now); ok; g, ok = line.Next(net.now) {
		if q, ok := g.g.Ask(net.now); ok && g.up {
			g.send(q)
		} else {
			line.Done(net.now, g, false)
		}
	}
	if d := line.Due(net.now); d > 0 {
		net.at(max(d, net.now+1), func() { net.sendAsks(of) })
	}
}

func (g *gate) send(q Request) {
	w := g.w
	w.send(func() {
		if w.ownerUp {
			w.owner.Request(w.now, g.id, q, w)
			if _, open := w.owner.Recalling(g.id); !open {
				w.recalls[g.id].Done(w.now, w, true)
			}
			w.wakeOwner()
		}
	})
}

func (w *world) wakeOwner() {
	if d := w.owner.Due(); d > 0 {
		o := w.owner
		w.at(max(d, w.now+1), func() {
			if w.ownerUp && w.owner == o && o.Due() != 0 && o.Due() <= w.now {
				o.Tick(w.now, w)
				w.wakeOwner()
			}
		})
	}
}

// request offers one request at a gateway.
func (w *world) request(i int, cost int64) {
	g := w.gates[i]
	if !g.up {
		return
	}
	w.offered++
	h := &held{at: w.now, cost: cost, would: w.wouldAdmit(cost)}
	if g.takePart(cost) {
		h.gone = true
		w.byPart++
		w.admitted = append(w.admitted, entry{w.now, cost})
		return
	}
	g.do(func() {
		out := g.g.Take(w.now, cost)
		if out != Waits {
			g.done(h, out)
			return
		}
		g.waiting = append(g.waiting, h)
		w.after(w.p.Hold, func() {
			if !h.gone && g.up {
				g.do(func() { g.done(h, g.g.Expire(w.now, h.cost)) })
			}
		})
	})
}

func (g *gate) done(h *held, out Outcome) {
	h.gone = true
	w := g.w
	if out == Unanswered && w.lenient {
		w.alone++
		g.g.Owe(w.now, h.cost)
		out = Admitted
	} else if out == Unanswered && w.refuses {
		out = Refused
	} else if out == Unanswered {
		out = g.own.take(g.g, len(w.gates), w.now, h.cost)
	} else {
		g.own.inUse = false
	}
	w.held = append(w.held, w.now-h.at)
	switch {
	case out == Admitted:
		w.admitted = append(w.admitted, entry{w.now, h.cost})
	case h.would:
		w.wrongful++
	}
}

// wouldAdmit plays the central bucket.
func (w *world) wouldAdmit(cost int64) bool {
	w.bucket = max(0, w.bucket-int64(w.p.cost(w.now-w.bucketAt)))
	w.bucketAt = w.now
	if w.p.Burst-w.bucket < cost {
		return false
	}
	w.bucket += cost
	w.central = append(w.central, entry{w.now, cost})
	return true
}

// excess returns by how much the admitted cost exceeds r·t + b in its worst window, in
// tokens.
func excess(p Params, list []entry) float64 {
	level, worst, at := 0.0, 0.0, int64(0)
	for _, e := range list {
		level = max(0, level-p.cost(e.at-at)) + float64(e.cost)
		at = e.at
		worst = max(worst, level)
	}
	return (worst - float64(max(p.Burst, Token))) / Token
}

func total(list []entry) float64 {
	sum := 0.0
	for _, e := range list {
		sum += float64(e.cost)
	}
	return sum / Token
}

func (w *world) p99() int64 {
	slices.Sort(w.held)
	return w.held[len(w.held)*99/100]
}

// poisson offers requests of one token at rate per second, at the gateway that pick says.
func (w *world) poisson(rate float64, until int64, pick func() int) {
	var next func()
	next = func() {
		if w.now > until {
			return
		}
		w.request(pick(), Token)
		w.after(int64(w.rng.ExpFloat64()/rate*second), next)
	}
	w.after(int64(w.rng.ExpFloat64()/rate*second), next)
}

// bursts offers n requests at once each period, hopping from gateway to gateway.
func (w *world) bursts(n int, period, until int64) {
	i := 0
	var next func()
	next = func() {
		if w.now > until {
			return
		}
		for range n {
			w.request(i%len(w.gates), Token)
		}
		i++
		w.after(period, next)
	}
	w.after(period, next)
}
