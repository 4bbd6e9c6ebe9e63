package booking

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/titrate/titrate/control/calendar"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
)

const (
	// maxSessions bounds the sessions of a record: as many agents owned the key and have not said its end.
	maxSessions = 64
	// someSessions bounds the sessions of a record that wait for Settle to be put together.
	someSessions = 8
	// repeatsFor is the time in which an owner may repeat its last message: it tries ten times, a second each.
	repeatsFor = time.Minute
	// maxFree bounds the intervals that came back. Of more the shortest is lost: nobody gets its units.
	maxFree = 16
)

// record is the state of one key in one period.
type record struct {
	account
	id       uint64
	amount   Units
	soft     []float64
	next     Units      // nobody has these units, and those after it
	free     []interval // below next, came back
	sessions []session
	ended    []uint64     // the latest sessions with an end in order that are put together here
	base     calendar.Use // of sessions that were put together
	lost     int32        // of them and of the closed ones, those without an end in order
	notified int          // thresholds of soft that the webhook was sent
	final    bool
	seen     time.Time // of the last request, or when the record was read

	dirty bool // it is in Book.dirty
	whole bool // Write encodes all of it, not only the dirty sessions
	named bool // and its name
	stale bool // its use has changed since it was encoded
	gone  bool
}

type interval struct{ from, to Units }

// session is one ownership of the key.
type session struct {
	id       uint64
	number   uint64 // of its last interval; 0 = none
	from, to Units
	low      Units // of its intervals that end at to without a gap, as far as this coordinator knows
	use      calendar.Use
	final    bool
	dirty    bool
	seen     time.Time
}

func (one *record) find(id uint64) *session {
	for i := range one.sessions {
		if one.sessions[i].id == id {
			return &one.sessions[i]
		}
	}
	return nil
}

// note takes in a session's use, its end, and what it gives back. It reports whether that is to be stored soon: use
// is not.
func (one *record) note(_ time.Time, s *session, r *controlv1.BookingRequest) (changed bool) {
	if s.final {
		return false
	}
	use := calendar.Use{Admitted: Units(r.GetAdmitted()), Refused: Units(r.GetRefused()),
		Settled: Units(r.GetSettled())}
	if use != s.use {
		s.use, one.stale = use, true
	}
	back := max(Units(r.GetReturned()), s.low)
	if r.GetReturned() != 0 && r.GetNumber() == s.number && back < s.to {
		one.takeBack(interval{back, s.to})
		s.from, s.to, one.whole, changed = min(s.from, back), back, true, true
	}
	if r.GetFinal() {
		s.final, changed = true, true
	}
	return changed
}

// learn notes that units up to an end are given. The store did not know it if it reports true.
func (one *record) learn(end Units) bool {
	if end = min(end, one.amount); end <= one.next {
		return false
	}
	one.next = end
	return true
}

// takeBack makes units free again.
func (one *record) takeBack(i interval) {
	if i.to == one.next {
		one.next = i.from
		return
	}
	one.free = append(one.free, i)
	if len(one.free) > maxFree {
		shortest := 0
		for k := range one.free {
			if one.free[k].to-one.free[k].from < one.free[shortest].to-one.free[shortest].from {
				shortest = k
			}
		}
		one.free = slices.Delete(one.free, shortest, shortest+1)
	}
}

// given returns the units that sessions have, or that are lost.
func (one *record) given() Units {
	n := one.next
	for _, i := range one.free {
		n -= i.to - i.from
	}
	return n
}

// left returns the units that may be given.
func (one *record) left() Units { return max(0, one.amount-one.given()) }

// give takes at most n units for a session.
func (one *record) give(n Units) (from, to Units) {
	if n = min(n, one.left()); n <= 0 {
		return 0, 0
	}
	if last := len(one.free) - 1; last >= 0 {
		i := &one.free[last]
		from, to = i.from, min(i.to, i.from+n)
		if i.from = to; i.from == i.to {
			one.free = one.free[:last]
		}
		one.whole = true
		return from, to
	}
	if n = min(n, one.amount-one.next); n <= 0 {
		return 0, 0
	}
	from, to = one.next, one.next+n
	one.next = to
	return from, to
}

// fold puts the session that was not used for longest together with those before. A session that has ended goes first.
func (one *record) fold() {
	oldest := slices.MinFunc(one.sessions, func(a, b session) int {
		switch {
		case a.final == b.final:
			return cmp.Or(a.seen.Compare(b.seen), cmp.Compare(a.id, b.id))
		case a.final:
			return -1
		}
		return 1
	})
	i := slices.IndexFunc(one.sessions, func(s session) bool { return s.id == oldest.id })
	s := &one.sessions[i]
	one.base = plus(one.base, s.use)
	if !s.final {
		one.lost++
	}
	one.sessions = slices.Delete(one.sessions, i, i+1)
	one.whole = true
}

// settle puts the sessions together whose end was said long ago, and reports whether there were some. Their intervals
// stay given.
func (one *record) settle(now time.Time) bool {
	before := len(one.sessions)
	one.sessions = slices.DeleteFunc(one.sessions, func(s session) bool {
		over := s.final && now.Sub(s.seen) > repeatsFor
		if over {
			one.base = plus(one.base, s.use)
			one.noteEnd(s.id)
		}
		return over
	})
	some := len(one.sessions) < before
	one.whole = one.whole || some
	return some
}

// noteEnd remembers a session that may repeat its end.
func (one *record) noteEnd(id uint64) {
	if len(one.ended) >= maxSessions {
		one.ended = slices.Delete(one.ended, 0, 1)
	}
	one.ended = append(one.ended, id)
}

// use returns what all sessions have used. Corrections of one may exceed what it admitted itself, not the sum's.
func (one *record) use() calendar.Use {
	sum := one.base
	for i := range one.sessions {
		sum = plus(sum, one.sessions[i].use)
	}
	sum.Settled = max(0, sum.Settled)
	return sum
}

// close makes a record final.
func (one *record) close() {
	for i := range one.sessions {
		if one.sessions[i].final {
			one.noteEnd(one.sessions[i].id)
		} else {
			one.lost++
		}
	}
	one.base, one.sessions = one.use(), nil
	one.final, one.whole = true, true
}

// plus adds uses that agents have said: a sum has a bound.
func plus(a, b calendar.Use) calendar.Use {
	return calendar.Use{Admitted: sum(a.Admitted, b.Admitted), Refused: sum(a.Refused, b.Refused),
		Settled: sum(a.Settled, b.Settled)}
}

func sum(a, b Units) Units {
	switch {
	case b > 0 && a > math.MaxInt64-b:
		return math.MaxInt64
	case b < 0 && a < -math.MaxInt64-b:
		return -math.MaxInt64
	}
	return a + b
}
