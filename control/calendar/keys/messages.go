package keys

import (
	"maps"
	"slices"

	"github.com/titrate/titrate/control/budget"
	"github.com/titrate/titrate/control/calendar"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/slots"
)

// isCutOff reports whether nobody carries questions to owners.
func (s *Store[W]) isCutOff() bool { return !s.linked || len(s.owners.List) == 0 }

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
