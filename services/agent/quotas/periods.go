package quotas

import (
	"time"

	"github.com/titrate/titrate/control/calendar"
	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/services/agent/owners"
)

// The coordinators say which period it is, and answer bookings.

// period is the present one of a calendar, as far as is known here.
type period struct {
	number int64
	ends   time.Duration // 0: not known
	next   time.Duration // length of the one after it; 0: not known
}

// Period comes from a coordinator: the present one of a calendar.
type Period struct {
	Calendar   config.Calendar
	Number     int64
	Left, Next time.Duration
}

// SetPeriods takes in what a coordinator says. A number never goes back, so a coordinator whose clock is behind
// changes nothing.
func (d *Desk) SetPeriods(now time.Duration, list []Period) {
	d.now = now
	for _, one := range list {
		p := owners.At(d.periods, one.Calendar)
		if one.Number >= p.number {
			*p = period{one.Number, now + max(one.Left, 1), one.Next}
		}
	}
	for _, k := range d.inOrder() {
		d.setPeriod(k)
		d.schedule(k)
	}
}

// Report has the use of all keys be said again, on a new stream to a coordinator.
func (d *Desk) Report(now time.Duration) {
	d.now = now
	for _, k := range d.inOrder() {
		k.o.Report(int64(now))
		d.schedule(k)
	}
}

// turn begins the periods whose predecessors have ended.
func (d *Desk) turn() {
	turned := map[config.Calendar]bool{}
	for c, p := range d.periods {
		if p.ends == 0 || d.now < p.ends {
			continue
		}
		p.number++
		ends := time.Duration(0)
		if p.next > 0 {
			ends = p.ends + p.next
		}
		p.ends, p.next, turned[c] = ends, 0, true
	}
	if len(turned) == 0 {
		return
	}
	for _, k := range d.inOrder() {
		if turned[k.calendar] {
			d.setPeriod(k)
			d.schedule(k)
		}
	}
}

// setPeriod gives an owner the period of now.
func (d *Desk) setPeriod(k *key) {
	if p := d.periods[k.calendar]; p != nil {
		k.o.SetPeriod(int64(d.now), p.number, int64(p.ends), d.nextSession(), outbox{d, k})
	}
}

// Answer is a coordinator's to a Booking.
type Answer struct {
	exchange.KeyName
	calendar.Booked
}

// Booked takes in what a coordinator answers.
func (d *Desk) Booked(now time.Duration, list []Answer) {
	d.now = now
	for i := range list {
		a := &list[i]
		d.stats.Booked++
		if a.Reason != calendar.StoreAway {
			d.closing.confirm(a)
		}
		hash, _, _, ok := d.o.Limit(&a.KeyName)
		if k := d.keys[hash]; ok && k != nil {
			k.o.Booked(int64(now), a.Booked, outbox{d, k})
			d.schedule(k)
		}
	}
}
