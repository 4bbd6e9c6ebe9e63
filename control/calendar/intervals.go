package calendar

import "slices"

// exclude notes units that another owner has granted without an interval. If the owner was lost, nothing pays for
// them: where intervals of this account have them too, it does not grant them again.
func (a *account) exclude(units interval) {
	if units.to > a.unbooked.to {
		a.unbooked = units
	}
	for i := 0; i < len(a.mine); i++ {
		one := a.mine[i]
		both := interval{max(one.from, units.from), min(one.to, units.to)}
		if both.from >= both.to {
			continue
		}
		a.out += both.to - both.from
		a.mine[i].to = both.from
		if both.to < one.to {
			a.mine = slices.Insert(a.mine, i+1, interval{both.to, one.to})
			i++
		}
	}
	a.mine = slices.DeleteFunc(a.mine, func(one interval) bool { return one.from == one.to })
}

// maxMine bounds account.mine. With more, the first two become one: what is between them is excluded needlessly.
const maxMine = 8

// take takes in an interval.
func (a *account) take(booked interval) {
	a.booked += booked.to - booked.from
	if !a.hasBooked || booked.from != a.last.to {
		a.last.from = booked.from
	}
	a.hasBooked, a.last.to = true, booked.to
	if n := len(a.mine); n > 0 && a.mine[n-1].to == booked.from {
		a.mine[n-1].to = booked.to
	} else {
		a.mine = append(a.mine, booked)
	}
	if len(a.mine) > maxMine {
		a.mine[1].from = a.mine[0].from
		a.mine = slices.Delete(a.mine, 0, 1)
	}
	a.exclude(a.unbooked)
}
