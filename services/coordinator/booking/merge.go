package booking

// Merge takes in what an earlier book of this process knows that the store does not: etcd was restored from a backup, or
// emptied. What the store knows more of stays.
func (b *Book) Merge(before *Book) {
	for at, old := range before.records {
		one := b.records[at]
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
		one.base.Admitted = max(one.base.Admitted, old.base.Admitted)
		one.base.Refused = max(one.base.Refused, old.base.Refused)
		one.base.Settled = max(one.base.Settled, old.base.Settled)
		one.final = one.final || old.final
		for i := range old.sessions {
			s := one.find(old.sessions[i].id)
			switch {
			case s == nil:
				one.sessions = append(one.sessions, old.sessions[i])
			case s.number < old.sessions[i].number, s.number == old.sessions[i].number && old.sessions[i].to < s.to:
				*s = old.sessions[i]
			default:
				s.final = s.final || old.sessions[i].final
			}
		}
		b.mark(one, nil)
	}
	for of, p := range before.calendars.of {
		if q := b.calendars.get(of); q != nil && p.floor > q.floor {
			q.floor, b.calendars.dirty = p.floor, true
		}
	}
}
