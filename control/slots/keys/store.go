package keys

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/titrate/titrate/control/budget"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/slots"
)

const (
	// sessions is the difference between two sessions of a key that this process begins.
	sessions = 1 << 20
	// MaxPerLimit is the most keys of one limit at a gateway. Clients beyond have the slots of Name.Rest together, so
	// inventing names wins nothing.
	MaxPerLimit = 1 << 13
	// maxKeys is the most keys of all limits, of which a tenant has a part, see package budget.
	maxKeys = 1 << 17
)

// Name says which key a request uses, and of which limit.
type Name struct {
	Key  uint64
	Rest uint64 // key of the limit's client "", for clients beyond MaxPerLimit, and for names that do not fit a message
	exchange.KeyName
	Queue
}

// Queue bounds the requests that wait for a slot of a key. The zero Queue has the bounds of slots.Gateway.
type Queue struct {
	Wait     int64 // nanoseconds, of each
	Requests int64
}

// Store has the keys. W is the caller's record of a request that waits. All methods may be called from any thread.
type Store[W any] struct {
	wake func()

	mu      sync.Mutex
	session uint64
	keys    map[uint64]*entry[W]
	roads   map[uint64]*road // by the life of the owner
	owners  exchange.Owners
	view    uint64 // that was reported as registered
	out     []outgoing
	linked  bool
	due     slots.Agenda
	lines   map[uint64]*entry[W] // keys for which requests wait
	limits  map[uint64]int       // keys by limit: by Name.Rest
	room    *budget.Room         // of keys
	lapseAt int64                // no lease runs out before
	unknown int                  // keys whose owners do not know yet what is here
	counts  Stats
}

// road is the way to an owner.
type road struct {
	lease slots.Lease
	beat  int64 // when the owner was last sent anything
	keys  int
}

// outgoing is a message for an owner that is ready.
type outgoing struct {
	owner uint64
	ask   exchange.SlotAsk
}

// entry is a key.
type entry[W any] struct {
	hash  uint64
	rest  uint64 // Name.Rest
	name  exchange.KeyName
	g     *slots.Gateway
	owner uint64
	line  []*Waiter[W]
	told  bool // the owner knows what is here
}

// advance takes the first requests out of the line, in O(1) for each.
func (e *entry[W]) advance(n int) {
	clear(e.line[:n])
	e.line = e.line[n:]
}

// Waiter is a request that waits for a slot of one key at a time.
type Waiter[W any] struct {
	Of    W
	Since int64  // when it began to wait; set by Join
	Key   uint64 // of which it waits for a slot; likewise
}

// Ended is a wait that has ended.
type Ended[W any] struct {
	Waiter  *Waiter[W]
	Outcome slots.Outcome // not Waits
}

// Stats are counters since the start, but for Keys, Used and Slots, which are of now.
type Stats struct {
	Keys, Used, Slots                int
	Started, Waited, Refused, CutOff uint64
	Lapses                           uint64 // leases that have run out while keys were in use
}

// New returns a store without owners. first is the first session: greater than all that an earlier process of this
// identity has used. wake is called when Poll has messages.
func New[W any](first uint64, wake func()) *Store[W] {
	return &Store[W]{wake: wake, session: first, keys: map[uint64]*entry[W]{}, roads: map[uint64]*road{},
		lines: map[uint64]*entry[W]{}, limits: map[uint64]int{}, room: budget.NewRoom(maxKeys)}
}

func (s *Store[W]) nextSession() uint64 {
	s.session += sessions
	return s.session
}

// find returns the key that a request uses, and its entry; nil: there is none yet.
func (s *Store[W]) find(n *Name) (key uint64, e *entry[W]) {
	if e = s.keys[n.Key]; e == nil && (s.limits[n.Rest] >= MaxPerLimit || n.Len() > exchange.MaxKeyName ||
		!s.room.Fits(budget.Of(n.Tenant, n.Limit))) {
		return n.Rest, s.keys[n.Rest]
	}
	return n.Key, e
}

// Try takes a slot for a request that would not wait, and returns the key whose slot it is. Waits says that it has to
// Join.
func (s *Store[W]) Try(now int64, n *Name) (key uint64, out slots.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lapse(now)
	key, e := s.find(n)
	switch {
	case e != nil && s.isCutOff(now, e):
		return key, s.count(slots.CutOff)
	case e != nil:
		e.g.SetQueue(n.Wait, n.Requests)
		out = s.count(e.g.Try(now))
		s.poll(now, e)
		return key, out
	case !s.linked || len(s.owners.List) == 0:
		return key, s.count(slots.CutOff)
	}
	return key, slots.Waits
}

// Join takes a slot, or has the request wait in the line of the key: w.Key.
func (s *Store[W]) Join(now int64, n *Name, w *Waiter[W]) slots.Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lapse(now)
	key, e := s.find(n)
	w.Since, w.Key = now, key
	switch {
	case e != nil && s.isCutOff(now, e), e == nil && (!s.linked || len(s.owners.List) == 0):
		return s.count(slots.CutOff)
	case e == nil:
		e = s.begin(now, key, n)
	}
	e.g.SetQueue(n.Wait, n.Requests)
	out := e.g.Take(now)
	if s.count(out); out == slots.Waits {
		s.counts.Waited++
		e.line = append(e.line, w)
		s.lines[key] = e
	}
	s.poll(now, e)
	return out
}

// isCutOff reports whether the owner's lease has run out, and no agent carries what would renew it.
func (s *Store[W]) isCutOff(now int64, e *entry[W]) bool {
	return !s.linked && !s.roads[e.owner].lease.Live(now)
}

func (s *Store[W]) begin(now int64, key uint64, n *Name) *entry[W] {
	e := &entry[W]{hash: key, rest: n.Rest, told: true, owner: s.owners.Of(key)}
	e.name = exchange.KeyName{Tenant: strings.Clone(n.Tenant), Limit: strings.Clone(n.Limit)}
	if key == n.Key {
		e.name.Client = strings.Clone(n.Client)
	}
	s.limits[n.Rest]++
	s.room.Take(budget.Of(n.Tenant, n.Limit))
	r := s.road(e.owner)
	r.keys++
	e.g = slots.NewGateway(now, &r.lease, s.nextSession())
	s.keys[key] = e
	return e
}

func (s *Store[W]) road(owner uint64) *road {
	r := s.roads[owner]
	if r == nil {
		r = &road{}
		s.roads[owner] = r
	}
	return r
}

func (s *Store[W]) count(out slots.Outcome) slots.Outcome {
	switch out {
	case slots.Admitted:
		s.counts.Started++
	case slots.Refused:
		s.counts.Refused++
	case slots.CutOff:
		s.counts.CutOff++
	}
	return out
}

// Free notes that a request with a slot has ended, and appends the waits that end by that.
func (s *Store[W]) Free(now int64, key uint64, ended []Ended[W]) []Ended[W] {
	return s.giveUp(now, key, ended, func(g *slots.Gateway) { g.Free(now) })
}

// Undo takes back a slot that Try or Join gave to a request that does not start. It appends the waits that end by that.
func (s *Store[W]) Undo(now int64, key uint64, ended []Ended[W]) []Ended[W] {
	return s.giveUp(now, key, ended, func(g *slots.Gateway) {
		s.counts.Started--
		g.Undo(now)
	})
}

// giveUp has a key give up the slot of a request.
func (s *Store[W]) giveUp(now int64, key uint64, ended []Ended[W], give func(*slots.Gateway)) []Ended[W] {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lapse(now)
	e := s.keys[key]
	if e == nil {
		return ended
	}
	give(e.g)
	return s.settle(now, e, ended)
}

// State is the state of one key at this gateway.
type State struct {
	Used, Idle, Waiting int           // requests with a slot, idle slots, requests in line
	Next                slots.Outcome // of another request, now
}

// Look returns the state of the key that a request uses, and changes nothing.
func (s *Store[W]) Look(now int64, n *Name) State {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, e := s.find(n)
	switch {
	case e != nil && s.isCutOff(now, e):
		return State{Used: int(e.g.Used()), Waiting: len(e.line), Next: slots.CutOff}
	case e != nil:
		used := int(e.g.Used())
		return State{Used: used, Idle: max(0, int(e.g.Has())-used), Waiting: len(e.line), Next: e.g.Look(now)}
	case !s.linked || len(s.owners.List) == 0:
		return State{Next: slots.CutOff}
	}
	return State{Next: slots.Waits}
}

// settle gives slots to requests that wait, and refuses those for which there will be none in time.
func (s *Store[W]) settle(now int64, e *entry[W], ended []Ended[W]) []Ended[W] {
	for len(e.line) > 0 && e.g.Retry(now) {
		ended = append(ended, Ended[W]{e.line[0], s.count(slots.Admitted)})
		e.advance(1)
	}
	for n := e.g.Surplus(now); n > 0 && len(e.line) > 0; n-- {
		last := len(e.line) - 1
		ended = append(ended, Ended[W]{e.line[last], s.count(slots.Refused)})
		e.line = slices.Delete(e.line, last, last+1)
		e.g.Leave(now, false)
	}
	s.poll(now, e)
	return ended
}

// Leave takes a request out of its line; false: its wait has ended.
func (s *Store[W]) Leave(now int64, w *Waiter[W]) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.keys[w.Key]
	if e == nil {
		return false
	}
	i := slices.Index(e.line, w)
	if i < 0 {
		return false
	}
	e.line = slices.Delete(e.line, i, i+1)
	e.g.Leave(now, false)
	s.poll(now, e)
	return true
}

// Waiting returns the requests that wait.
func (s *Store[W]) Waiting() (all []*Waiter[W]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(s.lines)) {
		all = append(all, s.lines[key].line...)
	}
	return all
}

// forget forgets a key at rest. Its owner forgets this process with it.
func (s *Store[W]) forget(now int64, e *entry[W]) {
	s.send(e.owner, exchange.SlotAsk{Key: e.hash, Ask: e.g.Release(now)})
	s.roads[e.owner].keys--
	s.due.Set(e.hash, 0)
	delete(s.keys, e.hash)
	s.room.Free(budget.Of(e.name.Tenant, e.name.Limit))
	if s.limits[e.rest]--; s.limits[e.rest] == 0 {
		delete(s.limits, e.rest)
	}
}

// Stats returns the counters.
func (s *Store[W]) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.counts
	st.Keys = len(s.keys)
	for _, e := range s.keys {
		st.Used += int(e.g.Used())
		st.Slots += int(e.g.Has())
	}
	return st
}
