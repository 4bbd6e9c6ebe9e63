package quotas

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
	_ "time/tzdata" // the zones, wherever this runs

	"github.com/titrate/titrate/control/calendar"
	"github.com/titrate/titrate/control/calendar/keys"
	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/services/agent/quotas"
)

// event happens at a time. Events of the same time happen in the order in which they were planned.
type event struct {
	at time.Duration
	n  int
	do func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].n < e[j].n
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

const (
	hosts = 3
	key   = 77
	hour  = time.Hour
)

// monthly begins with the test, at begins.
var (
	monthly = config.Calendar{Per: config.Month, Zone: "Europe/Berlin", StartsOn: 1}
	begins  = time.Date(2026, 10, 31, 23, 0, 0, 0, time.UTC)
	name    = exchange.KeyName{Tenant: "acme", Limit: "monthly", Client: "c"}
)

// world has hosts, each with an agent and a gateway, and one client's key.
type world struct {
	t      *testing.T
	random *rand.Rand
	now    time.Duration
	events events
	n      int
	loss   float64 // of messages between hosts
	terms  calendar.Terms
	hosts  []*host
	coordinator

	admitted, refused, offered int
}

// host has an agent, which may be killed alone, and a gateway.
type host struct {
	w       *world
	name    string
	life    uint64
	desk    *quotas.Desk // nil: the agent is down
	sees    [hosts]bool  // the agents that this one takes for alive
	apart   [hosts]bool  // a partition
	tick    time.Duration
	store   *keys.Store[struct{}]
	process uint64
	poll    time.Duration
	expires time.Duration
}

func newWorld(t *testing.T, seed uint64, amount int, open bool) *world {
	w := &world{t: t, random: rand.New(rand.NewPCG(seed, 31)), now: time.Second, loss: .01,
		terms: calendar.Terms{Amount: calendar.Units(amount) * calendar.Unit, Open: open}}
	w.coordinator = coordinator{w: w, stores: w.quick}
	w.lead()
	for i := range hosts {
		w.hosts = append(w.hosts, &host{w: w, name: fmt.Sprint("agent-", i)})
	}
	for _, h := range w.hosts {
		h.startGateway()
		h.startAgent()
	}
	w.announce()
	return w
}

// after plans an event.
func (w *world) after(d time.Duration, do func()) {
	w.n++
	heap.Push(&w.events, event{w.now + d, w.n, do})
}

func (w *world) run(until time.Duration) {
	for len(w.events) > 0 && w.events[0].at <= until {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.do()
	}
	w.now = until
}

// between returns a time between two others.
func (w *world) between(from, to time.Duration) time.Duration {
	return from + time.Duration(w.random.Int64N(int64(to-from)))
}

// life numbers processes, and so agents' sessions: no two are the same.
func (w *world) life() uint64 { w.n++; return uint64(w.n) << 32 }

func (h *host) startAgent() {
	w := h.w
	h.life = w.life()
	h.desk = quotas.New(quotas.Options{Agent: h.name, Life: h.life, Revision: func() int64 { return 1 },
		Owner: func(hash uint64) string { return h.owner(hash).name },
		Limit: func(n *exchange.KeyName) (uint64, calendar.Terms, config.Calendar, bool) {
			return key, w.terms, monthly, *n == name
		}})
	for i, b := range w.hosts {
		h.sees[i] = b.desk != nil && !h.apart[i]
	}
	h.changed()
	for i, b := range w.hosts {
		if b != h && b.desk != nil && !h.apart[i] {
			w.after(w.between(50*time.Millisecond, 500*time.Millisecond), func() { b.see(h, true) })
		}
	}
	h.hello()
}

// killAgent ends the agent, and begins another one later.
func (h *host) killAgent(later time.Duration) {
	w := h.w
	if h.desk == nil {
		return
	}
	h.desk = nil
	h.store.Link(false)
	for _, b := range w.hosts {
		if b != h {
			w.after(w.between(time.Second, 4*time.Second), func() {
				if h.desk == nil {
					b.see(h, false)
				}
			})
		}
	}
	w.after(later, h.startAgent)
}

// see notes that the memberlist reports another agent as alive or failed.
func (h *host) see(b *host, alive bool) {
	for i := range h.w.hosts {
		if h.w.hosts[i] == b {
			h.sees[i] = alive
		}
	}
	h.changed()
}

// changed gives the agent and its gateway the agents that are seen.
func (h *host) changed() {
	if h.desk == nil {
		return
	}
	lives, owners, alone := map[uint64]string{}, exchange.Owners{}, false
	for i, b := range h.w.hosts {
		if !h.sees[i] {
			alone = true
			continue
		}
		lives[b.life] = b.name
		owners.List = append(owners.List, exchange.Owner{Life: b.life, Hash: exchange.OwnerHash(b.name)})
	}
	h.desk.SetAlone(alone)
	h.desk.Changed(h.w.now, lives)
	h.flush()
	h.local(func() {
		h.store.Link(true)
		h.store.SetOwners(int64(h.w.now), owners)
		h.pollGateway()
	})
}

// owner is the host whose agent owns a key, as this one sees it.
func (h *host) owner(hash uint64) (best *host) {
	most := uint64(0)
	for i, b := range h.w.hosts {
		if s := exchange.OwnerScore(hash, exchange.OwnerHash(b.name)); h.sees[i] && (best == nil || s > most) {
			best, most = b, s
		}
	}
	return best
}

// local does something a moment later between the agent and its gateway, if both still live.
func (h *host) local(do func()) {
	life, process := h.life, h.process
	h.w.after(100*time.Microsecond, func() {
		if h.desk != nil && h.life == life && h.process == process {
			do()
		}
	})
}

// flush sends what the agent has to send, and plans its next tick.
func (h *host) flush() {
	w := h.w
	answers, packets, bookings := h.desk.Take()
	for _, m := range answers[h.process] {
		h.local(func() {
			h.done(h.store.Answer(int64(w.now), m, nil))
			h.pollGateway()
		})
	}
	for i, b := range w.hosts {
		p, life := packets[b.name], b.life
		if p == nil || h.apart[i] || w.random.Float64() < w.loss {
			continue
		}
		w.after(w.between(300*time.Microsecond, time.Millisecond), func() {
			if b.desk != nil && b.life == life {
				b.desk.Receive(w.now, h.name, p)
				b.flush()
			}
		})
	}
	for _, m := range quotas.EncodeBookings(bookings) {
		w.after(time.Millisecond, func() { w.take(h, m) })
	}
	if due := h.desk.Due(); due != 0 && (h.tick <= w.now || due < h.tick) {
		h.tick = max(due, w.now+100*time.Microsecond)
		at, life := h.tick, h.life
		w.after(at-w.now, func() {
			if h.desk != nil && h.life == life && h.tick == at {
				h.tick = 0
				h.desk.Tick(w.now)
				h.flush()
			}
		})
	}
}

// startGateway begins the process of a gateway. What the one before had is lost.
func (h *host) startGateway() {
	w := h.w
	h.process, h.poll, h.expires = w.life(), 0, 0
	h.store = keys.New[struct{}](h.process, func() {})
	if h.desk != nil {
		h.changed()
	}
}

// pollGateway sends the gateway's messages, and plans the next ones.
func (h *host) pollGateway() {
	w := h.w
	list, next := h.store.Poll(int64(w.now), nil)
	for _, m := range list {
		h.local(func() {
			h.desk.Ask(w.now, h.process, m)
			h.flush()
		})
	}
	if due := time.Duration(next); due != 0 && (h.poll <= w.now || due < h.poll) {
		h.poll = max(due, w.now+100*time.Microsecond)
		at, process := h.poll, h.process
		w.after(at-w.now, func() {
			if h.process == process && h.poll == at {
				h.poll = 0
				h.pollGateway()
			}
		})
	}
}

// request is one of the client at this host's gateway.
func (h *host) request() {
	w := h.w
	w.offered++
	n := &keys.Name{Key: key, Rest: key + 1, KeyName: name}
	_, out := h.store.Try(int64(w.now), n, calendar.Unit)
	if out == calendar.Waits {
		out = h.store.Join(int64(w.now), n, &keys.Waiter[struct{}]{Spent: keys.Spent{Cost: calendar.Unit}})
	}
	h.count(out)
	if out == calendar.Waits {
		process := h.process
		w.after(calendar.MaxWait, func() {
			if h.process == process {
				h.done(h.store.Expire(int64(w.now), nil))
				h.pollGateway()
			}
		})
	}
	h.pollGateway()
}

func (h *host) done(ended []keys.Ended[struct{}]) {
	for _, e := range ended {
		h.count(e.Outcome)
	}
}

func (h *host) count(out calendar.Outcome) {
	switch out {
	case calendar.Admitted:
		h.w.admitted++
	case calendar.Refused, calendar.CutOff:
		h.w.refused++
	}
}

// load has so many requests on average until a time, in runs of some at one gateway.
func (w *world) load(requests int, until time.Duration) {
	const run = 10
	mean := float64(until-w.now) / float64(requests) * run
	var next func()
	next = func() {
		h := w.hosts[w.random.IntN(hosts)]
		for range 1 + w.random.IntN(2*run-1) {
			w.after(w.between(0, 3*time.Second), h.request)
		}
		if d := time.Duration(w.random.ExpFloat64() * mean); w.now+d < until-5*time.Second {
			w.after(d, next)
		}
	}
	w.after(time.Second, next)
}

// unused is the part of the amount that nobody was admitted for.
func (w *world) unused() int { return int(w.terms.Amount/calendar.Unit) - w.admitted }
