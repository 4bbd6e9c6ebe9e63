package keys

import (
	"maps"
	"math"
	"slices"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/slots"
)

// The link to the agent, and over it the owners of the keys and their leases.

// lapse ends what leases allowed that have run out.
func (s *Store[W]) lapse(now int64) {
	if now < s.lapseAt {
		return
	}
	s.lapseAt = math.MaxInt64
	defer func() {
		for _, r := range s.roads {
			s.leased(r)
		}
	}()
	var lapsed []uint64
	for owner, r := range s.roads {
		if r.lease.Lapsed(now) {
			lapsed = append(lapsed, owner)
		}
	}
	if s.counts.Lapses += uint64(len(lapsed)); len(lapsed) == 0 {
		return
	}
	for _, e := range s.inOrder() {
		if slices.Contains(lapsed, e.owner) {
			e.g.Lapse(now, s.nextSession())
			s.poll(now, e)
		}
	}
}

// leased notes when a lease runs out.
func (s *Store[W]) leased(r *road) {
	if until := r.lease.Until(); until != 0 {
		s.lapseAt = min(s.lapseAt, until)
	}
}

// Poll appends the messages that are due for the owners, and returns when the next ones are due; 0: when wake is
// called. registered is the number of the list of owners that all know what is here; 0: not all of them do, or it was
// said before.
func (s *Store[W]) Poll(now int64, out []*exchange.SlotAsks) (all []*exchange.SlotAsks, next int64, registered uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.linked {
		return out, 0, 0
	}
	s.lapse(now)
	for key, ok := s.due.Take(now); ok; key, ok = s.due.Take(now) {
		if e := s.keys[key]; e != nil {
			s.poll(now, e)
		}
	}
	next = s.due.Next()
	out = s.take(now, out)
	for _, r := range s.roads {
		if r.keys > 0 {
			next = slots.Sooner(next, r.beat+slots.BeatEvery)
			next = slots.Sooner(next, r.lease.Until())
		}
	}
	if s.unknown == 0 && s.view != s.owners.View {
		s.view, registered = s.owners.View, s.owners.View
	}
	return out, next, registered
}

// take groups what is ready by owner, and adds what keeps the leases.
func (s *Store[W]) take(now int64, out []*exchange.SlotAsks) []*exchange.SlotAsks {
	by := map[uint64]*exchange.SlotAsks{}
	for _, o := range s.out {
		if by[o.owner] == nil {
			by[o.owner] = &exchange.SlotAsks{Owner: o.owner, Sent: now}
		}
		by[o.owner].List = append(by[o.owner].List, o.ask)
	}
	s.out = s.out[:0]
	for owner, r := range s.roads {
		if r.keys > 0 && by[owner] == nil && now >= r.beat+slots.BeatEvery {
			by[owner] = &exchange.SlotAsks{Owner: owner, Sent: now}
		}
	}
	for _, owner := range slices.Sorted(maps.Keys(by)) {
		if r := s.roads[owner]; r != nil {
			r.beat = now
		}
		out = append(out, by[owner])
	}
	return out
}

// SetOwners puts other owners in force. A new owner of a key is sent what is here of the key.
func (s *Store[W]) SetOwners(now int64, o exchange.Owners) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lapse(now)
	s.owners, s.view = o, 0
	for _, e := range s.inOrder() {
		owner := o.Of(e.hash)
		if owner == e.owner {
			continue
		}
		was, r := s.road(e.owner), s.road(owner)
		r.lease.Inherit(&was.lease)
		s.leased(r)
		was.keys--
		r.keys++
		e.owner = owner
		e.g.Move(now, &r.lease, s.nextSession())
		s.poll(now, e)
	}
	maps.DeleteFunc(s.roads, func(_ uint64, r *road) bool { return r.keys == 0 })
	s.wake()
}

// Link notes whether an agent carries messages. Without one the gateway goes on until its leases run out.
func (s *Store[W]) Link(up bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.linked, s.out, s.due = up, nil, slots.Agenda{}
	if !up {
		return
	}
	for key := range s.keys {
		s.due.Set(key, 1)
	}
	s.wake()
}

// Release gives back what is idle here, because the process ends.
func (s *Store[W]) Release(now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.inOrder() {
		s.send(e.owner, exchange.SlotAsk{Key: e.hash, Ask: e.g.Release(now)})
	}
}
