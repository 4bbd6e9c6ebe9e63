package calendar

import "slices"

// account is an owner's of one period.
type account struct {
	period int64
	users  []user
	ended  Use // of gateways that are forgotten

	bookings bookings
	high     Units // highest end of an interval that is known
	full     Units // the amount when the coordinators said that it is used up; 0: they have given an interval since
	others   Units // highest that gateways know of other sessions
	said     Units // that gateways were sent
	out      Units // granted and not returned; below 0 if gateways returned units of another owner

	ask      question
	reported Use
	reportAt int64 // when the use is to be said; 0: it has not changed
	recalled int64 // when gateways were asked for what is idle; 0: they were not
}

// question is an account's latest question to the coordinators, and what it knows by their answers.
type question struct {
	session uint64
	number  uint64
	wanted  Units // of the open question; 0: none is open
	firstAt int64 // when it was asked first
	againAt int64 // when it may be asked again
	slow    int64 // bookings count as slow until then
	usedUp  int64 // the amount is used up, as was known then, until that time
	unknown int64 // the coordinators have no such limit; likewise
	away    bool  // the coordinators cannot store it
	known   bool  // what is used: the coordinators have answered, or the period began here
}

// hasNone reports whether the coordinators have no units for the account.
func (q *question) hasNone(now int64) bool { return now < q.usedUp || now < q.unknown }

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
func (a *account) debt() Units { return max(0, a.out-a.bookings.length) }

// end is the highest end of an interval, as far as is known.
func (a *account) end() Units { return max(a.high, a.full) }

// level is end, and the debt as if it were an interval.
func (a *account) level() Units { return a.end() + a.debt() }

// granted is the highest end of what was granted: what is above it may be given back.
func (a *account) granted() Units {
	rest := max(0, min(a.bookings.length-a.out, a.bookings.last.to-a.bookings.last.from))
	return (max(a.others, a.bookings.last.to-rest) + a.debt()).bounded()
}

// slowAfter is the time after which a booking counts as slow. Who does not know what was used waits longer for it.
func (a *account) slowAfter() int64 {
	if a.ask.known || a.others > 0 {
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

func (a *account) hasUse() bool { return a.use() != Use{} || a.bookings.any || a.debt() > 0 }
