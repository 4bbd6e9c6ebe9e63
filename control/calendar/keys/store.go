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

// inOrder returns the keys in the same order in each run.
func (s *Store[W]) inOrder() []*entry[W] {
	all := slices.Collect(maps.Values(s.keys))
	slices.SortFunc(all, func(a, b *entry[W]) int { return cmp.Compare(a.hash, b.hash) })
	return all
}

// Stats returns the counters.
func (s *Store[W]) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.counts
	st.Keys = len(s.keys)
	return st
}
