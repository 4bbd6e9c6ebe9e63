package ledger_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/titrate/titrate/control/calendar"
	"github.com/titrate/titrate/control/config"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/booking"
	"github.com/titrate/titrate/services/coordinator/ledger"
	"github.com/titrate/titrate/services/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

const (
	deadline = 30 * time.Second
	amount   = 1_000_000 * calendar.Unit
)

var monthly = config.Calendar{Per: config.Month, Zone: "UTC", StartsOn: 1}

// period is the number of the present month.
func period() int64 {
	now := time.Now().UTC()
	return int64(now.Year())*12 + int64(now.Month()) - 1
}

// running is a ledger under test.
type running struct {
	*ledger.Ledger
	t    testing.TB
	stop context.CancelFunc
	done chan struct{}
}

func start(t testing.TB, client *clientv3.Client, prefix string, epoch int64) *running {
	t.Helper()
	l := ledger.New(ledger.Options{Client: client, Prefix: prefix, Changed: func() {},
		Log: slog.New(slog.DiscardHandler), Terms: func(booking.Key) (booking.Terms, bool) {
			return booking.Terms{Amount: amount, Calendar: monthly}, true
		}})
	ctx, stop := context.WithCancel(context.Background())
	r := &running{Ledger: l, t: t, stop: stop, done: make(chan struct{})}
	go func() { defer close(r.done); l.Run(ctx) }()
	t.Cleanup(r.end)
	l.Configure([]config.Calendar{monthly})
	l.Lead(epoch)
	return r
}

func (r *running) end() { r.stop(); <-r.done }

// leads waits until the ledger has its book.
func (r *running) leads() {
	r.t.Helper()
	for began := time.Now(); !r.Stats().Leads; time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > deadline {
			r.t.Fatal("the ledger does not lead")
		}
	}
}

func request(client string, session, number uint64, wanted calendar.Units) *controlv1.BookingRequest {
	return &controlv1.BookingRequest{Tenant: "acme", Limit: "monthly", Client: []byte(client), Session: session,
		Number: number, Calendar: booking.Wire(monthly), Period: period(), Wanted: uint64(wanted)}
}

// ask returns the first answer, of any reason.
func (r *running) ask(q *controlv1.BookingRequest) *controlv1.Booking {
	r.t.Helper()
	answer := make(chan *controlv1.Booking, 16)
	if err := r.Take(&controlv1.Bookings{Requests: []*controlv1.BookingRequest{q}}, func(b *controlv1.Booking) {
		answer <- b
	}); err != nil {
		r.t.Fatal(err)
	}
	select {
	case b := <-answer:
		return b
	case <-time.After(deadline):
		r.t.Fatalf("no answer to %v", q)
		return nil
	}
}

// book repeats a request until it is stored, as an owner does.
func (r *running) book(q *controlv1.BookingRequest) *controlv1.Booking {
	r.t.Helper()
	for began := time.Now(); time.Since(began) < deadline; time.Sleep(20 * time.Millisecond) {
		if b := r.ask(q); b.GetReason() != controlv1.Booking_REASON_STORE_AWAY {
			return b
		}
	}
	r.t.Fatal("the store stays away")
	return nil
}

func TestBookingsOutliveTheirLeader(t *testing.T) {
	etcd := storetest.Shared(t)
	client, prefix := etcd.Client(t), storetest.Prefix(t)
	first := start(t, client, prefix, 1)
	a := first.book(request("k", 1, 1, 100))
	use := request("k", 1, 1, 0)
	use.Settled, use.Final = 42, true
	first.book(use)
	// The next one leads before the first one knows it: what the first one gives is not stored, and not answered.
	second := start(t, client, prefix, 2)
	second.leads()
	if again := second.book(request("k", 1, 1, 100)); again.GetFrom() != a.GetFrom() || again.GetTo() != a.GetTo() {
		t.Errorf("a repeat gets %v, the first time %v", again, a)
	}
	b := second.book(request("k", 2, 1, 100))
	if b.GetFrom() < a.GetTo() {
		t.Errorf("%v was given again: %v", a, b)
	}
	late := make(chan *controlv1.Booking, 16)
	if err := first.Take(&controlv1.Bookings{Requests: []*controlv1.BookingRequest{request("k", 3, 1, 100)}},
		func(b *controlv1.Booking) { late <- b }); err != nil {
		t.Fatal(err)
	}
	select {
	case b := <-late:
		if b.GetTo() > b.GetFrom() {
			t.Errorf("a leader that was replaced gives %v", b)
		}
	case <-time.After(time.Second):
	}
	all, _, err := second.List(booking.Selection{}, 10, "")
	if err != nil || len(all) != 1 || all[0].Settled != 42 || all[0].Booked != 200 {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestEtcdAwayAndBack(t *testing.T) {
	dir := t.TempDir()
	etcd, err := storetest.Start(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { etcd.Kill() }()
	l := start(t, etcd.Client(t), "/x", 1)
	a := l.book(request("k", 1, 1, 100))
	etcd.Kill()
	q := request("k", 1, 2, 100)
	if b := l.ask(q); b.GetReason() != controlv1.Booking_REASON_STORE_AWAY || b.GetTo() != b.GetFrom() {
		t.Errorf("without etcd: %v", b)
	}
	if etcd, err = storetest.Start(dir, etcd.Endpoint); err != nil {
		t.Fatal(err)
	}
	if b := l.book(q); b.GetFrom() != a.GetTo() || b.GetTo() != a.GetTo()+100 {
		t.Errorf("after %v: %v", a, b)
	}
}

// etcd loses everything under a coordinator that leads on: what it knows is stored again, and nothing is given twice.
func TestEtcdRestored(t *testing.T) {
	etcd := storetest.Shared(t)
	client, prefix := etcd.Client(t), storetest.Prefix(t)
	l := start(t, client, prefix, 1)
	a := l.book(request("k", 1, 1, 100))
	if _, err := client.Delete(t.Context(), prefix, clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	if b := l.book(request("k", 1, 2, 100)); b.GetFrom() < a.GetTo() {
		t.Errorf("%v was given again: %v", a, b)
	}
	next := start(t, client, prefix, 2)
	if b := next.book(request("k", 2, 1, 100)); b.GetFrom() < a.GetTo()+100 {
		t.Errorf("%v was given again: %v", a, b)
	}
}

func TestTheJournalIsFolded(t *testing.T) {
	etcd := storetest.Shared(t)
	client, prefix := etcd.Client(t), storetest.Prefix(t)
	l := start(t, client, prefix, 1)
	l.leads()
	var group sync.WaitGroup
	for number := range uint64(30) {
		var m controlv1.Bookings
		for k := range 400 {
			m.Requests = append(m.Requests, request(fmt.Sprint("client", k), 1, number+1, 10))
		}
		group.Add(len(m.Requests))
		stored := func(b *controlv1.Booking) {
			if b.GetReason() != controlv1.Booking_REASON_STORE_AWAY {
				group.Done()
			}
		}
		if err := l.Take(&m, stored); err != nil {
			t.Fatal(err)
		}
		group.Wait()
	}
	values, err := client.Get(t.Context(), prefix+"/values/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for _, kv := range values.Kvs {
		size += len(kv.Value)
	}
	s := l.Stats()
	t.Logf("%d transactions, %d bytes; %d values with %d bytes are left", s.Transactions, s.Bytes, len(values.Kvs), size)
	l.end()
	next := start(t, client, prefix, 2)
	next.leads()
	all, _, err := next.List(booking.Selection{}, 1000, "")
	if err != nil || len(all) != 400 || next.Stats().Unreadable != 0 {
		t.Fatalf("%d records, %v", len(all), err)
	}
	for _, u := range all {
		if u.Booked != 300 {
			t.Fatalf("%+v", u)
		}
	}
}

// faulty is an etcd whose transactions fail with the error of before, if it has one.
type faulty struct {
	clientv3.KV
	before func(context.Context) error
}

func (f *faulty) Txn(ctx context.Context) clientv3.Txn { return faultyTxn{f.KV.Txn(ctx), ctx, f} }

type faultyTxn struct {
	clientv3.Txn
	ctx context.Context
	f   *faulty
}

func (t faultyTxn) If(c ...clientv3.Cmp) clientv3.Txn { return faultyTxn{t.Txn.If(c...), t.ctx, t.f} }
func (t faultyTxn) Then(o ...clientv3.Op) clientv3.Txn {
	return faultyTxn{t.Txn.Then(o...), t.ctx, t.f}
}
func (t faultyTxn) Commit() (*clientv3.TxnResponse, error) {
	if err := t.f.before(t.ctx); err != nil {
		return nil, err
	}
	return t.Txn.Commit()
}

func TestEtcdRefuses(t *testing.T) {
	client := storetest.Shared(t).Client(t)
	var full atomic.Bool
	client.KV = &faulty{client.KV, func(context.Context) error {
		if full.Load() {
			return rpctypes.ErrNoSpace
		}
		return nil
	}}
	l := start(t, client, storetest.Prefix(t), 1)
	a := l.book(request("k", 1, 1, 100))
	full.Store(true)
	if b := l.ask(request("k", 1, 2, 100)); b.GetReason() != controlv1.Booking_REASON_STORE_AWAY {
		t.Errorf("etcd is full: %v", b)
	}
	if l.Stats().Refused == 0 {
		t.Error("it is not counted")
	}
	full.Store(false)
	if b := l.book(request("k", 1, 2, 100)); b.GetFrom() != a.GetTo() {
		t.Errorf("after %v: %v", a, b)
	}
}

// Use that no booking has stored is stored when the leadership ends in order.
func TestUseOutlivesTheLeadership(t *testing.T) {
	client, prefix := storetest.Shared(t).Client(t), storetest.Prefix(t)
	l := start(t, client, prefix, 1)
	l.use30()
	l.end()
	settled(t, start(t, client, prefix, 2))
}

// It is stored as well when a transaction was under way.
func TestUseOutlivesATransaction(t *testing.T) {
	client, prefix := storetest.Shared(t).Client(t), storetest.Prefix(t)
	begun, released := make(chan struct{}, 1), make(chan struct{})
	var slow atomic.Bool
	client.KV = &faulty{client.KV, func(ctx context.Context) error {
		if slow.Load() {
			begun <- struct{}{}
			<-released
			slow.Store(false)
		}
		return ctx.Err()
	}}
	l := start(t, client, prefix, 1)
	l.use30()
	slow.Store(true)
	<-begun // use is stored soon, by turns
	l.stop()
	close(released)
	<-l.done
	settled(t, start(t, client, prefix, 2))
}

// use30 uses 30 records.
func (r *running) use30() {
	r.t.Helper()
	r.leads()
	for i := range 30 {
		name := fmt.Sprint("k", i)
		r.book(request(name, 1, 1, 100))
		use := request(name, 1, 1, 0)
		use.Admitted, use.Settled = 42, 42
		r.ask(use)
	}
}

// settled looks for the use of 30 records.
func settled(t *testing.T, next *running) {
	t.Helper()
	next.leads()
	all, _, err := next.List(booking.Selection{}, 100, "")
	if err != nil || len(all) != 30 {
		t.Fatalf("%d records, %v", len(all), err)
	}
	for _, u := range all {
		if u.Settled != 42 {
			t.Errorf("%+v", u)
		}
	}
}
