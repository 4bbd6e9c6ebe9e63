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
	"context"
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
	"github.com/titrate/titrate/services/store"
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
	// finishFor bounds the time in which use is stored when the leadership ends.
	finishFor = 2 * time.Second
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

// Run keeps the ledger until ctx ends.
func (l *Ledger) Run(ctx context.Context) {
	for ctx.Err() == nil {
		l.mu.Lock()
		epoch, led := l.epoch, l.led
		l.mu.Unlock()
		leading, stop := context.WithCancel(ctx)
		go func() {
			select {
			case <-led:
			case <-leading.Done():
			}
			stop()
		}()
		if epoch != 0 && l.needed(leading) {
			l.lead(leading, epoch)
		}
		<-leading.Done()
		stop()
	}
}

// lead owns the journal until ctx ends.
func (l *Ledger) lead(ctx context.Context, epoch int64) {
	said := rate.Sometimes{First: 1, Interval: time.Minute}
	for ctx.Err() == nil {
		j, err := l.open(ctx, epoch)
		if err == nil {
			err = l.serve(ctx, j)
			l.close()
		}
		if err != nil && ctx.Err() == nil {
			said.Do(func() {
				l.o.Log.Warn("bookings of calendar quotas are not stored; it is tried again", "error", err)
			})
			wait(ctx, openAgain)
		}
	}
}

// open takes the journal and reads the book.
func (l *Ledger) open(ctx context.Context, epoch int64) (*journal, error) {
	j, err := openJournal(ctx, l.o.Client, l.o.Prefix, epoch, l.refused)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	book := booking.New(l.o.Terms)
	unreadable, err := j.read(ctx, now, book)
	if err != nil {
		return nil, err
	}
	if unreadable > 0 {
		l.o.Log.Error("stored bookings cannot be read: owners say what they know of them", "values", unreadable)
	}
	l.mu.Lock()
	if l.before != nil {
		book.Merge(now, l.before)
		l.before = nil
	}
	book.Configure(l.used)
	book.Opened(now)
	l.book = book
	l.stats.Unreadable += uint64(unreadable)
	l.mu.Unlock()
	l.o.Log.Info("bookings of calendar quotas are taken here", "epoch", epoch, "records", book.Records(),
		"took", time.Since(now))
	l.announce(now)
	notify(l.work)
	return j, nil
}

// refused notes that etcd does not store something until somebody has changed something.
func (l *Ledger) refused(err error) {
	l.mu.Lock()
	l.stats.Refused++
	l.mu.Unlock()
	l.said.Do(func() { l.o.Log.Error("etcd refuses to store bookings of calendar quotas", "error", err) })
}

// close ends the ownership. Owners repeat the requests that wait.
func (l *Ledger) close() {
	l.mu.Lock()
	l.counts = plus(l.counts, l.book.Counts())
	answers := l.waiting
	l.before, l.book, l.waiting, l.announced = l.book, nil, nil, nil
	l.generation++
	l.mu.Unlock()
	l.sayAway(answers)
}

// serve writes windows until ctx ends or the journal is lost.
func (l *Ledger) serve(ctx context.Context, j *journal) error {
	soon := rate.NewLimiter(atOnce, 4)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	last := time.Time{}
	for shard := 0; ; {
		var stale []int
		select {
		case <-ctx.Done():
			l.finish(ctx, j)
			return nil
		case <-ticker.C:
			stale = l.tidy(shard)
			shard = (shard + 1) % booking.Shards
			l.announce(time.Now())
			if len(stale) == 0 {
				continue
			}
		case <-l.work:
			rest := window - time.Since(last)
			select {
			case <-l.first:
				if !soon.Allow() {
					wait(ctx, rest)
				}
			case <-ctx.Done():
			case <-time.After(rest):
			}
		}
		last = time.Now()
		if err := l.write(ctx, j, stale); err != nil {
			return err
		}
	}
}

// finish stores the use that is in memory alone, because another coordinator leads from now on. If that one has the
// journal already, owners say their use again.
func (l *Ledger) finish(ctx context.Context, j *journal) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishFor)
	defer cancel()
	for shard := 0; shard < booking.Shards && ctx.Err() == nil; {
		var stale []int
		l.mu.Lock()
		for ; shard < booking.Shards && len(stale) < foldsAtOnce; shard++ {
			if l.book.Stale(shard) {
				stale = append(stale, shard)
			}
		}
		l.mu.Unlock()
		if len(stale) > 0 && l.write(ctx, j, stale) != nil {
			return
		}
	}
}

// tidy looks at a shard, and returns it if use in it is to be stored.
func (l *Ledger) tidy(shard int) (stale []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.book.Tidy(now, shard)
	l.book.Settle(now, shard)
	notify(l.work) // it may have made records final
	if l.book.Stale(shard) {
		stale = append(stale, shard)
	}
	return stale
}

// write stores what has changed, and sends the answers that waited for it.
func (l *Ledger) write(ctx context.Context, j *journal, stale []int) error {
	l.mu.Lock()
	b, answers := j.batch(l.book, stale...), l.waiting
	l.waiting, l.writing = nil, time.Now()
	l.mu.Unlock()
	slow := time.AfterFunc(slowAfter, func() { l.sayAway(answers) })
	err := j.store(ctx, b)
	slow.Stop()
	l.mu.Lock()
	l.writing = time.Time{}
	if err != nil {
		l.mu.Unlock()
		l.sayAway(answers)
		return err
	}
	l.stats.Transactions, l.stats.Bytes, l.stats.Last = j.written.transactions, j.written.bytes, j.written.last
	l.mu.Unlock()
	for i := range answers {
		answers[i].stored()
	}
	return nil
}

// sayAway answers requests that etcd takes long to store. Their intervals follow.
func (l *Ledger) sayAway(answers []waiting) {
	l.mu.Lock()
	l.stats.Away += uint64(len(answers))
	l.mu.Unlock()
	for _, w := range answers {
		w.answer(notStored(w.booking))
	}
}

// needed waits until a calendar is in use, or bookings are stored; false: ctx has ended before.
func (l *Ledger) needed(ctx context.Context) bool {
	for ctx.Err() == nil {
		l.mu.Lock()
		used := len(l.used) > 0
		l.unused = false
		l.mu.Unlock()
		if used {
			return true
		}
		asking, cancel := context.WithTimeout(ctx, store.Timeout)
		got, err := l.o.Client.Get(asking, l.o.Prefix+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		cancel()
		switch {
		case err != nil:
			wait(ctx, openAgain)
		case got.Count > 0:
			return true
		default:
			l.mu.Lock()
			l.unused = len(l.used) == 0
			l.mu.Unlock()
			select {
			case <-ctx.Done():
			case <-l.wanted:
			}
		}
	}
	return false
}

// wait waits for a time or the end of ctx.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
