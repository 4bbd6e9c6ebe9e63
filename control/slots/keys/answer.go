package keys

import (
	"cmp"
	"maps"
	"slices"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/slots"
)

// Expire appends the waits that have lasted for as long as they may.
func (s *Store[W]) Expire(now int64, ended []Ended[W]) []Ended[W] {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lapse(now)
	var late []uint64
	for key, e := range s.lines {
		if len(e.line) > 0 && now-e.line[0].Since >= e.g.Wait() {
			late = append(late, key)
		}
	}
	slices.Sort(late)
	for _, key := range late {
		e, n := s.lines[key], 0
		for n < len(e.line) && now-e.line[n].Since >= e.g.Wait() {
			e.g.Leave(now, true)
			ended = append(ended, Ended[W]{e.line[n], s.count(slots.Refused)})
			n++
		}
		e.advance(n)
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
			e.g.Leave(now, false)
			ended = append(ended, Ended[W]{w, slots.CutOff})
		}
		e.line = nil
		s.poll(now, e)
	}
	return ended
}

// isLined keeps lines up to date.
func (s *Store[W]) isLined(e *entry[W]) {
	if len(e.line) == 0 {
		delete(s.lines, e.hash)
	}
}

// inOrder returns the keys in the same order in each run.
func (s *Store[W]) inOrder() []*entry[W] {
	all := slices.Collect(maps.Values(s.keys))
	slices.SortFunc(all, func(a, b *entry[W]) int { return cmp.Compare(a.hash, b.hash) })
	return all
}

// Answer takes in what an owner says, and appends the waits that it ends.
func (s *Store[W]) Answer(now int64, m *exchange.SlotReplies, ended []Ended[W]) []Ended[W] {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lapse(now)
	r, revived := s.roads[m.Owner], false
	if r != nil && m.Echo != 0 {
		revived = !r.lease.Live(now)
		r.lease.Renew(now, m.Echo)
		s.leased(r)
	}
	for i := range m.List {
		t := &m.List[i]
		e := s.keys[t.Key]
		switch {
		case e == nil:
			if a, ok := slots.Unknown(t.Reply); ok {
				s.send(m.Owner, exchange.SlotAsk{Key: t.Key, Ask: a})
			}
		case e.owner == m.Owner:
			e.g.Reply(now, t.Reply)
			ended = s.settle(now, e, ended)
		}
	}
	if revived { // requests may have waited for the lease
		for _, key := range slices.Sorted(maps.Keys(s.lines)) {
			if e := s.lines[key]; e.owner == m.Owner {
				ended = s.settle(now, e, ended)
			}
		}
	}
	return ended
}

// send has a message sent to an owner. Without a link there is nothing to send it by: Link asks each key again.
func (s *Store[W]) send(owner uint64, a exchange.SlotAsk) {
	if s.linked {
		s.out = append(s.out, outgoing{owner, a})
		s.wake()
	}
}

// poll has the message of a key sent that is due now, and forgets the key if it is at rest.
func (s *Store[W]) poll(now int64, e *entry[W]) {
	s.isLined(e)
	if s.linked {
		if a, ok := e.g.Poll(now); ok {
			m := exchange.SlotAsk{Key: e.hash, Ask: a}
			if m.Named() {
				m.KeyName = e.name
			}
			s.send(e.owner, m)
		}
	}
	if told := e.g.Registered(now); told != e.told {
		e.told = told
		s.unknown += map[bool]int{true: -1, false: 1}[told]
	}
	if e.g.Idle(now) && len(e.line) == 0 {
		s.forget(now, e)
		return
	}
	if s.linked {
		s.due.Set(e.hash, e.g.Due(now))
	}
}
