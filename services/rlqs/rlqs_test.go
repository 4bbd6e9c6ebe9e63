package rlqs

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	api "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/titrate/titrate/control/config"
)

// serve starts a server with these limits of acme, which has no agent. stop ends it.
func serve(t *testing.T, o Options, limits ...config.Limit) (s *Server, conn *grpc.ClientConn, stop func()) {
	t.Helper()
	o.Socket, o.Name, o.Alone = filepath.Join(t.TempDir(), "none"), "a-rlqs", true
	o.Credentials, o.Log = insecure.NewCredentials(), slog.New(slog.DiscardHandler)
	s = New(o)
	limit(t, s, 1, limits...)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	stop = func() {
		if cancel(); done != nil {
			if err := <-done; err != nil {
				t.Error(err)
			}
			done = nil
		}
	}
	t.Cleanup(stop)
	if conn, err = grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return s, conn, stop
}

func limit(t *testing.T, s *Server, revision int64, limits ...config.Limit) {
	t.Helper()
	if err := s.configure(&config.Config{Revision: revision,
		Tenants: []config.Tenant{{Name: "acme", Weight: 1, Limits: limits}}}); err != nil {
		t.Fatal(err)
	}
}

type quotas = grpc.BidiStreamingClient[api.RateLimitQuotaUsageReports, api.RateLimitQuotaResponse]

func open(t *testing.T, conn *grpc.ClientConn) quotas {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	stream, err := api.NewRateLimitQuotaServiceClient(conn).StreamRateLimitQuotas(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

func send(t *testing.T, to quotas, domain string, ids ...map[string]string) {
	t.Helper()
	r := &api.RateLimitQuotaUsageReports{Domain: domain}
	for _, id := range ids {
		r.BucketQuotaUsages = append(r.BucketQuotaUsages, &api.RateLimitQuotaUsageReports_BucketQuotaUsage{
			BucketId: &api.BucketId{Bucket: id}, NumRequestsAllowed: 1})
	}
	if err := to.Send(r); err != nil {
		t.Fatal(err)
	}
}

// next returns the next assignment.
func next(t *testing.T, from quotas) *api.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction {
	t.Helper()
	r, err := from.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if len(r.GetBucketAction()) != 1 {
		t.Fatalf("%d actions, want 1", len(r.GetBucketAction()))
	}
	return r.GetBucketAction()[0].GetQuotaAssignmentAction()
}

func wantRate(t *testing.T, a *api.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction, least, most float64) {
	t.Helper()
	b := a.GetRateLimitStrategy().GetTokenBucket()
	rate := float64(b.GetTokensPerFill().GetValue()) / float64(b.GetFillInterval().GetSeconds())
	if b == nil || rate < least || rate > most || b.GetMaxTokens() == 0 {
		t.Errorf("%v, want %v to %v/s", a, least, most)
	}
	if ttl := a.GetAssignmentTimeToLive(); ttl.GetSeconds() < 15 || ttl.GetNanos() != 0 {
		t.Errorf("lives %v, want three reports at least, in whole seconds", ttl.AsDuration())
	}
}

var ofBob = map[string]string{"tenant": "acme", "client": "bob"}

// A report is answered with the limit, two Envoys with half of it each, and a change of the limit at once.
func TestAssigns(t *testing.T) {
	s, conn, stop := serve(t, Options{}, config.Limit{Name: "l", Rate: 10, Burst: 20})
	one := open(t, conn)
	send(t, one, "titrate", ofBob)
	wantRate(t, next(t, one), 9.9, 10.5)
	other := open(t, conn)
	send(t, other, "titrate", ofBob)
	wantRate(t, next(t, one), 4.9, 5.3)
	wantRate(t, next(t, other), 4.9, 5.3)
	limit(t, s, 2, config.Limit{Name: "l", Rate: 100, Burst: 20})
	wantRate(t, next(t, one), 49, 52.5)
	limit(t, s, 3, config.Limit{Name: "l", Rate: 100, Burst: 20, Mode: config.Shadow})
	if a := next(t, one); a.GetRateLimitStrategy().GetBlanketRule() != typev3.RateLimitStrategy_ALLOW_ALL {
		t.Errorf("SHADOW: %v", a)
	}
	limit(t, s, 4, config.Limit{Name: "l"})
	if a := next(t, one); a.GetRateLimitStrategy().GetBlanketRule() != typev3.RateLimitStrategy_DENY_ALL {
		t.Errorf("a rate of 0: %v", a)
	}
	if now := s.Stats(); now.Streams != 2 || now.Buckets != 1 || now.Members != 2 || now.Allowed != 2 {
		t.Errorf("%+v", now)
	}
	if h, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{
		Service: "envoy.service.rate_limit_quota.v3.RateLimitQuotaService"}); err != nil ||
		h.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		t.Errorf("health: %v, %v", h, err)
	}
	stop()
	for {
		if _, err := other.Recv(); err != nil {
			if status.Code(err) != codes.Unavailable {
				t.Errorf("at the end: %v", err)
			}
			break
		}
	}
}

// Other tenants and domains are let in or refused, as the operator says, and counted.
func TestUnknown(t *testing.T) {
	for deny, want := range map[bool]typev3.RateLimitStrategy_BlanketRule{
		false: typev3.RateLimitStrategy_ALLOW_ALL, true: typev3.RateLimitStrategy_DENY_ALL} {
		s, conn, _ := serve(t, Options{DenyUnknown: deny}, config.Limit{Name: "l", Rate: 10, Burst: 20})
		for domain, id := range map[string]map[string]string{"titrate": {"tenant": "nobody"}, "other": ofBob} {
			stream := open(t, conn)
			send(t, stream, domain, id)
			if a := next(t, stream); a.GetRateLimitStrategy().GetBlanketRule() != want ||
				a.GetRateLimitStrategy().GetTokenBucket() != nil {
				t.Errorf("deny %v, %s: %v", deny, domain, a)
			}
		}
		if now := s.Stats(); now.Unknown != 2 {
			t.Errorf("deny %v: %d unknown, want 2", deny, now.Unknown)
		}
	}
}

// A stream without a domain, or with two, ends. Ids beyond their bounds are counted and raise an alarm.
func TestBrokenReports(t *testing.T) {
	s, conn, _ := serve(t, Options{}, config.Limit{Name: "l", Rate: 10, Burst: 20})
	for _, domains := range [][]string{{""}, {"titrate", "other"}} {
		stream := open(t, conn)
		for _, domain := range domains {
			send(t, stream, domain, ofBob)
		}
		err := error(nil)
		for err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%q: %v", domains, err)
		}
	}
	long := map[string]string{"tenant": "acme", "client": string(make([]byte, maxText+1))}
	many := map[string]string{}
	for i := range maxEntries + 1 {
		many[string(rune('a'+i))] = ""
	}
	stream := open(t, conn)
	send(t, stream, "titrate", long, many, nil, ofBob)
	wantRate(t, next(t, stream), 4, 10.5)
	if now := s.Stats(); now.Refused[refusedID] != 3 || now.Refused[refusedDomain] != 2 || s.Trouble() == nil {
		t.Errorf("%+v, %v", now.Refused, s.Trouble())
	}
}

// Ids that differ have names that differ.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, id := range []map[string]string{{"a": "b"}, {"a": "", "b": ""}, {"a1:b": ""}, {"": "ab"}, {"ab": ""}} {
		for _, domain := range []string{"", "a", "titrate"} {
			n := name(domain, id)
			if seen[n] {
				t.Errorf("%q %v has the name of another", domain, id)
			}
			seen[n] = true
		}
	}
}
