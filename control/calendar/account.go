package calendar

import "slices"

// account is an owner's of one period.
type account struct {
	period int64
	users  []user
	ended  Use // of gateways that are forgotten

	booked    Units      // lengths of all intervals
	last      interval   // that was booked, with those before it that have no gap
	mine      []interval // all of them, without what is excluded, in their order; where there is no gap, one
	hasBooked bool
	high      Units    // highest end of an interval that is known
	full      Units    // the amount when the coordinators said that it is used up; 0: they have given an interval since
	others    Units    // highest that gateways know of other sessions
	said      Units    // that gateways were sent
	unbooked  interval // that other owners have granted beyond their intervals, as far as gateways know
	out       Units    // granted and not returned; below 0 if gateways returned units of another owner

	session  uint64 // of its questions to the coordinators
	number   uint64
	wanted   Units // of the open question; 0: none is open
	firstAt  int64 // when it was asked first
	askAt    int64 // when it may be asked again
	away     bool  // the coordinators cannot store it
	slow     int64 // bookings count as slow until then
	usedUp   int64 // the amount is used up, as was known then, until that time
	unknown  int64 // the coordinators have no such limit; likewise
	reported Use
	reportAt int64 // when the use is to be said; 0: it has not changed
	recalled int64 // when gateways were asked for what is idle; 0: they were not
	answered bool  // by the coordinators, or the period began here: what is used is known
}

// interval has the units of a booking.
type interval struct{ from, to Units }

// user is a session of a gateway's process.
type user struct {
	peer    Peer
	session uint64

	brought, granted, returned Units
	has                        Units // of the latest Ask
	received                   Units // likewise
	use                        Use

	number  uint32 // of the latest Ask
	replied uint32 // of the latest Reply
	at      int64  // of the latest Ask
	want    Units
	until   int64 // end of the question
	ahead   Units
	order   uint64
	fresh   bool  // a Reply is due
	no      int64 // the gateway refuses until then
	ended   bool
	asked   uint32 // Reply that asked for idle units; 0: none is open
}

// debt returns the units that were granted beyond the intervals.
func (a *account) debt() Units { return max(0, a.out-a.booked) }

// end is the highest end of an interval, as far as is known.
func (a *account) end() Units { return max(a.high, a.full) }

// level is end, and the debt as if it were an interval.
func (a *account) level() Units { return a.end() + a.debt() }

// granted is the highest end of what was granted: what is above it may be given back.
func (a *account) granted() Units {
	rest := max(0, min(a.booked-a.out, a.last.to-a.last.from))
	return (max(a.others, a.last.to-rest) + a.debt()).bounded()
}

// slowAfter is the time after which a booking counts as slow. Who does not know what was used waits longer for it.
func (a *account) slowAfter() int64 {
	if a.answered || a.others > 0 {
		return SlowAfter
	}
	return firstSlow
}

// hasNow returns the units of a gateway, with those on their way to it.
func (u *user) hasNow() Units {
	if u.ended {
		return 0
	}
	return u.has + max(0, u.granted-u.received)
}

func (a *account) find(p Peer, session uint64) *user {
	i := slices.IndexFunc(a.users, func(u user) bool { return u.peer == p && u.session == session })
	if i < 0 {
		return nil
	}
	return &a.users[i]
}

const (
	// maxUsers bounds the sessions of an account, and maxOfPeer those of one process: it begins another one if the key
	// moves or its messages are lost.
	maxUsers  = 4096
	maxOfPeer = 4
)

func (a *account) add(p Peer, session uint64) *user {
	own, first := 0, -1
	for i := range a.users {
		if a.users[i].peer == p {
			if own++; first < 0 {
				first = i
			}
		}
	}
	switch {
	case own >= maxOfPeer:
		a.forget(first)
	case len(a.users) >= maxUsers:
		a.forget(0)
	}
	a.users = append(a.users, user{peer: p, session: session})
	return &a.users[len(a.users)-1]
}

// forget forgets a session. What it was granted and has not returned is used, or lost.
func (a *account) forget(i int) {
	a.ended.Add(a.users[i].use)
	a.users = slices.Delete(a.users, i, i+1)
}

func (a *account) use() Use {
	sum := a.ended
	for i := range a.users {
		sum.Add(a.users[i].use)
	}
	return sum
}

func (a *account) hasUse() bool { return a.use() != Use{} || a.hasBooked || a.debt() > 0 }
