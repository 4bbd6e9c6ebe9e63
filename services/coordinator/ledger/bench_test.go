package ledger_test

import (
	"sync"
	"testing"
	"time"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/booking"
	"github.com/titrate/titrate/services/coordinator/ledger"
	"github.com/titrate/titrate/services/store/storetest"
)

const zipfWarm, zipfFor = 60 * time.Second, 60 * time.Second

// BenchmarkZipf measures what 10,000 requests a second of 100,000 keys write to etcd: transactions and bytes a second.
// It takes two minutes: -bench Zipf -benchtime 1x.
func BenchmarkZipf(b *testing.B) {
	etcd := storetest.Shared(b)
	l := start(b, etcd.Client(b), storetest.Prefix(b), 1)
	l.leads()
	w := &zipfRun{ZipfOwners: ledger.NewZipfOwners(), since: map[uint64]time.Time{}}
	for b.Loop() {
		w.run(l, zipfWarm)
		before, booked, at := l.Stats(), w.Booked, time.Now()
		w.slow = 0
		w.run(l, zipfFor)
		after, took := l.Stats(), time.Since(at).Seconds()
		b.ReportMetric(float64(after.Transactions-before.Transactions)/took, "transactions/s")
		b.ReportMetric(float64(after.Bytes-before.Bytes)/took/1000, "kB/s")
		b.ReportMetric(float64(w.Booked-booked)/took, "bookings/s")
		b.ReportMetric(w.slow.Seconds()*1000, "ms-slowest")
	}
}

// zipfRun notes how long answers take.
type zipfRun struct {
	mu sync.Mutex
	*ledger.ZipfOwners
	since map[uint64]time.Time // by session
	slow  time.Duration        // longest wait for an answer
}

func (w *zipfRun) run(l *running, lasts time.Duration) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	began, made := time.Now(), 0
	for time.Since(began) < lasts {
		<-tick.C
		w.mu.Lock()
		due := int(time.Since(began).Seconds()*ledger.ZipfRate) - made
		made += due
		asked := w.Use(due, period(), booking.Wire(monthly))
		for _, r := range asked {
			w.since[r.GetSession()] = time.Now()
		}
		w.mu.Unlock()
		_ = l.Take(&controlv1.Bookings{Requests: asked}, func(a *controlv1.Booking) {
			w.mu.Lock()
			defer w.mu.Unlock()
			before := w.Booked
			if w.ZipfOwners.Take(a); w.Booked > before {
				w.slow = max(w.slow, time.Since(w.since[a.GetSession()]))
			}
		})
	}
}
