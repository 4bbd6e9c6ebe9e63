package ledger

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/titrate/titrate/control/calendar"
	"github.com/titrate/titrate/control/config"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/booking"
)

// ZipfOwners ask for 10,000 requests a second of 100,000 keys as control/calendar's owners do. A step is two requests,
// or 30 s of use up to a thousandth of the amount. The next one is booked when half is left.
type ZipfOwners struct {
	Booked int // bookings
	keys   []zipfKey
	zipf   *rand.Zipf
}

type zipfKey struct {
	has, step, use calendar.Units
	number         uint64
	open           bool
}

const (
	zipfKeys   = 100_000
	ZipfRate   = 10_000 // requests a second
	zipfAmount = 1_000_000 * calendar.Unit
)

func NewZipfOwners() *ZipfOwners {
	w := &ZipfOwners{keys: make([]zipfKey, zipfKeys),
		zipf: rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.0001, 1, zipfKeys-1)}
	for i := range w.keys {
		use := ZipfRate / 12.09 / float64(i+1)
		w.keys[i].step = max(2*calendar.Unit, min(calendar.UnitsOf(30*use), zipfAmount/1000))
	}
	return w
}

// Use spends requests. It returns the bookings that they need.
func (w *ZipfOwners) Use(requests int, period int64, of *controlv1.Calendar) (all []*controlv1.BookingRequest) {
	for range requests {
		i := w.zipf.Uint64()
		k := &w.keys[i]
		k.has -= calendar.Unit
		if k.use += calendar.Unit; k.has >= k.step/2 || k.open {
			continue
		}
		k.open = true
		all = append(all, &controlv1.BookingRequest{Tenant: "acme", Limit: "monthly",
			Client: fmt.Appendf(nil, "customer-%06d", i), Session: 1 + i, Number: k.number + 1, Calendar: of, Period: period,
			Wanted:   uint64(k.step - max(0, k.has) + max(0, -k.has)),
			Admitted: uint64(k.use), Settled: int64(k.use)})
	}
	return all
}

// Take takes an answer.
func (w *ZipfOwners) Take(a *controlv1.Booking) {
	k := &w.keys[a.GetSession()-1]
	if a.GetTo() > a.GetFrom() && k.open {
		k.number, k.open = a.GetNumber(), false
		k.has += calendar.Units(a.GetTo() - a.GetFrom())
		w.Booked++
	}
}

// ledgerSim is a ledger on virtual time, with an etcd that stores at once.
type ledgerSim struct {
	j                   *journal
	book                *booking.Book
	first               *rate.Limiter // of first requests of keys that do not wait
	last                time.Time
	waiting             []*controlv1.Booking
	transactions, bytes int
	largest             int // transaction, bytes
}

// flush stores what waits.
func (s *ledgerSim) flush(now time.Time, w *ZipfOwners) {
	b, size := s.j.batch(s.book), 0
	shards := make([]int, 0, len(b.folds))
	for _, v := range b.values {
		size += len(v)
	}
	for shard, packed := range b.folds {
		size += len(packed)
		shards = append(shards, shard)
	}
	s.j.advance(b, shards, false)
	s.last, s.bytes, s.largest = now, s.bytes+size, max(s.largest, size)
	s.transactions += 1 + size/mostBytes
	for _, a := range s.waiting {
		w.Take(a)
	}
	s.waiting = nil
}

// 10,000 requests a second of 100,000 keys take at most 20 transactions and 150 kB a second. The variant writes each
// booking by itself, and takes more.
func TestZipfKeysWriteLittle(t *testing.T) {
	for name, c := range map[string]struct {
		window time.Duration
		keeps  bool
	}{"windows": {window, true}, "each booking at once": {0, false}} {
		transactions, bytes, s := writes(c.window)
		t.Logf("%s: %.1f transactions and %.0f kB a second, the largest has %d kB", name, transactions, bytes/1e3,
			s.largest>>10)
		if keeps := transactions <= 20 && bytes <= 150e3; keeps != c.keeps {
			t.Errorf("%s: %.1f transactions and %.0f bytes a second", name, transactions, bytes)
		}
		if s.largest > mostBytes || s.book.Records() > zipfKeys {
			t.Errorf("%s: %d records, a transaction of %d bytes", name, s.book.Records(), s.largest)
		}
	}
}

// writes returns what a minute writes a second, after a minute.
func writes(window time.Duration) (transactions, bytes float64, s *ledgerSim) {
	of := config.Calendar{Per: config.Month, Zone: "UTC", StartsOn: 1}
	s = &ledgerSim{j: &journal{next: 1, oldest: 1}, first: rate.NewLimiter(atOnce, 4),
		book: booking.New(func(booking.Key) (booking.Terms, bool) {
			return booking.Terms{Amount: zipfAmount, Calendar: of}, true
		})}
	s.book.Configure([]config.Calendar{of})
	began, w := time.Date(2026, 5, 7, 0, 0, 0, 0, time.UTC), NewZipfOwners()
	s.book.Opened(began)
	const step, lasts = 10 * time.Millisecond, time.Minute
	for now := began; now.Before(began.Add(2 * lasts)); now = now.Add(step) {
		if now.Equal(began.Add(lasts)) {
			s.transactions, s.bytes = 0, 0
		}
		asked := w.Use(int(ZipfRate*step/time.Second), 2026*12+4, booking.Wire(of))
		for _, r := range asked {
			a, first, store := s.book.Take(now, r)
			if !store {
				w.Take(a)
				continue
			}
			if s.waiting = append(s.waiting, a); window == 0 || first && s.first.AllowN(now, 1) {
				s.flush(now, w)
			}
		}
		if len(s.waiting) > 0 && now.Sub(s.last) >= window {
			s.flush(now, w)
		}
	}
	return float64(s.transactions) / lasts.Seconds(), float64(s.bytes) / lasts.Seconds(), s
}
