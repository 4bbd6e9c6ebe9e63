package booking

import (
	"errors"
	"slices"
	"time"

	"github.com/titrate/titrate/control/calendar"
	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
)

// Units are a cost in millionths of a cost unit.
type Units = calendar.Units

// Key names a quota's key: names without collection.
type Key struct{ Tenant, Limit, Client string }

// Terms are the configuration of a key.
type Terms struct {
	Amount   Units
	Calendar config.Calendar
	Soft     []float64
	Reset    config.Instant // when the key was reset last; 0: never
}

const (
	// MaxRecords bounds the keys and periods that are kept: some 300 bytes of memory each, and 40 in etcd.
	MaxRecords = 1 << 20
	// maxNames bounds the names of all records, bytes: so a shard, an even part of them, fits a transaction of etcd.
	maxNames = 128 << 20
	// Kept counts the ended periods of a key that are kept; one while there is hardly room for new records.
	Kept = 3
	// maxRequests bounds the requests in a message, as the wire says.
	maxRequests = 4096
	// idleFor is the time after which a session of an ended period that says nothing has ended.
	idleFor = time.Hour
	// neighbour is the time around the change of a period in which both are open to bookings.
	neighbour = time.Duration(calendar.KnownBoth)
)

// account names a record. A key that is reset has another record from then on, and its record before stays.
type account struct {
	Key
	Calendar config.Calendar
	Period   int64
	Reset    config.Instant // 0: none
}

// Counts count the events of a book since New.
type Counts struct {
	Given, Repeated uint64 // intervals
	Late            uint64 // requests about final records
	LateUse         uint64 // of them those with use, which is dropped
	Dropped         uint64 // final records that were removed early for others
	Expired         uint64 // thresholds that were not delivered within a day of the period's end
	Full            uint64 // requests that were refused because MaxRecords are kept
	Folded          uint64 // sessions that were put together because a record has maxSessions
	Restored        uint64 // records that owners knew more of than the store
	Unreadable      uint64 // stored entries that could not be read
}

// Book has the records of all keys.
type Book struct {
	terms   func(Key) (Terms, bool)
	records map[account]*record
	shards  [Shards]map[uint64]*record // by ID
	last    uint64                     // ID of a record
	most    int                        // MaxRecords, less in tests

	dirty     []*record
	removed   []uint64
	hot       map[*record]struct{} // whose use has reached a threshold that was not delivered
	calendars calendars
	counts    Counts
	bytes     int // of the names of records
}

// New returns an empty book. terms says what is configured; it is called with each request.
func New(terms func(Key) (Terms, bool)) *Book {
	b := &Book{terms: terms, most: MaxRecords, records: map[account]*record{}, hot: map[*record]struct{}{}}
	for i := range b.shards {
		b.shards[i] = map[uint64]*record{}
	}
	return b
}

// Counts returns what has happened.
func (b *Book) Counts() Counts { return b.counts }

// Records returns how many records there are.
func (b *Book) Records() int { return len(b.records) }

// Check refuses a message that exceeds the bounds of its fields.
func Check(m *controlv1.Bookings) error {
	if len(m.GetRequests()) > maxRequests {
		return errors.New("more than 4096 booking requests in a message")
	}
	for _, r := range m.GetRequests() {
		c := r.GetCalendar()
		switch {
		case r.GetTenant() == "", r.GetLimit() == "", len(c.GetZone()) > config.MaxZone, c.GetStartsOn()>>8 != 0,
			len(r.GetTenant())+len(r.GetLimit())+len(r.GetClient()) > exchange.MaxKeyName:
			return errors.New("a booking request with a name that is missing or too long")
		case r.GetSession() == 0:
			return errors.New("a booking request without a session")
		case max(r.GetWanted(), r.GetKnown(), r.GetReturned(), r.GetAdmitted(), r.GetRefused()) >
			uint64(calendar.MaxUnits), Units(r.GetSettled()) > calendar.MaxUnits,
			Units(r.GetSettled()) < -calendar.MaxUnits:
			return errors.New("a booking request with an amount above 2e18")
		}
	}
	return nil
}

// Take answers a request. With first the record was not known before; with store the answer may be sent when what
// Write returns after this call is stored, and not before.
func (b *Book) Take(now time.Time, r *controlv1.BookingRequest) (answer *controlv1.Booking, first, store bool) {
	answer = &controlv1.Booking{Tenant: r.GetTenant(), Limit: r.GetLimit(), Client: r.GetClient(),
		Session: r.GetSession(), Number: r.GetNumber(), Period: r.GetPeriod()}
	key := Key{r.GetTenant(), r.GetLimit(), string(r.GetClient())}
	at := account{key, calendarOf(r.GetCalendar()), r.GetPeriod(), config.Instant(r.GetReset_())}
	terms, configured := b.terms(key)
	configured = configured && terms.Calendar == at.Calendar && terms.Reset == at.Reset
	answer.Amount = uint64(terms.Amount)
	known := b.records[at]
	reason, goesOn := b.accepts(now, at, known, configured, r)
	if answer.Reason = reason; !goesOn {
		return answer, false, false
	}
	one := known
	if one == nil {
		one, first = b.add(at), true
	}
	if configured {
		one.amount = terms.Amount
		one.soft = terms.Soft
	}
	s := b.session(now, one, r.GetSession())
	changed := one.note(now, s, r)
	if one.learn(Units(r.GetKnown())) {
		b.counts.Restored++
		changed = true
	}
	if r.GetWanted() > 0 {
		changed = b.book(now, one, s, r, answer, configured) || changed
	}
	if changed {
		b.mark(one, s)
	}
	b.watch(one)
	answer.Amount, answer.Left = uint64(one.amount), uint64(one.left())
	return answer, first, changed || answer.GetTo() > answer.GetFrom() || r.GetFinal()
}

// accepts reports whether a request changes anything, and if it does not, why. known is its record, if there is one.
func (b *Book) accepts(now time.Time, at account, known *record, configured bool, r *controlv1.BookingRequest) (
	why controlv1.Booking_Reason, goesOn bool) {
	onlyUse := r.GetWanted() == 0
	switch {
	case known != nil && known.final:
		b.late(known, r)
		return controlv1.Booking_REASON_OTHER_PERIOD, false
	case known != nil:
		return 0, !slices.Contains(known.ended, r.GetSession()) // else it repeats its end
	case !configured:
		return controlv1.Booking_REASON_NOT_CONFIGURED, false
	case !b.calendars.open(at.Calendar, at.Period, now, onlyUse):
		return controlv1.Booking_REASON_OTHER_PERIOD, false
	case len(b.records) >= b.most, b.bytes >= maxNames:
		b.counts.Full++
		return controlv1.Booking_REASON_FULL, false
	}
	return 0, !onlyUse || r.GetAdmitted()|r.GetRefused()|r.GetKnown() != 0 || r.GetSettled() != 0
}

// book gives a session an interval, and reports whether that has changed the record.
func (b *Book) book(now time.Time, one *record, s *session, r *controlv1.BookingRequest, answer *controlv1.Booking,
	configured bool) bool {
	switch {
	case s.number == r.GetNumber() && s.number != 0: // a repeat
		b.counts.Repeated++
		answer.From, answer.To = uint64(s.from), uint64(s.to)
		return false
	case s.final || r.GetNumber() < s.number:
		return false
	case !configured:
		answer.Reason = controlv1.Booking_REASON_NOT_CONFIGURED
		return false
	case !b.calendars.open(one.Calendar, one.Period, now, false):
		answer.Reason = controlv1.Booking_REASON_OTHER_PERIOD
		return false
	}
	from, to := one.give(Units(r.GetWanted()))
	if to-from < Units(r.GetWanted()) && one.left() == 0 { // else it asks again
		answer.Reason = controlv1.Booking_REASON_USED_UP
	}
	if from == to {
		return false
	}
	b.counts.Given++
	if from != s.to {
		s.low = from
	}
	s.number, s.from, s.to = r.GetNumber(), from, to
	answer.From, answer.To = uint64(from), uint64(to)
	return true
}

// add makes a record.
func (b *Book) add(at account) *record {
	b.last++
	one := &record{account: at, id: b.last, named: true}
	b.insert(one)
	return one
}

func (b *Book) insert(one *record) {
	b.records[one.account] = one
	b.shards[one.id%Shards][one.id] = one
	b.bytes += one.length()
	b.last = max(b.last, one.id)
}

// hardlyRoom reports whether records of earlier periods are to make room.
func (b *Book) hardlyRoom() bool {
	return len(b.records) >= b.most-b.most/16 || b.bytes >= maxNames-maxNames/16
}

// length of the names of a record, bytes.
func (one *record) length() int { return len(one.Tenant) + len(one.Limit) + len(one.Client) }

// drop is the reverse of insert.
func (b *Book) drop(one *record) {
	if b.shards[one.id%Shards][one.id] != one {
		return
	}
	if b.records[one.account] == one {
		delete(b.records, one.account)
	}
	delete(b.shards[one.id%Shards], one.id)
	b.bytes -= one.length()
}

func (b *Book) remove(one *record) {
	b.drop(one)
	one.gone = true
	b.cool(one)
	b.removed = append(b.removed, one.id)
}

// mark has the record, and its session if it is not nil, in what Write returns next.
func (b *Book) mark(one *record, s *session) {
	if s != nil {
		s.dirty = true
	}
	if !one.dirty {
		one.dirty = true
		b.dirty = append(b.dirty, one)
	}
}

// session finds or makes a session of a record.
func (b *Book) session(now time.Time, one *record, id uint64) *session {
	s := one.find(id)
	if s == nil {
		if len(one.sessions) >= someSessions && one.settle(now) {
			b.mark(one, nil)
		}
		if len(one.sessions) >= maxSessions {
			one.fold()
			b.counts.Folded++
			b.mark(one, nil)
		}
		one.sessions = append(one.sessions, session{id: id})
		s = &one.sessions[len(one.sessions)-1]
	}
	s.seen, one.seen = now, now
	return s
}

// Settle puts the sessions of a shard together that have ended.
func (b *Book) Settle(now time.Time, shard int) {
	for _, one := range b.shards[shard] {
		if one.settle(now) {
			b.mark(one, nil)
		}
	}
}

// calendarOf reads a calendar of the wire. A calendar that is not valid has no periods.
func calendarOf(c *controlv1.Calendar) config.Calendar {
	return config.Calendar{Per: pers[c.GetPer()], Zone: c.GetZone(), StartsOn: uint8(c.GetStartsOn())}
}

var pers = map[controlv1.Calendar_Unit]config.Per{controlv1.Calendar_UNIT_DAY: config.Day,
	controlv1.Calendar_UNIT_WEEK: config.Week, controlv1.Calendar_UNIT_MONTH: config.Month,
	controlv1.Calendar_UNIT_YEAR: config.Year}

// Wire returns a calendar for agents.
func Wire(c config.Calendar) *controlv1.Calendar {
	out := &controlv1.Calendar{Zone: c.Zone, StartsOn: int32(c.StartsOn)}
	for unit, per := range pers {
		if per == c.Per {
			out.Per = unit
		}
	}
	return out
}
