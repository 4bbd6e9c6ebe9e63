package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/titrate/titrate/control/calendar"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/store/storetest"
)

// zipfOwners book as control/calendar's owners do: two requests, or 30 s of use up to a thousandth of the amount,
// again when half is left.
type zipfOwners struct {
	mu     sync.Mutex
	keys   []zipfKey
	booked int
	slow   time.Duration // longest wait for an answer
}

type zipfKey struct {
	has, step, use calendar.Units
	number         uint64
	open           bool
	since          time.Time
}

const (
	zipfKeys, zipfRate = 100_000, 10_000
	zipfWarm, zipfFor  = 60 * time.Second, 60 * time.Second
)

// BenchmarkZipf measures what 10,000 requests a second of 100,000 keys write to etcd: transactions and bytes a second.
// It takes two minutes: -bench Zipf -benchtime 1x.
func BenchmarkZipf(b *testing.B) {
	etcd := storetest.Shared(b)
	l := start(b, etcd.Client(b), storetest.Prefix(b), 1)
	l.leads()
	w := &zipfOwners{keys: make([]zipfKey, zipfKeys)}
	for i := range w.keys {
		rate := zipfRate / 12.09 / float64(i+1)
		w.keys[i].step = max(2*calendar.Unit, min(calendar.UnitsOf(30*rate), amount/1000))
	}
	random := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(random, 1.0001, 1, zipfKeys-1)
	for b.Loop() {
		w.run(l, zipf, zipfWarm)
		before, booked, at := l.Stats(), w.booked, time.Now()
		w.slow = 0
		w.run(l, zipf, zipfFor)
		after, took := l.Stats(), time.Since(at).Seconds()
		b.ReportMetric(float64(after.Transactions-before.Transactions)/took, "transactions/s")
		b.ReportMetric(float64(after.Bytes-before.Bytes)/took/1000, "kB/s")
		b.ReportMetric(float64(w.booked-booked)/took, "bookings/s")
		b.ReportMetric(w.slow.Seconds()*1000, "ms-slowest")
	}
}

func (w *zipfOwners) run(l *running, zipf *rand.Zipf, lasts time.Duration) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	began, made := time.Now(), 0
	for time.Since(began) < lasts {
		<-tick.C
		var m controlv1.Bookings
		w.mu.Lock()
		for ; made < int(time.Since(began).Seconds()*zipfRate); made++ {
			i := zipf.Uint64()
			k := &w.keys[i]
			k.has -= calendar.Unit
			k.use += calendar.Unit
			if k.has < k.step/2 && !k.open {
				k.open, k.since = true, time.Now()
				r := request(fmt.Sprintf("customer-%06d", i), 1+i, k.number+1, k.step-max(0, k.has)+max(0, -k.has))
				r.Admitted, r.Settled = uint64(k.use), int64(k.use)
				m.Requests = append(m.Requests, r)
			}
		}
		w.mu.Unlock()
		_ = l.Take(&m, func(a *controlv1.Booking) {
			w.mu.Lock()
			defer w.mu.Unlock()
			k := &w.keys[a.GetSession()-1]
			if a.GetTo() > a.GetFrom() && k.open {
				k.number, k.open = a.GetNumber(), false
				k.has += calendar.Units(a.GetTo() - a.GetFrom())
				w.booked++
				w.slow = max(w.slow, time.Since(k.since))
			}
		})
	}
}
