package world

import (
	"maps"
	"slices"
	"time"

	"github.com/titrate/titrate/control/calendar"
	"github.com/titrate/titrate/control/config"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/agent/quotas"
	"github.com/titrate/titrate/services/coordinator/booking"
)

// storeTakes is the time in which etcd stores a booking.
const storeTakes = 5 * time.Millisecond

// bookkeeping is the coordinators' book of calendar quotas. etcd loses nothing, so another leader has the same.
type bookkeeping struct {
	book      *booking.Book
	announced []booking.Period
}

func (w *World) newBookkeeping() bookkeeping {
	return bookkeeping{book: booking.New(func(k booking.Key) (booking.Terms, bool) {
		for _, l := range w.configuration().Limits[k.Tenant] {
			if l.Name == k.Limit && l.Quota != nil {
				amount := calendar.UnitsOf(l.AmountOf(k.Client, 0))
				return booking.Terms{Amount: amount, Calendar: l.Quota.Calendar}, true
			}
		}
		return booking.Terms{}, false
	})}
}

// announcePeriods sends agents the periods of the calendars in use, if they have changed.
func (w *World) announcePeriods() {
	used := map[config.Calendar]struct{}{}
	for _, limits := range w.configuration().Limits {
		for _, l := range limits {
			if l.Quota != nil {
				used[l.Quota.Calendar] = struct{}{}
			}
		}
	}
	b := &w.books
	b.book.Configure(slices.SortedFunc(maps.Keys(used), booking.CompareCalendars))
	before := b.announced
	b.announced = b.book.Announce(w.date())
	if slices.EqualFunc(before, b.announced, func(a, b booking.Period) bool {
		return a.Calendar == b.Calendar && a.Number == b.Number
	}) {
		return
	}
	for i := range w.agents {
		if a := &w.agents[i]; a.connected {
			w.sendPeriods(a, false)
		}
	}
}

// periods are a message of the coordinator. fresh: it is the first of a stream.
type periods struct {
	list  []quotas.Period
	fresh bool
}

func (w *World) sendPeriods(a *agent, fresh bool) {
	p := &periods{fresh: fresh}
	for _, one := range w.books.book.Announce(w.date()) {
		p.list = append(p.list, quotas.Period(one))
	}
	if len(p.list) > 0 {
		w.plan(w.way(), takePeriods, a.place, a.life, p)
	}
}

func (w *World) takePeriods(a *agent, p *periods) {
	if a.connected {
		w.perform(a, a.core.SetPeriods(a.time(w), p.list, p.fresh))
	}
}

// sendBookings sends the coordinator an agent's bookings. Without a stream they are lost; the agent repeats them.
func (w *World) sendBookings(a *agent, list []quotas.Booking) {
	if !a.connected {
		return
	}
	for _, m := range quotas.EncodeBookings(list) {
		w.add(item{at: w.now + w.way(), task: takeBookings, who: a.place, load: m})
	}
}

// takeBookings books for an agent, and answers when that is stored.
func (w *World) takeBookings(a *agent, m *controlv1.Bookings) {
	if !w.reaches(a) || !a.connected {
		return
	}
	out := &controlv1.Booked{}
	for _, r := range m.GetRequests() {
		answer, _, _ := w.books.book.Take(w.date(), r)
		out.Bookings = append(out.Bookings, answer)
	}
	w.plan(storeTakes+w.way(), takeBooked, a.place, a.life, out)
}

func (w *World) takeBooked(a *agent, m *controlv1.Booked) {
	if a.connected {
		w.perform(a, a.core.Booked(a.time(w), quotas.DecodeBooked(m)))
	}
}
