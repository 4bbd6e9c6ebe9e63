// Package keys has the keys of limits with a quota at one gateway, and the requests that wait for their owners.
//
//	Try ──► Admitted ──────────► the request starts; Undo if it does not, Settle if it cost something else
//	 │ Waits                          ▲
//	Join ─► line of the key ── Ended ─┘ or refused: the owner has said no, or calendar.MaxWait has passed
//
// A key is forgotten when it has no units and no request, and its owner knows what was used.
package keys

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/titrate/titrate/control/budget"
	"github.com/titrate/titrate/control/calendar"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/slots"
)

const (
	// sessions is the difference between two sessions of a key that this process begins.
	sessions = 1
	// MaxPerLimit is the most keys of one limit at a gateway that are in use. Clients beyond have the units of
	// Name.Rest together, so inventing names wins nothing.
	MaxPerLimit = 1 << 16
	// maxKeys is the most keys of all limits, of which a tenant has a part, see package budget.
	maxKeys = 1 << 18
)

// Name says which key a request uses, and of which limit.
type Name struct {
	Key  uint64
	Rest uint64 // key of the limit's client "", for clients beyond MaxPerLimit, and for names that do not fit a message
	exchange.KeyName
}

// Spent records the units that a request has paid.
type Spent struct {
	Key    uint64
	Period int64
	Cost   calendar.Units
}

// Store has the keys. W is the caller's record of a request that waits. All methods may be called from any thread.
type Store[W any] struct {
	wake func()

	mu      sync.Mutex
	session uint64
	keys    map[uint64]*entry[W]
	owners  exchange.Owners
	out     map[uint64]*exchange.QuotaAsks // by owner
	linked  bool
	due     slots.Agenda
	lines   map[uint64]*entry[W] // keys for which requests wait
	limits  map[uint64]int       // keys by limit: by Name.Rest
	room    *budget.Room         // of keys
	counts  Stats
}

// entry is a key.
type entry[W any] struct {
	hash  uint64
	rest  uint64 // Name.Rest
	name  exchange.KeyName
	g     *calendar.Gateway
	owner uint64
	line  []*Waiter[W]
}

// Waiter is a request that waits for units of one key at a time.
type Waiter[W any] struct {
	Of    W
	Spent       // Cost is the caller's; the rest is set by Join, or when the wait ends
	since int64 // when it began to wait
}

// Ended is a wait that has ended.
type Ended[W any] struct {
	Waiter  *Waiter[W]
	Outcome calendar.Outcome // not Waits
}

// Stats are counters since the start, but for Keys, which is of now.
type Stats struct {
	Keys                              int
	Admitted, Waited, Refused, CutOff uint64
}

// New returns a store without owners. first is the first session: greater than all that an earlier process of this
// identity has used. wake is called when Poll has messages.
func New[W any](first uint64, wake func()) *Store[W] {
	return &Store[W]{wake: wake, session: first, keys: map[uint64]*entry[W]{}, out: map[uint64]*exchange.QuotaAsks{},
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

// isCutOff reports whether nobody carries questions to owners.
func (s *Store[W]) isCutOff() bool { return !s.linked || len(s.owners.List) == 0 }

// Try spends units for a request that would not wait. Waits says that it has to Join.
func (s *Store[W]) Try(now int64, n *Name, cost calendar.Units) (paid Spent, out calendar.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, e := s.find(n)
	switch {
	case e != nil:
		out = e.g.Try(now, cost)
		paid = Spent{key, e.g.Period(), cost}
		if out == calendar.Waits && s.isCutOff() {
			out = calendar.CutOff
		}
		s.poll(now, e)
		return paid, s.count(out)
	case s.isCutOff():
		return paid, s.count(calendar.CutOff)
	}
	return paid, calendar.Waits
}

// Join spends units, or has the request wait in the line of the key.
func (s *Store[W]) Join(now int64, n *Name, w *Waiter[W]) calendar.Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, e := s.find(n)
	w.Key, w.since = key, now
	switch {
	case s.isCutOff():
		return s.count(calendar.CutOff)
	case e == nil:
		e = s.begin(now, key, n)
	}
	out := e.g.Take(now, w.Cost)
	if s.count(out); out == calendar.Waits {
		s.counts.Waited++
		e.line = append(e.line, w)
		s.lines[key] = e
	}
	w.Period = e.g.Period()
	s.poll(now, e)
	return out
}

func (s *Store[W]) begin(now int64, key uint64, n *Name) *entry[W] {
	e := &entry[W]{hash: key, rest: n.Rest, owner: s.owners.Of(key)}
	e.g = calendar.NewGateway(now, e.owner, s.nextSession())
	e.name = exchange.KeyName{Tenant: strings.Clone(n.Tenant), Limit: strings.Clone(n.Limit)}
	if key == n.Key {
		e.name.Client = strings.Clone(n.Client)
	}
	s.limits[n.Rest]++
	s.room.Take(budget.Of(n.Tenant, n.Limit))
	s.keys[key] = e
	return e
}

func (s *Store[W]) count(out calendar.Outcome) calendar.Outcome {
	switch out {
	case calendar.Admitted:
		s.counts.Admitted++
	case calendar.Refused:
		s.counts.Refused++
	case calendar.CutOff:
		s.counts.CutOff++
	}
	return out
}

// Undo takes back what a request has paid that does not start. It appends the waits that end by that.
func (s *Store[W]) Undo(now int64, paid Spent, ended []Ended[W]) []Ended[W] {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.keys[paid.Key]
	if e == nil {
		return ended
	}
	s.counts.Admitted--
	e.g.Undo(now, paid.Period, paid.Cost)
	return s.settle(now, e, ended)
}

// Settle corrects what a request has paid by extra, in the period of now. It appends the waits that end by that.
func (s *Store[W]) Settle(now int64, n *Name, extra calendar.Units, ended []Ended[W]) []Ended[W] {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, e := s.find(n)
	if e == nil {
		if extra == 0 || s.isCutOff() {
			return ended
		}
		e = s.begin(now, key, n)
	}
	e.g.Settle(now, extra)
	return s.settle(now, e, ended)
}

// State has the state of a key as far as it is known here.
type State struct {
	calendar.View
	Known bool             // the View
	Next  calendar.Outcome // of another request, now
	Until int64            // a refusal holds until then
}

// Look returns the state of the key that a request uses, and changes nothing.
func (s *Store[W]) Look(now int64, n *Name, cost calendar.Units) (st State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Next = calendar.Waits
	if _, e := s.find(n); e != nil {
		st.View, st.Known = e.g.View(now)
		if until, refusing := e.g.Refusing(now, cost); refusing {
			st.Next, st.Until = calendar.Refused, until
			return st
		}
	}
	if s.isCutOff() && !(st.Known && st.Remaining >= cost) {
		st.Next = calendar.CutOff
	}
	return st
}

// settle ends the waits of requests for which there are units, or for which there will be none.
func (s *Store[W]) settle(now int64, e *entry[W], ended []Ended[W]) []Ended[W] {
	for len(e.line) > 0 {
		w := e.line[0]
		out := e.g.Retry(now, w.Cost)
		if out == calendar.Waits {
			break
		}
		w.Period = e.g.Period()
		ended = append(ended, Ended[W]{w, s.count(out)})
		e.line = e.line[1:]
	}
	s.poll(now, e)
	return ended
}

// Leave ends the wait of a request that has gone; false: it has ended before.
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
	e.g.Leave(now, w.Cost, false)
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

// Expire appends the waits that have lasted for as long as they may.
func (s *Store[W]) Expire(now int64, ended []Ended[W]) []Ended[W] {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(s.lines)) {
		e := s.lines[key]
		for len(e.line) > 0 && now-e.line[0].since >= calendar.MaxWait {
			e.g.Leave(now, e.line[0].Cost, true)
			ended = append(ended, Ended[W]{e.line[0], s.count(calendar.CutOff)})
			e.line = e.line[1:]
		}
		s.poll(now, e)
	}
	return ended
}

// Drain ends all waits, as CutOff.
func (s *Store[W]) Drain(now int64, ended []Ended[W]) []Ended[W] {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(s.lines)) {
		e := s.lines[key]
		for _, w := range e.line {
			e.g.Leave(now, w.Cost, false)
			ended = append(ended, Ended[W]{w, calendar.CutOff})
		}
		e.line = nil
		s.poll(now, e)
	}
	return ended
}

// Answer takes in what an owner says, and appends the waits that it ends.
func (s *Store[W]) Answer(now int64, m *exchange.QuotaReplies, ended []Ended[W]) []Ended[W] {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range m.List {
		t := &m.List[i]
		if e := s.keys[t.Key]; e != nil {
			e.g.Receive(now, t.Reply, s.nextSession)
			ended = s.settle(now, e, ended)
		} else if a, ok := calendar.Unknown(t.Reply); ok {
			s.send(m.Owner, exchange.QuotaAsk{Key: t.Key, Ask: a})
		}
	}
	return ended
}

// SetOwners puts other owners in force. A new owner of a key is asked from now on.
func (s *Store[W]) SetOwners(now int64, o exchange.Owners) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owners = o
	for _, e := range s.inOrder() {
		if owner := o.Of(e.hash); owner != e.owner {
			e.owner = owner
			e.g.Move(now, owner, s.nextSession())
			s.poll(now, e)
		}
	}
}

// inOrder returns the keys in the same order in each run.
func (s *Store[W]) inOrder() []*entry[W] {
	all := slices.Collect(maps.Values(s.keys))
	slices.SortFunc(all, func(a, b *entry[W]) int { return cmp.Compare(a.hash, b.hash) })
	return all
}

// Link notes whether an agent carries messages. Without one the gateway spends what it has.
func (s *Store[W]) Link(up bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.linked, s.due = up, slots.Agenda{}
	clear(s.out)
	if !up {
		return
	}
	for key := range s.keys {
		s.due.Set(key, 1)
	}
	s.wake()
}

// Release gives back what is not spent, because the process ends.
func (s *Store[W]) Release(now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.inOrder() {
		s.send(e.owner, exchange.QuotaAsk{Key: e.hash, Ask: e.g.Release(now)})
	}
}

// send has a message sent to an owner. Without a link there is nothing to send it by: Link asks each key again.
func (s *Store[W]) send(owner uint64, a exchange.QuotaAsk) {
	if !s.linked || owner == 0 {
		return
	}
	if s.out[owner] == nil {
		s.out[owner] = &exchange.QuotaAsks{Owner: owner}
		defer s.wake()
	}
	s.out[owner].List = append(s.out[owner].List, a)
}

// poll has the messages of a key sent that are due now, and forgets the key if it is at rest.
func (s *Store[W]) poll(now int64, e *entry[W]) {
	if len(e.line) == 0 {
		delete(s.lines, e.hash)
	}
	if !s.linked {
		return
	}
	for {
		a, road, ok := e.g.Ending(now)
		if !ok {
			break
		}
		s.send(road, exchange.QuotaAsk{Key: e.hash, Ask: a})
	}
	if a, ok := e.g.Poll(now, s.nextSession); ok {
		m := exchange.QuotaAsk{Key: e.hash, Ask: a}
		if m.Named() {
			m.KeyName = e.name
		}
		s.send(e.owner, m)
	}
	if e.g.Idle(now) && len(e.line) == 0 {
		s.forget(now, e)
		return
	}
	s.due.Set(e.hash, e.g.Due(now))
}

// forget forgets a key at rest. Its owner forgets this process with it.
func (s *Store[W]) forget(now int64, e *entry[W]) {
	s.send(e.owner, exchange.QuotaAsk{Key: e.hash, Ask: e.g.Release(now)})
	s.due.Set(e.hash, 0)
	delete(s.keys, e.hash)
	s.room.Free(budget.Of(e.name.Tenant, e.name.Limit))
	if s.limits[e.rest]--; s.limits[e.rest] == 0 {
		delete(s.limits, e.rest)
	}
}

// Poll appends the messages that are due for the owners, and returns when the next ones are due; 0: when wake is
// called.
func (s *Store[W]) Poll(now int64, out []*exchange.QuotaAsks) (all []*exchange.QuotaAsks, next int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.linked {
		return out, 0
	}
	for key, ok := s.due.Take(now); ok; key, ok = s.due.Take(now) {
		if e := s.keys[key]; e != nil {
			s.poll(now, e)
		}
	}
	for _, owner := range slices.Sorted(maps.Keys(s.out)) {
		out = append(out, s.out[owner])
	}
	clear(s.out)
	return out, s.due.Next()
}

// Stats returns the counters.
func (s *Store[W]) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.counts
	st.Keys = len(s.keys)
	return st
}
