package booking

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/titrate/titrate/control/calendar"
	"github.com/titrate/titrate/control/config"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
)

// maxCalendars bounds the calendars of a configuration, as the wire does.
const maxCalendars = 1024

// calendars knows the periods of the calendars that are or were in use.
type calendars struct {
	of    map[config.Calendar]*periods
	dirty bool // a floor is to be stored

	opened time.Time // when this coordinator began to take bookings
}

type periods struct {
	calendar.Periods
	floor int64 // highest number that was announced, here or by another leader; 0 = none
	used  bool  // it is configured
	kept  bool  // it was configured, or had records, since Tidy began with shard 0
}

// get returns the periods of a calendar; nil: there are none.
func (c *calendars) get(of config.Calendar) *periods {
	p := c.of[of]
	if p == nil {
		arithmetic, err := calendar.NewPeriods(of)
		if err != nil || len(c.of) >= 4*maxCalendars {
			return nil
		}
		if c.of == nil {
			c.of = map[config.Calendar]*periods{}
		}
		p = &periods{Periods: arithmetic, kept: true}
		c.of[of] = p
	}
	return p
}

// at returns the present period, the time that is left of it, and the length of the next one.
func (p *periods) at(now time.Time) (number int64, left, next time.Duration) {
	if number, left, next = p.At(now); number >= p.floor {
		return number, left, next
	}
	end := p.Start(p.floor + 1)
	return p.floor, end.Sub(now), p.Start(p.floor + 2).Sub(end)
}

// forget removes the calendars that are not configured and have had no records for a round of Tidy.
func (c *calendars) forget() {
	for of, p := range c.of {
		if !p.used && !p.kept {
			delete(c.of, of)
		}
		p.kept = p.used
	}
}

// moment is a time, with what is known of calendars then: to find the begin of a period takes some 30 conversions.
type moment struct {
	now      time.Time
	of       *calendars
	presents map[config.Calendar]numbered
	spans    map[numbered]span
}

type numbered struct {
	p      *periods
	number int64
}

type span struct {
	name         string
	begins, ends time.Time
}

func (b *Book) moment(now time.Time) *moment {
	return &moment{now: now, of: &b.calendars, presents: map[config.Calendar]numbered{}, spans: map[numbered]span{}}
}

// present returns the periods of a calendar, nil: there are none, and the number of the present one.
func (m *moment) present(of config.Calendar) (*periods, int64) {
	known, is := m.presents[of]
	if !is {
		if known.p = m.of.get(of); known.p != nil {
			known.number, _, _ = known.p.at(m.now)
		}
		m.presents[of] = known
	}
	return known.p, known.number
}

func (m *moment) span(p *periods, number int64) span {
	known, is := m.spans[numbered{p, number}]
	if !is {
		known = span{p.Name(number), p.Start(number), p.Start(number + 1)}
		m.spans[numbered{p, number}] = known
	}
	return known
}

// open reports whether a period may have bookings; with use, whether it may have use that was not known.
func (c *calendars) open(of config.Calendar, number int64, now time.Time, use bool) bool {
	p := c.get(of)
	if p == nil {
		return false
	}
	present, left, _ := p.at(now)
	switch number {
	case present:
		return true
	case present + 1:
		return left <= neighbour
	case present - 1:
		end := p.Start(present)
		if use {
			return now.Sub(c.since(end)) <= idleFor
		}
		return now.Sub(end).Abs() <= neighbour // a clock may have jumped back
	}
	return false
}

// since returns the time from which agents could say what they used in a period that ended at end.
func (c *calendars) since(end time.Time) time.Time {
	if c.opened.After(end) {
		return c.opened
	}
	return end
}

// Opened says when this coordinator began to take bookings. Records become final idleFor later at the earliest.
func (b *Book) Opened(now time.Time) { b.calendars.opened = now }

// Period is the present period of a calendar.
type Period struct {
	Calendar   config.Calendar
	Number     int64
	Left, Next time.Duration
}

// Configure says which calendars are in use. A calendar that is not valid, and what is above the bound, has no periods.
func (b *Book) Configure(used []config.Calendar) {
	for _, p := range b.calendars.of {
		p.used, p.kept = false, p.kept || p.used
	}
	for i, of := range used {
		if p := b.calendars.get(of); p != nil && i < maxCalendars {
			p.used = true
		}
	}
}

// Announce returns the present periods of the calendars in use, for agents, in order. Their numbers are the lowest
// from then on.
func (b *Book) Announce(now time.Time) (out []Period) {
	for of, p := range b.calendars.of {
		if !p.used {
			continue
		}
		one := Period{Calendar: of}
		one.Number, one.Left, one.Next = p.at(now)
		if one.Number > p.floor {
			p.floor, b.calendars.dirty = one.Number, true
		}
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b Period) int { return CompareCalendars(a.Calendar, b.Calendar) })
	return out
}

// Soon reports whether the next period is open already.
func (p Period) Soon() bool { return p.Left <= neighbour }

// CompareCalendars orders calendars.
func CompareCalendars(a, b config.Calendar) int {
	return cmp.Or(cmp.Compare(a.Per, b.Per), cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.StartsOn, b.StartsOn))
}

// Tidy looks at the records of one shard: it makes final what has ended, and removes what is kept no longer.
func (b *Book) Tidy(now time.Time, shard int) {
	if shard == 0 {
		b.calendars.forget()
	}
	m, ids := b.moment(now), slices.Sorted(maps.Keys(b.shards[shard]))
	for _, id := range ids {
		one := b.shards[shard][id]
		p, present := m.present(one.Calendar)
		if p == nil { // this host does not know the zone any more
			continue
		}
		p.kept = true
		switch {
		case one.final && one.Period < present-Kept:
			b.remove(one)
		case one.final && one.Period < present-1 && b.hardlyRoom():
			b.remove(one)
			b.counts.Dropped++
		case one.final:
			if now.Sub(m.span(p, one.Period).ends) <= late {
				b.renew(one)
			}
		case one.Period < present && b.over(one, now, m.span(p, one.Period).ends):
			one.close()
			b.mark(one, nil)
		default:
			b.renew(one)
		}
	}
}

// renew goes by the terms in force, if they are of the same calendar. The amount of a final period stays.
func (b *Book) renew(one *record) {
	terms, configured := b.terms(one.Key)
	if !configured || terms.Calendar != one.Calendar {
		return
	}
	if one.soft = terms.Soft; !one.final {
		one.amount = terms.Amount
	}
	b.watch(one)
}

// over reports whether nothing comes any more about a period that ended at end. Agents that no session is known of may
// have use, too.
func (b *Book) over(one *record, now, end time.Time) bool {
	if now.Sub(b.calendars.since(end)) <= idleFor {
		return false
	}
	for i := range one.sessions {
		if !one.sessions[i].final {
			return now.Sub(one.seen) > idleFor
		}
	}
	return true
}

// late counts a request about a final record. Its use is dropped, but for that of a session that repeats its end.
func (b *Book) late(one *record, r *controlv1.BookingRequest) {
	b.counts.Late++
	if (r.GetAdmitted() != 0 || r.GetRefused() != 0 || r.GetSettled() != 0) &&
		!(r.GetFinal() && slices.Contains(one.ended, r.GetSession())) {
		b.counts.LateUse++
	}
}
