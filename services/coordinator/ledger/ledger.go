// Package ledger keeps the bookings of calendar quotas in etcd, at the coordinator that is elected.
//
// # Model
//
//	agents ──Bookings──► Take ──► booking.Book ──Write──► window ──one transaction──► etcd
//	agents ◄──Booked──── answers ◄──────────────── stored ◄──────────────────────────┘
//
// A [Ledger] takes bookings while Lead has given it an epoch, and while it owns the journal in etcd. Each transaction
// compares the owner's key, so that a coordinator that was replaced writes nothing any more. A booking is answered when
// it is stored. Requests of a window of 100 ms are one transaction. The first request of a key does not wait for the
// window, eight times a second. So there are 20 transactions a second at most.
//
// While etcd is slow the same transaction is tried again, and requests gather in the next one. An answer that has
// waited for slowAfter is STORE_AWAY; a repeat gets the interval.
//
// # Failover
//
// The next leader takes the owner's key and reads the book back. What was in memory alone was not answered. A ledger
// that has lost the key and still leads (etcd was restored) reads what is stored, and adds what it knows itself.
package ledger

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/time/rate"

	"github.com/titrate/titrate/control/calendar"
	"github.com/titrate/titrate/control/config"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/booking"
)

const (
	// window is the time for which changes are gathered. Longer writes less and lets more requests wait.
	window = 100 * time.Millisecond
	// atOnce bounds the first requests of keys that are written at once, each second.
	atOnce = 8
	// firstAfter is the time after which the first request of a session is answered with what was given before, if it
	// is not stored yet: its owner may know nothing.
	firstAfter = time.Duration(calendar.SlowAfter)
	// slowAfter is the time after which a request that is not stored is answered STORE_AWAY.
	slowAfter = time.Second
	// openAgain is the time between two tries to open the journal.
	openAgain = 500 * time.Millisecond
	// mostWaiting bounds the answers that wait for etcd; more requests are answered STORE_AWAY.
	mostWaiting = 200_000
	// tick is the interval of housekeeping: a shard each, so all of them within five minutes.
	tick = time.Second
	// finishFor bounds the time in which use is stored when the leadership ends: less than a stop in order may take. A
	// disk that is busy for two seconds is not rare.
	finishFor = 4 * time.Second
)

// ErrAway says that the ledger is led elsewhere, or not read from etcd yet.
var ErrAway = errors.New("the use of calendar quotas is not known here yet: ask again in a moment")

// Options of a Ledger. All are needed.
type Options struct {
	Client *clientv3.Client
	Prefix string // of its keys in etcd
	// Terms says what is configured for a key.
	Terms func(booking.Key) (booking.Terms, bool)
	// Changed is called when agents are to be sent Periods.
	Changed func()
	Log     *slog.Logger
}

// Ledger is safe for concurrent use.
type Ledger struct {
	o      Options
	first  chan struct{} // a request that does not wait for the window
	work   chan struct{} // there is something to write
	led    chan struct{} // closes when epoch changes
	wanted chan struct{} // a calendar is in use

	mu         sync.Mutex
	epoch      int64 // 0: another coordinator leads
	book       *booking.Book
	before     *booking.Book // of an earlier ownership
	waiting    []waiting
	writing    time.Time // when the transaction under way began; zero: none is
	used       []config.Calendar
	unused     bool // no calendar is in use, and nothing is stored
	announced  []booking.Period
	generation uint64 // of what is announced
	counts     booking.Counts
	stats      Stats
	said       rate.Sometimes // of refused
}

// waiting is an answer that is sent when it is stored.
type waiting struct {
	booking *controlv1.Booking
	answer  func(*controlv1.Booking)
	early   *time.Timer // says that it is not stored yet; nil: nothing does
}

// stored answers when it is stored.
func (w *waiting) stored() {
	if w.early != nil {
		w.early.Stop()
	}
	w.answer(w.booking)
}

// Stats count the events of a ledger since the start.
type Stats struct {
	booking.Counts
	Records             int
	Transactions, Bytes uint64
	Away                uint64 // requests answered STORE_AWAY
	Unreadable          uint64 // stored values that could not be read
	Refused             uint64 // transactions and shards that etcd does not store, tries included
	Leads               bool   // it has its book
	Last                time.Duration
}

// New returns a ledger that takes no bookings yet.
func New(o Options) *Ledger {
	return &Ledger{o: o, first: make(chan struct{}, 1), work: make(chan struct{}, 1), led: make(chan struct{}),
		wanted: make(chan struct{}, 1), said: rate.Sometimes{First: 1, Interval: time.Minute}}
}

// Lead says that this coordinator takes bookings under an epoch; 0: another one does.
func (l *Ledger) Lead(epoch int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if epoch == l.epoch {
		return
	}
	l.epoch = epoch
	close(l.led)
	l.led = make(chan struct{})
}

// Configure says which calendars are in use.
func (l *Ledger) Configure(used []config.Calendar) {
	l.mu.Lock()
	l.used, l.unused = used, l.unused && len(used) == 0
	if l.book != nil {
		l.book.Configure(used)
	}
	l.mu.Unlock()
	if len(used) > 0 {
		notify(l.wanted)
	}
	l.announce(time.Now())
}

// Take takes the requests of an agent. answer is called for each, from any goroutine, now or when it is stored. The
// error says that the message exceeds its bounds.
func (l *Ledger) Take(m *controlv1.Bookings, answer func(*controlv1.Booking)) error {
	if err := booking.Check(m); err != nil {
		return err
	}
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range m.GetRequests() {
		if l.book == nil || len(l.waiting) >= mostWaiting {
			l.stats.Away++
			answer(away(r))
			continue
		}
		one, first, store := l.book.Take(now, r)
		if !store {
			answer(one)
			continue
		}
		w := waiting{booking: one, answer: answer}
		if r.GetNumber() == 1 && r.GetWanted() > 0 {
			w.early = time.AfterFunc(firstAfter, func() { answer(notStored(one)) })
		}
		l.waiting = append(l.waiting, w)
		if !l.writing.IsZero() && now.Sub(l.writing) > slowAfter {
			l.stats.Away++
			answer(notStored(one))
		}
		notify(l.work)
		if first {
			notify(l.first)
		}
	}
	return nil
}

// asked is a request, or its answer.
type asked interface {
	GetTenant() string
	GetLimit() string
	GetClient() []byte
	GetSession() uint64
	GetNumber() uint64
	GetPeriod() int64
}

// away says that a request is not stored yet.
func away(r asked) *controlv1.Booking {
	return &controlv1.Booking{Tenant: r.GetTenant(), Limit: r.GetLimit(), Client: r.GetClient(),
		Session: r.GetSession(), Number: r.GetNumber(), Period: r.GetPeriod(),
		Reason: controlv1.Booking_REASON_STORE_AWAY}
}

// notStored says the same, and how many units were given before.
func notStored(one *controlv1.Booking) *controlv1.Booking {
	b := away(one)
	b.Amount, b.Left = one.GetAmount(), one.GetLeft()
	b.From = max(b.Amount, b.Left) - b.Left
	b.From -= min(b.From, one.GetTo()-one.GetFrom())
	b.To = b.From
	return b
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
