package calendar

import "slices"

// interval has the units of a booking.
type interval struct{ from, to Units }

// bookings are the intervals that the coordinators have booked for an account.
type bookings struct {
	length  Units      // of all
	last    interval   // that was booked, with those before it that have no gap
	list    []interval // all of them, without what is excluded, in their order; where there is no gap, one
	any     bool
	foreign interval // that other owners have granted beyond their intervals, as far as gateways know
}

// maxBookings bounds bookings.list. With more, the first two become one: what is between them is excluded needlessly.
const maxBookings = 8

// take takes in an interval, and returns the units of it that are excluded.
func (b *bookings) take(booked interval) (excluded Units) {
	b.length += booked.to - booked.from
	if !b.any || booked.from != b.last.to {
		b.last.from = booked.from
	}
	b.any, b.last.to = true, booked.to
	if n := len(b.list); n > 0 && b.list[n-1].to == booked.from {
		b.list[n-1].to = booked.to
	} else {
		b.list = append(b.list, booked)
	}
	if len(b.list) > maxBookings {
		b.list[1].from = b.list[0].from
		b.list = slices.Delete(b.list, 0, 1)
	}
	return b.exclude(b.foreign)
}

// exclude notes units that another owner has granted without an interval. If the owner was lost, nothing pays for
// them: where intervals of this account have them too, it does not grant them again. It returns how many these are.
func (b *bookings) exclude(units interval) (excluded Units) {
	if units.to > b.foreign.to {
		b.foreign = units
	}
	for i := 0; i < len(b.list); i++ {
		one := b.list[i]
		both := interval{max(one.from, units.from), min(one.to, units.to)}
		if both.from >= both.to {
			continue
		}
		excluded += both.to - both.from
		b.list[i].to = both.from
		if both.to < one.to {
			b.list = slices.Insert(b.list, i+1, interval{both.to, one.to})
			i++
		}
	}
	b.list = slices.DeleteFunc(b.list, func(one interval) bool { return one.from == one.to })
	return excluded
}
