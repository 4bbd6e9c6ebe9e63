package booking

import (
	"cmp"
	"slices"
	"time"

	"github.com/titrate/titrate/control/config"
)

// Part has the used part of a limit's quota: of the client that has used the largest part of its amount.
type Part struct {
	Tenant, Limit string
	Used          float64 // 0.25 = a quarter
}

// parts are the highest parts of limits, each of the latest period that is known. A part that fell, by a correction, a
// higher amount or the removal of its record, is known after the next round of Tidy.
type parts struct {
	known map[limitName]part
	next  map[limitName]part // of the records that this round of Tidy has seen, or that have changed since it began
	round bool               // one began
}

type limitName struct{ tenant, limit string }

type part struct {
	calendar config.Calendar
	period   int64
	used     float64
}

// note takes in the use of a record.
func (p *parts) note(one *record) {
	if one.amount == 0 {
		return
	}
	of := limitName{one.Tenant, one.Limit}
	now := part{one.Calendar, one.Period, one.use().Settled.Cost() / one.amount.Cost()}
	for _, m := range []map[limitName]part{p.known, p.next} {
		if had, is := m[of]; !is || had.period < now.period || had.calendar != now.calendar ||
			had.period == now.period && had.used < now.used {
			m[of] = now
		}
	}
}

// begin begins a round in which each record is noted.
func (p *parts) begin() {
	if p.round {
		p.known = p.next
	}
	p.next, p.round = map[limitName]part{}, true
}

// Parts returns the limits with the largest parts of the present period, at most so many, the largest first.
func (b *Book) Parts(now time.Time, most int) []Part {
	m, out := b.moment(now), make([]Part, 0, len(b.parts.known))
	for of, one := range b.parts.known {
		if p, present := m.present(one.calendar); p != nil && one.period >= present {
			out = append(out, Part{of.tenant, of.limit, one.used})
		}
	}
	slices.SortFunc(out, func(a, b Part) int {
		return cmp.Or(cmp.Compare(b.Used, a.Used), cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Limit, b.Limit))
	})
	return out[:min(len(out), max(most, 0))]
}
