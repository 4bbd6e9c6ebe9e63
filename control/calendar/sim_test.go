package calendar

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"testing"
)

// The world of the tests has gateways, agents that own the key one after the other or two at once, and a coordinator
// with a store. Time is virtual; messages are late, lost and repeated.

type event struct {
	at  int64
	seq int
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// rule is left out of a world as a variant that must fail.
type rule int

const (
	none       rule = iota
	intervals       // 1: a booking is a high-water mark of the owner's own
	repeats         // 2: a repeat gets another interval
	cumulative      // 3: gateways count each Reply again
	stepRule        // 4: the owner books what waits only
	numbers         // 5: units do not end with their period
	openRule        // 6: an OPEN owner waits for its bookings
	alone           // 6: an owner that does not reach all agents goes on by its own count
	known           // 7: nobody says the highest end
	unbooked        // 7: nobody says how much of it no interval had
	recalls         // 8: idle units stay where they are
)

type world struct {
	t        *testing.T
	rnd      *rand.Rand
	without  rule
	now      int64
	events   events
	seq      int
	loss     float64
	amount   Units
	open     bool
	period   int64
	ends     int64
	length   int64
	gateways []*gatewaySim
	agents   []*agentSim
	store    storeSim
	sessions uint64
	lives    uint64

	admitted                 map[int64]Units // by period of the owner's saying
	refused, waited, offered int
	long                     int // waited for the store
}

type gatewaySim struct {
	w     *world
	peer  Peer
	g     *Gateway
	owner *agentSim
	line  []waiting
	dead  bool
}

type waiting struct {
	cost Units
	till int64
}

type agentSim struct {
	w     *world
	o     *Owner
	next  int64 // Tick
	dead  bool
	close bool
}

// storeSim is the coordinator and its store.
type storeSim struct {
	end     map[int64]Units
	given   map[[3]uint64]Booked
	delay   func() int64
	away    bool
	marks   map[uint64]Units
	writes  int
	returns int
}

func newWorld(t *testing.T, seed uint64, amount Units, without rule) *world {
	w := &world{t: t, rnd: rand.New(rand.NewPCG(seed, 9)), without: without, amount: amount, open: true, period: 1,
		length: 24 * 3600 * second, admitted: map[int64]Units{}}
	w.ends = w.length
	w.store = storeSim{end: map[int64]Units{}, given: map[[3]uint64]Booked{}, marks: map[uint64]Units{},
		delay: func() int64 { return (3 + w.rnd.Int64N(5)) * millisecond }}
	w.at(w.ends, w.nextPeriod)
	return w
}

func (w *world) at(at int64, do func()) {
	w.seq++
	heap.Push(&w.events, event{max(at, w.now), w.seq, do})
}

func (w *world) run(until int64) {
	for len(w.events) > 0 && w.events[0].at <= until {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.do()
	}
	w.now = until
}

func (w *world) session() uint64 {
	w.sessions++
	return w.sessions
}

func (w *world) nextPeriod() {
	w.period++
	w.ends += w.length
	w.at(w.ends, w.nextPeriod)
	for _, a := range w.agents {
		if !a.dead && !a.close {
			a.o.SetPeriod(w.now, w.period, w.ends, w.session(), a)
			a.arm()
		}
	}
}

func (w *world) agent() *agentSim {
	w.lives++
	a := &agentSim{w: w, o: NewOwner(Terms{w.amount, w.open}, w.lives, w.session())}
	w.agents = append(w.agents, a)
	a.o.SetPeriod(w.now, w.period, w.ends, w.session(), a)
	return a
}

func (w *world) gateway(owner *agentSim) *gatewaySim {
	g := &gatewaySim{w: w, peer: Peer(len(w.gateways) + 1), owner: owner, g: NewGateway(w.now, 0, w.session())}
	w.gateways = append(w.gateways, g)
	return g
}

// Reply takes a message to a gateway.
func (a *agentSim) Reply(to Peer, m Reply) {
	w := a.w
	if w.without == known {
		m.Known = 0
	}
	if w.without == unbooked {
		m.Unbooked = 0
	}
	if w.without == recalls {
		m.Recall = false
	}
	g := w.gateways[to-1]
	for range w.copies() {
		w.at(w.now+w.way(), func() { g.receive(m) })
	}
}

func (w *world) way() int64 { return 200*microsecond + w.rnd.Int64N(millisecond) }

func (w *world) copies() int {
	switch x := w.rnd.Float64(); {
	case x < w.loss:
		return 0
	case x < 2*w.loss:
		return 2
	}
	return 1
}

// Book takes a question to the coordinator.
func (a *agentSim) Book(q Want) {
	w := a.w
	if w.without == known {
		q.Known = 0
	}
	if w.without == stepRule && q.Wanted > 0 {
		if q.Wanted = min(q.Wanted, a.o.now.waits(w.now)); q.Wanted == 0 {
			b := Booked{Session: q.Session, Number: q.Number, Period: q.Period}
			w.at(w.now+millisecond, func() { a.o.Booked(w.now, b, a) })
			return
		}
	}
	w.at(w.now+millisecond, func() {
		w.store.book(w, q, func(b Booked) {
			w.at(w.now+millisecond, func() {
				if !a.dead && w.rnd.Float64() >= w.loss {
					a.o.Booked(w.now, b, a)
					a.arm()
				}
			})
		})
	})
}

func (s *storeSim) book(w *world, q Want, answer func(Booked)) {
	out := Booked{Session: q.Session, Number: q.Number, Period: q.Period}
	if s.away {
		out.Reason = StoreAway
		w.at(w.now+100*millisecond, func() { answer(out) })
		return
	}
	key := [3]uint64{q.Session, q.Number, uint64(q.Period)}
	if q.Wanted == 0 {
		if q.Returned > 0 && s.end[q.Period] == s.given[key].To {
			s.end[q.Period] = q.Returned
			s.returns++
		}
		answer(out)
		return
	}
	if had, ok := s.given[key]; ok && w.without != repeats {
		w.at(w.now+s.delay(), func() { answer(had) })
		return
	}
	at := max(s.end[q.Period], q.Known)
	if w.without == intervals { // each owner says from where on it books
		at = max(s.marks[q.Session], q.Known)
	}
	out.From, out.To = at, min(at+q.Wanted, max(at, w.amount))
	if out.To-out.From < q.Wanted {
		out.Reason = UsedUp
	}
	s.end[q.Period], s.marks[q.Session] = max(s.end[q.Period], out.To), out.To
	s.given[key] = out
	s.writes++
	if q.Number == 1 { // the owner may know nothing
		w.at(w.now+SlowAfter, func() { answer(Booked{q.Session, 1, q.Period, out.From, out.From, NotStored}) })
	}
	w.at(w.now+s.delay(), func() { answer(out) })
}

// arm has the owner do what is due.
func (a *agentSim) arm() {
	if a.next = a.o.Due(a.w.now); a.next != 0 && !a.dead {
		a.next = max(a.next, a.w.now+100*microsecond)
		a.w.at(a.next, func() {
			if !a.dead && a.next == a.w.now {
				a.o.Tick(a.w.now, a)
				a.arm()
			}
		})
	}
}

func (g *gatewaySim) receive(m Reply) {
	if g.dead {
		return
	}
	w := g.w
	if w.without == cumulative && m.Session == g.g.session && m.Number <= g.g.heard && m.Granted > 0 && !m.Begin {
		g.g.has += m.Granted / 2
	}
	had, period := g.g.has, g.g.period
	g.g.Receive(w.now, m, w.session)
	if w.without == numbers {
		if g.g.ends = 0; g.g.period != period && period != 0 {
			g.g.has += max(had, 0)
		}
	}
	g.retry()
	g.poll()
}

func (g *gatewaySim) retry() {
	for len(g.line) > 0 {
		cost := g.line[0].cost
		switch g.g.Retry(g.w.now, cost) {
		case Admitted:
			g.w.admit(cost)
			if g.line[0].till-g.w.now < MaxWait-10*millisecond {
				g.w.long++
			}
		case Refused:
			g.w.refused++
		default:
			return
		}
		g.line = g.line[1:]
	}
}

// admit counts by the true period.
func (w *world) admit(cost Units) { w.admitted[w.period] += cost }

func (g *gatewaySim) request(cost Units) {
	if g.dead {
		return
	}
	w := g.w
	w.offered++
	switch g.g.Take(w.now, cost) {
	case Admitted:
		w.admit(cost)
	case Refused:
		w.refused++
	default:
		w.waited++
		till := w.now + MaxWait
		g.line = append(g.line, waiting{cost, till})
		w.at(till, func() {
			for len(g.line) > 0 && g.line[0].till <= w.now && !g.dead {
				g.g.Leave(w.now, g.line[0].cost, true)
				g.line = g.line[1:]
				w.refused++
			}
			g.poll()
		})
	}
	g.poll()
}

func (g *gatewaySim) poll() {
	w := g.w
	if g.dead {
		return
	}
	for {
		m, _, ok := g.g.Ending(w.now)
		if !ok {
			break
		}
		g.send(m)
	}
	if m, ok := g.g.Poll(w.now, w.session); ok {
		g.send(m)
	}
	if due := g.g.Due(w.now); due != 0 {
		w.at(max(due, w.now+100*microsecond), func() {
			if d := g.g.Due(w.now); !g.dead && d != 0 && d <= w.now {
				g.poll()
			}
		})
	}
}

func (g *gatewaySim) send(m Ask) {
	w, to := g.w, g.owner
	if w.without == known {
		m.Known = 0
	}
	for range w.copies() {
		w.at(w.now+w.way(), func() {
			if !to.dead && !to.close {
				to.o.Ask(w.now, g.peer, m, to)
				to.arm()
			}
		})
	}
}

// move has another agent own the key.
func (w *world) move(from, to *agentSim, orderly bool) {
	if orderly {
		from.o.Close(from)
		from.close = true
	}
	for _, g := range w.gateways {
		if g.owner == from && !g.dead {
			g.owner = to
			g.g.Move(w.now, 0, w.session())
			g.poll()
		}
	}
}

// load has requests come to a gateway at a rate per second until a time.
func (w *world) load(rate float64, cost Units, until int64) {
	w.loadAt(rate, until, func() {
		live := slices.DeleteFunc(slices.Clone(w.gateways), func(g *gatewaySim) bool { return g.dead })
		if len(live) > 0 {
			live[w.rnd.IntN(len(live))].request(cost)
		}
	})
}

func (w *world) loadAt(rate float64, until int64, do func()) {
	var next func()
	next = func() {
		do()
		if at := w.now + int64(w.rnd.ExpFloat64()/rate*second); at < until {
			w.at(at, next)
		}
	}
	w.at(w.now+int64(w.rnd.ExpFloat64()/rate*second), next)
}

// over returns what was admitted beyond the amount, over all periods.
func (w *world) over() (sum Units) {
	for _, n := range w.admitted {
		sum += max(0, n-w.amount)
	}
	return sum
}
