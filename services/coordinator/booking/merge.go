package booking

import (
	"time"

	"github.com/titrate/titrate/control/calendar"
)

// Merge takes in what an earlier book of this process knows that the store does not: etcd was restored from a backup,
// or emptied. What the store knows more of stays.
func (b *Book) Merge(now time.Time, before *Book) {
	for at, old := range before.records {
		one := b.records[at]
		if p := b.calendars.get(at.Calendar); one == nil && (p == nil || old.final || old.Period < p.Number(now)) {
			continue // it may have been removed
		}
		if one == nil {
			one = b.add(at)
			one.amount, one.seen = old.amount, old.seen
			b.counts.Restored++
		}
		if one.final {
			continue
		}
		// Units that came back are not free again: it is not known who has them now.
		one.free, one.whole = nil, true
		one.next, one.notified = max(one.next, old.next), max(one.notified, old.notified)
		one.base = most(one.base, old.base)
		one.final = one.final || old.final
		for i := range old.sessions {
			s := one.find(old.sessions[i].id)
			if s == nil {
				one.sessions = append(one.sessions, old.sessions[i])
				continue
			}
			use, final := most(s.use, old.sessions[i].use), s.final || old.sessions[i].final
			if s.number < old.sessions[i].number || s.number == old.sessions[i].number && old.sessions[i].to < s.to {
				*s = old.sessions[i]
			}
			s.use, s.final = use, final
		}
		b.mark(one, nil)
	}
	for of, p := range before.calendars.of {
		if q := b.calendars.get(of); q != nil && p.floor > q.floor {
			q.floor, b.calendars.dirty = p.floor, true
		}
	}
}

// most returns the larger of counts that only grow, but for corrections.
func most(a, b calendar.Use) calendar.Use {
	return calendar.Use{Admitted: max(a.Admitted, b.Admitted), Refused: max(a.Refused, b.Refused),
		Settled: max(a.Settled, b.Settled)}
}
