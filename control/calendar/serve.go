package calendar

import (
	"slices"

	"github.com/titrate/titrate/control/slots"
)

// serve grants units to the gateways whose requests wait, books more, and answers what is to be answered.
func (o *Owner) serve(now int64, out Outbox) {
	a := &o.now
	if a.period == 0 {
		return // it is not known what the units would be of
	}
	o.burst.see(now, a.waits(now))
	o.grantWaiting(now)
	o.grantAhead()
	o.book(now, out)
	o.grantWaiting(now) // by the owner's own count, if bookings are slow
	short := o.next(now) != nil
	if short && o.exhausted(now) {
		o.recall(now, out)
	} else if !short {
		a.recalled = 0
	}
	o.answer(now, out, short)
}

func (o *Owner) grantWaiting(now int64) {
	for u := o.next(now); u != nil; u = o.next(now) {
		n := min(u.want, o.spare(now))
		if n <= 0 {
			return
		}
		o.now.grant(u, n)
	}
}

func (a *account) grant(u *user, n Units) {
	u.granted += n
	u.want = max(0, u.want-n)
	a.out += n
	u.fresh = true
}

// next returns the gateway that has waited for longest; nil: none waits.
func (o *Owner) next(now int64) (first *user) {
	for i := range o.now.users {
		u := &o.now.users[i]
		if u.want > 0 && now < u.until && (first == nil || u.order < first.order) {
			first = u
		}
	}
	return first
}

// aheadPart of the units that are free is granted to one gateway that does not need them yet.
const aheadPart = 4

func (o *Owner) grantAhead() {
	for i := range o.now.users {
		u := &o.now.users[i]
		if n := min(u.ahead, o.free()/aheadPart); n >= Unit && u.fresh {
			o.now.grant(u, n)
			u.ahead = 0
		}
	}
}

// step returns what the owner has booked ahead of the use.
func (o *Owner) step(now int64) Units {
	use := Units(min(o.rate.per(now)*stepFor, float64(o.terms.Amount)/1000))
	return max(2*Unit, 2*o.burst.most(now), use)
}

// waits returns the cost that waits and cannot be granted.
func (a *account) waits(now int64) (sum Units) {
	for i := range a.users {
		if u := &a.users[i]; now < u.until {
			sum += u.want
		}
	}
	return sum
}

// book asks the coordinators for an interval if half of the step is used, and again while they do not answer.
func (o *Owner) book(now int64, out Outbox) {
	a, step := &o.now, o.step(now)
	need := a.waits(now) + a.debt()
	ready := a.bookings.length - a.out
	switch {
	case now < a.ask.againAt, o.left:
		return
	case a.ask.wanted > 0: // a repeat asks for the same
	case need == 0 && (ready >= step/2 || a.high >= o.terms.Amount || o.rate.per(now) == 0):
		return
	default:
		a.ask.number++
		a.ask.firstAt = now
		a.ask.wanted = need + step
	}
	a.ask.wanted = min(a.ask.wanted, o.terms.Amount)
	a.ask.againAt = now + bookAgain
	out.Book(a.want(a.ask.wanted))
}

// want is a question with the use so far.
func (a *account) want(n Units) Want {
	a.reported, a.reportAt = a.use(), 0
	return Want{Session: a.ask.session, Number: a.ask.number, Period: a.period, Wanted: n, Known: a.high,
		Use: a.reported}
}

// exhausted reports whether no more can be booked soon.
func (o *Owner) exhausted(now int64) bool {
	a := &o.now
	switch {
	case a.ask.hasNone(now):
		return true
	case a.ask.away:
		return !o.byOwnCount(now) || a.level() >= o.terms.Amount
	}
	return a.ask.wanted > 0 && now-a.ask.firstAt >= SlowAfter && (!o.terms.Open || o.alone ||
		a.level() >= o.terms.Amount)
}

// recall asks gateways for idle units, once while others wait.
func (o *Owner) recall(now int64, out Outbox) {
	a := &o.now
	if a.recalled != 0 && now-a.recalled < refuseFor {
		return
	}
	a.recalled = now
	for i := range a.users {
		if u := &a.users[i]; u.want == 0 && !u.ended && u.hasNow() > 0 {
			o.reply(now, u, out, Reply{Recall: true})
			u.asked = u.replied
		}
	}
}

// awaits reports whether gateways may still return idle units.
func (o *Owner) awaits(now int64) bool {
	return o.now.recalled != 0 && now-o.now.recalled < recallFor &&
		slices.ContainsFunc(o.now.users, func(u user) bool { return u.asked != 0 })
}

// answer answers the gateways that have asked.
func (o *Owner) answer(now int64, out Outbox, short bool) {
	no := short && o.exhausted(now) && !o.awaits(now)
	for i := range o.now.users {
		u := &o.now.users[i]
		waits := u.want > 0 && now < u.until
		switch {
		case waits && no:
			u.want = 0
			o.reply(now, u, out, Reply{Refuse: o.refuseFor(now)})
		case u.no != 0 && !no && now < u.no && !short && o.spare(now) > 0:
			o.reply(now, u, out, Reply{}) // others may be granted now
		case u.fresh: // without Begin a gateway that has forgotten the key returns what was on its way to it
			o.reply(now, u, out, Reply{Begin: u.ended && u.received >= u.granted})
		}
	}
	o.dropEnded(now)
}

// dropEnded forgets gateways that have ended long enough ago. What they have used stays.
func (o *Owner) dropEnded(now int64) {
	o.now.users = slices.DeleteFunc(o.now.users, func(u user) bool {
		over := u.ended && now-u.at >= keepEnded
		if over {
			o.now.ended.Add(u.use)
		}
		return over
	})
}

// refuseFor returns how long a no holds: not into another period.
func (o *Owner) refuseFor(now int64) int64 {
	if o.ends == 0 {
		return refuseFor
	}
	return max(1, min(refuseFor, o.ends-now))
}

// reply sends a message.
func (o *Owner) reply(now int64, u *user, out Outbox, m Reply) {
	a := &o.now
	u.replied++
	u.fresh = false
	u.no = 0
	if m.Refuse > 0 {
		u.no = now + m.Refuse
	}
	a.said = max(a.said, a.granted())
	m.Owner, m.Session, m.Number, m.Seen, m.Granted = o.life, u.session, u.replied, u.number, u.granted
	m.Period, m.Left, m.Known, m.Unbooked = a.period, o.leftOf(now), a.granted(), a.debt().bounded()
	m.Amount, m.Remaining = o.terms.Amount, o.remaining()
	out.Reply(u.peer, m)
}

// Due returns when Tick has something to do; 0: never.
func (o *Owner) Due(now int64) (due int64) {
	a := &o.now
	due = a.reportAt
	if a.ask.wanted > 0 {
		due = slots.Sooner(due, a.ask.againAt)
		if slow := a.ask.firstAt + a.slowAfter(); slow > now {
			due = slots.Sooner(due, slow)
		}
	}
	if at := a.recalled + recallFor; a.recalled != 0 && at > now {
		due = slots.Sooner(due, at)
	}
	for i := range a.users {
		u := &a.users[i]
		if u.want > 0 {
			due = slots.Sooner(due, u.until)
			if a.ask.wanted == 0 && a.ask.againAt > now {
				due = slots.Sooner(due, a.ask.againAt)
			}
		}
		if due = slots.Sooner(due, u.at+forgetUser); u.ended {
			due = slots.Sooner(due, u.at+keepEnded)
		}
	}
	for i := range o.past.users {
		due = slots.Sooner(due, o.past.users[i].at+forgetUser/6)
	}
	return slots.Sooner(due, o.past.reportAt)
}

// Tick repeats what is not answered, says what was used, and forgets gateways that say nothing.
func (o *Owner) Tick(now int64, out Outbox) {
	for i := range o.now.users {
		if u := &o.now.users[i]; now >= u.until {
			u.want = 0
		}
	}
	o.drop(&o.now, now-forgetUser)
	o.drop(&o.past, now-forgetUser/6)
	o.serve(now, out)
	if a := &o.now; a.reportAt != 0 && now >= a.reportAt {
		out.Book(a.want(0))
	}
	if a := &o.past; a.period != 0 && len(a.users) == 0 {
		o.finish(a, out)
	} else if a.reportAt != 0 && now >= a.reportAt {
		out.Book(a.want(0))
	}
}

func (o *Owner) drop(a *account, before int64) {
	for i := len(a.users) - 1; i >= 0; i-- {
		if a.users[i].at <= before {
			a.forget(i)
		}
	}
}

// finish closes the account of a period: what it has of its last intervals goes back.
func (o *Owner) finish(a *account, out Outbox) {
	if a.hasUse() {
		w := a.want(0)
		w.Final, w.Returned = true, a.giveBack()
		if w.Known = max(w.Known, a.granted()); w.Returned != 0 {
			w.Known = a.granted()
		}
		out.Book(w)
	}
	*a = account{}
}

// giveBack returns the new end of the last intervals, 0 if it stays.
func (a *account) giveBack() Units {
	n := min(a.bookings.length-a.out, a.bookings.last.to-a.bookings.last.from)
	if n <= 0 || a.ask.wanted > 0 { // another interval may be on its way
		return 0
	}
	return a.bookings.last.to - n
}

// Leave has the owner give back what it has, since another agent owns the key now. It books and grants no more, and
// takes in what gateways have used until Close.
func (o *Owner) Leave(out Outbox) {
	a := &o.now
	end := a.giveBack()
	if o.left = true; end == 0 {
		return
	}
	w := a.want(0)
	w.Returned, w.Known = end, a.granted()
	a.bookings.length -= a.bookings.last.to - end
	if a.high == a.bookings.last.to {
		a.high = max(a.others, end) // what went back is not said to be used
	}
	a.bookings.last.to = end
	out.Book(w)
}

// Close ends the owner: it books no more and gives back what it has.
func (o *Owner) Close(out Outbox) {
	o.left = true
	o.finish(&o.past, out)
	period, users := o.now.period, o.now.users
	o.finish(&o.now, out)
	o.now.period, o.now.users = period, users
	for i := range o.now.users {
		o.now.users[i].want = 0
	}
}
