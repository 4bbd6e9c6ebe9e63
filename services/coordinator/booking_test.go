package coordinator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	agentstream "github.com/titrate/titrate/services/agent/stream"
	"github.com/titrate/titrate/services/coordinator"
	"github.com/titrate/titrate/services/coordinator/webhook"
	"github.com/titrate/titrate/services/store/storetest"
)

func monthly(tenant string, amount float64) *quotav1.Resource {
	return &quotav1.Resource{Kind: &quotav1.Resource_Limit{Limit: &quotav1.Limit{
		Name: "tenants/" + tenant + "/limits/monthly", Key: quotav1.Key_CLIENT,
		Quota: &quotav1.CalendarQuota{Amount: amount, Zone: "Europe/Berlin", Soft: []float64{.5, 1}}}}}
}

// owner is an agent that books: it looks for the coordinator that takes bookings, and repeats what is not answered.
type owner struct {
	t         testing.TB
	addresses []string

	mu     sync.Mutex
	has    [][2]uint64
	number uint64
	use    uint64
	who    credentials.TransportCredentials // nil: none
}

const million = 1_000_000

func (o *owner) run(ctx context.Context, session uint64) {
	for i := 0; ctx.Err() == nil; i++ {
		err := o.stream(ctx, o.addresses[i%len(o.addresses)], session)
		if leader := agentstream.LeaderOf(err); leader != "" {
			_ = o.stream(ctx, leader, session)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (o *owner) stream(ctx context.Context, address string, session uint64) error {
	who := o.who
	if who == nil {
		who = insecure.NewCredentials()
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(who))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s, err := controlv1.NewControlServiceClient(conn).Connect(ctx)
	if err != nil {
		return err
	}
	hello := &controlv1.Hello{Agent: fmt.Sprint("owner", session), Shares: true, Books: true}
	if err := s.Send(&controlv1.ConnectRequest{Message: &controlv1.ConnectRequest_Hello{Hello: hello}}); err != nil {
		return err
	}
	books := make(chan *controlv1.Periods, 16)
	go func() {
		var p *controlv1.Periods
		for ctx.Err() == nil {
			if p != nil && len(p.GetPeriods()) > 0 {
				_ = s.Send(&controlv1.ConnectRequest{Message: &controlv1.ConnectRequest_Bookings{Bookings: &controlv1.Bookings{
					Requests: []*controlv1.BookingRequest{o.request(session, p.GetPeriods()[0])}}}})
			}
			select {
			case p = <-books:
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}()
	for {
		m, err := s.Recv()
		if err != nil {
			return err
		}
		if p := m.GetPeriods(); p != nil {
			books <- p
		}
		for _, b := range m.GetBooked().GetBookings() {
			o.booked(b)
		}
	}
}

func (o *owner) request(session uint64, p *controlv1.Period) *controlv1.BookingRequest {
	o.mu.Lock()
	defer o.mu.Unlock()
	return &controlv1.BookingRequest{Tenant: "acme", Limit: "monthly", Client: []byte("k"), Session: session,
		Number: o.number + 1, Calendar: p.GetCalendar(), Period: p.GetNumber(), Wanted: 10 * million, Admitted: o.use, Settled: int64(o.use)}
}

func (o *owner) booked(b *controlv1.Booking) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if b.GetNumber() == o.number+1 && b.GetTo() > b.GetFrom() {
		o.number++
		o.has = append(o.has, [2]uint64{b.GetFrom(), b.GetTo()})
		o.use += b.GetTo() - b.GetFrom()
	}
}

func (o *owner) intervals() int { o.mu.Lock(); defer o.mu.Unlock(); return len(o.has) }

func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for began := time.Now(); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > deadline {
			t.Fatal("never: " + what)
		}
	}
}

// What a client reaches is sent to the webhook once each, and shown in the metrics.
func TestThresholdsReachTheWebhook(t *testing.T) {
	var mu sync.Mutex
	got := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var e struct {
			ID   string
			Data struct {
				Part   float64
				Client string
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil || e.ID != r.Header.Get("webhook-id") {
			t.Errorf("%+v, %v", e, err)
		}
		mu.Lock()
		defer mu.Unlock()
		got[fmt.Sprint(e.Data.Client, e.Data.Part)]++
	}))
	defer server.Close()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("a secret of many bytes"), 0o600); err != nil {
		t.Fatal(err)
	}
	etcd := storetest.Shared(t)
	one := startWith(t, etcd.Endpoint, storetest.Prefix(t), "one", insecure.NewCredentials(), func(c *coordinator.Config) {
		c.Webhook = webhook.Config{URL: server.URL, Secret: secret, Internal: true}
	})
	one.apply(pool("api", 10), tenant("acme", 1), monthly("acme", 100))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	o := &owner{t: t, addresses: []string{one.c.Address()}}
	go o.run(ctx, 1)
	until(t, "the last threshold is sent", func() bool { mu.Lock(); defer mu.Unlock(); return got["k1"] > 0 })
	time.Sleep(1500 * time.Millisecond) // nothing comes again
	mu.Lock()
	defer mu.Unlock()
	if got["k1"] != 1 || got["k0.5"] > 1 || len(got) > 2 {
		t.Errorf("%v", got)
	}
	if _, metrics := one.get("/metrics"); !strings.Contains(metrics,
		`titrate_calendar_quota_used{limit="monthly",tenant="acme"} 1`) {
		t.Error("the metric has not the part that is used")
	}
}

// Owners book at two coordinators while the elected one stops. No unit is given twice, the amount is not exceeded, and
// the other coordinator knows the use.
func TestBookingsAndUsageAfterAFailover(t *testing.T) {
	for name, share := range map[string]bool{"one leads": false, "they share the pools": true} {
		t.Run(name, func(t *testing.T) {
			etcd, prefix := storetest.Shared(t), storetest.Prefix(t)
			set := func(c *coordinator.Config) { c.SharePools = share }
			one := startWith(t, etcd.Endpoint, prefix, "one", insecure.NewCredentials(), set)
			one.apply(pool("api", 10), tenant("acme", 1), monthly("acme", 600))
			two := startWith(t, etcd.Endpoint, prefix, "two", insecure.NewCredentials(), set)
			var owners []*owner
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			for session := range uint64(3) {
				o := &owner{t: t, addresses: []string{one.c.Address(), two.c.Address()}}
				owners = append(owners, o)
				go o.run(ctx, session+1)
			}
			sum := func() (n int) {
				for _, o := range owners {
					n += o.intervals()
				}
				return n
			}
			until(t, "owners book", func() bool { return sum() >= 10 })
			one.end()
			until(t, "owners have everything", func() bool { return sum() == 60 })
			seen := map[uint64]bool{}
			for _, o := range owners {
				for _, i := range o.has {
					if seen[i[0]] || i[1] > 600*million {
						t.Errorf("%v is given twice, or above the amount", i)
					}
					seen[i[0]] = true
				}
			}
			until(t, "the use is known", func() bool {
				got, err := two.quota().ListUsage(t.Context(), &quotav1.ListUsageRequest{Parent: "tenants/acme"})
				return err == nil && len(got.GetUsage()) == 1 && got.GetUsage()[0].GetSettled() == 600 &&
					got.GetUsage()[0].GetBooked() == 600 && got.GetUsage()[0].GetLimit() == "tenants/acme/limits/monthly"
			})
		})
	}
}
