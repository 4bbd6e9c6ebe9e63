package slots

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// world is an installation on virtual time: gateways that start requests, owners of one key, and a network between
// them that loses, repeats and reorders messages.
type world struct {
	t       *testing.T
	r       *rand.Rand
	now     int64
	queue   events
	serial  int
	n       netParams
	without rule // left out

	limit    int64
	wait     int64 // of requests for a slot; 0: MaxWait
	greatest int64 // limit within the last seconds
	nodes    []*node
	owners   []*server
	lives    uint64
	peers    Peer

	flying   int64 // requests in flight
	cut      int64 // of them, those of gateways whose lease has run out meanwhile
	most     int64 // flying − cut, above the limit
	stat     stat
	sessions uint64
}

type rule int

type netParams struct {
	delay       int64
	loss, again float64
}

type stat struct {
	wanted, refused, wrongly, messages int
	busy                               float64 // integral of flying
	since                              int64
	wanted1, got1                      []int // per gateway
}

// node is a process of a gateway.
type node struct {
	id        int
	peer      Peer
	g         *Gateway
	owner     *server
	lease     Lease
	gone      bool
	closed    bool // takes no new requests
	cutTil    int64
	line      []*request
	open      map[*request]bool
	wakeAt    int64
	said, sum int64 // without rule 1
}

// server is an agent's owner of the key.
type server struct {
	life  uint64
	o     *Owner
	peers Peers
	gone  bool
	echo  map[Peer]int64
	wake  int64
}

type request struct {
	stay  int64
	cut   bool
	ended bool
}

type event struct {
	at int64
	n  int
	f  func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].n < e[j].n
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	x := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return x
}

func newWorld(t *testing.T, seed uint64, limit int64, n netParams, without rule) *world {
	w := &world{t: t, r: rand.New(rand.NewPCG(seed, 1)), limit: limit, greatest: limit, n: n, without: without, now: second}
	w.newOwner(0)
	return w
}

func (w *world) at(at int64, f func()) {
	w.serial++
	heap.Push(&w.queue, event{max(at, w.now), w.serial, f})
}

func (w *world) after(d int64, f func()) { w.at(w.now+d, f) }

func (w *world) run(until int64) {
	for len(w.queue) > 0 && w.queue[0].at <= until {
		e := heap.Pop(&w.queue).(event)
		w.pass(e.at)
		e.f()
	}
	w.pass(until)
}

func (w *world) pass(to int64) {
	w.stat.busy += float64(w.flying) * float64(to-max(w.now, w.stat.since))
	w.now = to
}

func (w *world) measure() {
	w.stat = stat{since: w.now, wanted1: make([]int, len(w.nodes)), got1: make([]int, len(w.nodes))}
}

func (w *world) newOwner(listen int64) *server {
	w.lives++
	s := &server{life: w.lives, echo: map[Peer]int64{}}
	s.o = NewOwner(w.limit, s.life, listen)
	w.owners = append(w.owners, s)
	w.sweep(s)
	return s
}

func (w *world) owner() *server { return w.owners[len(w.owners)-1] }

// sweep ends the sessions of gateways that are unreachable.
func (w *world) sweep(s *server) {
	if s.gone {
		return
	}
	w.expire(s)
	w.after(50*millisecond, func() { w.sweep(s) })
}

func (w *world) expire(s *server) {
	gone := s.peers.Expired(w.now)
	slices.Sort(gone)
	for _, p := range gone {
		s.o.End(w.now, p, outbox{w, s})
		delete(s.echo, p)
	}
	w.schedule(s)
}

type outbox struct {
	w *world
	s *server
}

func (o outbox) Reply(to Peer, m Reply) {
	w, s := o.w, o.s
	i := slices.IndexFunc(w.nodes, func(n *node) bool { return n.peer == to && !n.gone && n.g.session == m.Session })
	if i < 0 {
		i = slices.IndexFunc(w.nodes, func(n *node) bool { return n.peer == to && !n.gone })
	}
	if i < 0 {
		return
	}
	n := w.nodes[i]
	echo := s.echo[to]
	w.alter(&m)
	w.send(n, func() {
		w.lapse(n)
		if n.owner == s {
			n.lease.Renew(w.now, echo)
			n.g.Reply(w.now, m)
			w.settle(n)
		}
	})
}

// alter leaves out a rule of owners.
func (w *world) alter(m *Reply) {
	switch w.without {
	case 6:
		if !m.Full {
			m.Short = 0
		}
	case 7:
		m.Full = false
	case 10:
		m.Keep = -1
	}
}

// send has a message arrive between a gateway and the owner.
func (w *world) send(n *node, f func()) {
	w.stat.messages++
	if w.now < n.cutTil || w.r.Float64() < w.n.loss {
		return
	}
	arrive := func() {
		w.after(int64(float64(w.n.delay)*(.8+.4*w.r.Float64())), func() {
			if !n.gone && w.now >= n.cutTil {
				f()
			}
		})
	}
	arrive()
	for w.r.Float64() < w.n.again {
		w.after(int64(w.r.Float64()*1e9*w.r.Float64()), arrive)
	}
}

func (w *world) newNode() *node {
	w.peers++
	w.sessions += 1 << 20
	n := &node{id: len(w.nodes), peer: w.peers, owner: w.owner(), open: map[*request]bool{}}
	n.g = NewGateway(w.now, &n.lease, w.sessions)
	n.g.SetQueue(w.wait, 1000)
	w.nodes = append(w.nodes, n)
	w.stat.wanted1, w.stat.got1 = append(w.stat.wanted1, 0), append(w.stat.got1, 0)
	w.beat(n)
	return n
}

// beat keeps the lease of a gateway.
func (w *world) beat(n *node) {
	if n.gone {
		return
	}
	w.lapse(n)
	s, sent := n.owner, w.now
	w.toOwner(n, s, sent, func() {
		echo := s.echo[n.peer]
		w.send(n, func() {
			w.lapse(n)
			if n.owner == s {
				n.lease.Renew(w.now, echo)
				w.settle(n)
			}
		})
	})
	w.after(BeatEvery, func() { w.beat(n) })
}

// toOwner has a message of a gateway arrive.
func (w *world) toOwner(n *node, s *server, sent int64, f func()) {
	w.send(n, func() {
		if s.gone {
			return
		}
		w.expire(s)
		s.peers.Heard(w.now, n.peer)
		s.echo[n.peer] = max(s.echo[n.peer], sent)
		f()
		w.schedule(s)
	})
}

// lapse notes that a gateway's lease has run out.
func (w *world) lapse(n *node) {
	if w.without == 4 && n.lease.until != 0 {
		n.lease.until = math.MaxInt64
	}
	if !n.lease.Lapsed(w.now) {
		return
	}
	w.cutStreams(n)
	w.sessions += 1 << 20
	if w.without == 5 {
		n.g.Move(w.now, &n.lease, w.sessions)
	} else {
		n.g.Lapse(w.now, w.sessions)
	}
	w.settle(n)
}

func (w *world) cutStreams(n *node) {
	for r := range n.open {
		if !r.cut {
			r.cut = true
			w.cut++
		}
	}
}

// settle does what follows each step of a gateway.
func (w *world) settle(n *node) {
	if n.gone {
		return
	}
	for len(n.line) > 0 && n.g.Retry(w.now) {
		r := n.line[0]
		n.line = n.line[1:]
		w.begin(n, r)
	}
	for range n.g.Surplus(w.now) {
		n.line = n.line[:len(n.line)-1]
		n.g.Leave(w.now, false)
		w.refuse()
	}
	for a, ok := n.g.Poll(w.now); ok; a, ok = n.g.Poll(w.now) {
		w.ask(n, a)
	}
	if due := n.g.Due(w.now); due != 0 && (n.wakeAt <= w.now || due < n.wakeAt) {
		n.wakeAt = max(due, w.now+1)
		w.at(n.wakeAt, func() {
			if !n.gone {
				w.lapse(n)
				w.settle(n)
			}
		})
	}
}

func (w *world) ask(n *node, a Ask) {
	if w.without == 9 {
		a.Patience, a.Want = second, max(a.Want, 1)
	}
	s := n.owner
	if w.without == 1 { // the count of one message only, added up as the messages come
		n.said, a.Returned = a.Returned, a.Returned-n.said
		w.toOwner(n, s, w.now, func() {
			n.sum += a.Returned
			a.Returned = n.sum
			s.o.Ask(w.now, n.peer, a, outbox{w, s})
		})
		return
	}
	w.toOwner(n, s, w.now, func() { s.o.Ask(w.now, n.peer, a, outbox{w, s}) })
}

func (w *world) schedule(s *server) {
	due := s.o.Due()
	if s.gone || due == 0 || s.wake > w.now && s.wake <= due {
		return
	}
	s.wake = max(due, w.now+1)
	w.at(s.wake, func() {
		if !s.gone {
			s.o.Tick(w.now, outbox{w, s})
			w.schedule(s)
		}
	})
}

// --- requests ---

func (w *world) come(n *node, stay int64) {
	if n.gone || n.closed {
		return
	}
	w.stat.wanted++
	w.stat.wanted1[n.id]++
	r := &request{stay: stay}
	w.lapse(n)
	if w.without == 8 && w.now < n.g.full && n.g.idle() == 0 {
		w.refuse()
		return
	}
	switch n.g.Take(w.now) {
	case Admitted:
		w.begin(n, r)
	case Waits:
		n.line = append(n.line, r)
		w.after(n.g.wait, func() { w.giveUp(n, r) })
	default:
		w.refuse()
	}
	w.settle(n)
}

func (w *world) giveUp(n *node, r *request) {
	i := slices.Index(n.line, r)
	if n.gone || i < 0 {
		return
	}
	n.line = slices.Delete(n.line, i, i+1)
	w.lapse(n)
	n.g.Leave(w.now, true)
	w.refuse()
	w.settle(n)
}

func (w *world) refuse() {
	w.stat.refused++
	if w.flying < w.limit {
		w.stat.wrongly++
	}
}

func (w *world) begin(n *node, r *request) {
	w.stat.got1[n.id]++
	w.flying++
	w.most = max(w.most, w.flying-w.cut-w.greatest)
	n.open[r] = true
	w.after(r.stay, func() { w.end(n, r) })
}

func (w *world) end(n *node, r *request) {
	if r.ended {
		return
	}
	r.ended = true
	delete(n.open, r)
	w.flying--
	if r.cut {
		w.cut--
	}
	if n.gone {
		return
	}
	w.lapse(n)
	n.g.Free(w.now)
	w.settle(n)
}

// load has requests come to a gateway until some time.
func (w *world) load(n *node, until int64, perSecond float64, stay func() int64) {
	gap := int64(w.r.ExpFloat64() / perSecond * 1e9)
	if w.now+gap > until {
		return
	}
	w.after(gap, func() {
		w.come(n, stay())
		w.load(n, until, perSecond, stay)
	})
}

// exponential draws stays.
func (w *world) exponential(mean int64) func() int64 {
	return func() int64 { return int64(w.r.ExpFloat64() * float64(mean)) }
}
