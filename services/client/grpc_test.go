package client

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
)

// limited is a health service that refuses its first calls.
type limited struct {
	grpc_health_v1.UnimplementedHealthServer
	refuse   int64
	pushback string
	calls    atomic.Int64
}

func (l *limited) meet(ctx context.Context) error {
	_ = grpc.SetHeader(ctx, metadata.Pairs(markField, "1"))
	if l.calls.Add(1) <= l.refuse {
		_ = grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", l.pushback))
		return status.Error(codes.ResourceExhausted, "rate limited")
	}
	return nil
}

func (l *limited) Check(ctx context.Context,
	_ *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	return &grpc_health_v1.HealthCheckResponse{}, l.meet(ctx)
}

func (l *limited) Watch(_ *grpc_health_v1.HealthCheckRequest, s grpc_health_v1.Health_WatchServer) error {
	if err := l.meet(s.Context()); err != nil {
		return err
	}
	for range 3 {
		if err := s.Send(&grpc_health_v1.HealthCheckResponse{}); err != nil {
			return err
		}
	}
	return nil
}

func dial(t *testing.T, l *limited, c *Client) grpc_health_v1.HealthClient {
	listener := bufconn.Listen(1 << 16)
	server := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(server, l)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("passthrough:///gateway", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return listener.Dial() }),
		grpc.WithUnaryInterceptor(c.Unary()), grpc.WithStreamInterceptor(c.Stream()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return grpc_health_v1.NewHealthClient(conn)
}

func TestPushbackIsObeyed(t *testing.T) {
	l, c := &limited{refuse: 2, pushback: "30"}, New(Options{})
	began := time.Now()
	if _, err := dial(t, l, c).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); l.calls.Load() != 3 || took < 60*time.Millisecond {
		t.Errorf("%d calls in %v, want 3 in 60 ms at least", l.calls.Load(), took)
	}
	if s := c.State("passthrough:///gateway"); s.Window >= 10 || s.InFlight != 0 {
		t.Errorf("%+v, want a window that marks have made smaller", s)
	}
}

func TestNegativePushbackForbids(t *testing.T) {
	l := &limited{refuse: 1, pushback: "-1"}
	_, err := dial(t, l, New(Options{})).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if status.Code(err) != codes.ResourceExhausted || l.calls.Load() != 1 {
		t.Errorf("%v after %d calls", err, l.calls.Load())
	}
}

func TestStreamReleasesItsPlace(t *testing.T) {
	c := New(Options{MaxInFlight: 1, Start: 1})
	health := dial(t, &limited{refuse: 1, pushback: "5"}, c)
	for i := range 4 {
		s, err := health.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = s.Recv(); (err != nil) != (i == 0) {
			t.Fatalf("stream %d: %v", i, err)
		}
	}
	abandoned, leave := context.WithCancel(t.Context())
	if _, err := health.Watch(abandoned, &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	leave()
	if _, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	if s := c.State("passthrough:///gateway"); s.InFlight != 0 || s.Waiting != 0 {
		t.Fatalf("%+v", s)
	}
}
