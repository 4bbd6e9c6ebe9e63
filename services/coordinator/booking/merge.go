package booking

import (
	"slices"
	"time"

	"github.com/titrate/titrate/control/calendar"
)

// Merge takes in what an earlier book of this process knows that the store does not: etcd was restored from a backup,
// or emptied. What the store knows more of stays: another coordinator may have led in between. The earlier book may
// also have intervals that were never stored, and so never answered.
func (b *Book) Merge(now time.Time, before *Book) {
	for at, old := range before.records {
		p := b.calendars.get(at.Calendar)
		if p == nil {
			continue
		}
		switch one := b.records[at]; {
		case one == nil:
			if present, _, _ := p.at(now); old.Period < present-Kept {
				continue // it was removed
			}
			one = b.add(at)
			one.copy(old)
			b.counts.Restored++
			b.mark(one, nil)
		case !one.final:
			one.merge(old)
			for len(one.sessions) > maxSessions {
				one.fold()
				b.counts.Folded++
			}
			b.mark(one, nil)
		}
	}
	for of, p := range before.calendars.of {
		if q := b.calendars.get(of); q != nil && p.floor > q.floor {
			q.floor, b.calendars.dirty = p.floor, true
		}
	}
}

// copy takes over all of an earlier record, but for what came back: it is not known who has it now.
func (one *record) copy(old *record) {
	one.amount, one.next, one.free = old.amount, max(one.next, old.next), nil
	one.sessions, one.base, one.lost = slices.Clone(old.sessions), old.base, old.lost
	one.notified, one.final = max(one.notified, old.notified), old.final
	one.seen, one.whole = old.seen, true
}

// merge takes what an earlier record knows into one of the store.
func (one *record) merge(old *record) {
	if old.final && counted(one.use()) < counted(old.use()) {
		one.copy(old)
		return
	}
	stored := one.next
	one.free, one.whole = nil, true
	one.next, one.notified = max(stored, old.next), max(one.notified, old.notified)
	if old.final {
		return
	}
	// Sessions that one of both has put together are not among the sessions of the other a second time. If a live one
	// is left out, its owner sends its use again.
	here, there := counted(one.base), counted(old.base)
	if there > here {
		one.base, one.lost = old.base, old.lost
		one.sessions = slices.DeleteFunc(one.sessions, func(s session) bool {
			return s.final && s.from < old.next && old.find(s.id) == nil
		})
	}
	for i := range old.sessions {
		s := one.find(old.sessions[i].id)
		switch {
		case s != nil:
		case there < here:
			continue
		default:
			one.sessions = append(one.sessions, session{id: old.sessions[i].id, seen: old.sessions[i].seen})
			s = &one.sessions[len(one.sessions)-1]
		}
		s.merge(&old.sessions[i], stored)
	}
}

// merge takes what an earlier session knows. Up to the end of what was stored, others may have its interval now.
func (s *session) merge(old *session, stored Units) {
	switch {
	case s.number < old.number && old.from >= stored:
		s.number, s.low, s.from, s.to = old.number, old.from, old.from, old.to
	case s.number == old.number && s.from == old.from:
		s.to = min(s.to, old.to)
	}
	if counted(s.use) < counted(old.use) {
		s.use = old.use
	}
	s.final = s.final || old.final
}

// counted returns a sum that only grows, so that the later one of two uses is known. Corrections may lower Settled.
func counted(u calendar.Use) Units { return sum(u.Admitted, u.Refused) }
