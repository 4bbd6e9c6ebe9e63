package answers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/proto/link"
)

const (
	unary  = "/titrate.test.Echo/Unary"
	stream = "/titrate.test.Echo/Stream"
)

type (
	request  = grpc_health_v1.HealthCheckRequest
	response = grpc_health_v1.HealthCheckResponse
)

// echo answers each message with one message; unary calls have a cost in their trailer.
var echo = grpc.ServiceDesc{
	ServiceName: "titrate.test.Echo", HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Unary", Handler: func(_ any, ctx context.Context, decode func(any) error,
		_ grpc.UnaryServerInterceptor) (any, error) {
		in := &request{}
		if err := decode(in); err != nil {
			return nil, err
		}
		if in.Service == "fail" {
			grpc.SetTrailer(ctx, metadata.Pairs("x-tokens", "3"))
			return nil, status.Error(codes.NotFound, "as asked")
		}
		if in.Service != "" {
			grpc.SetTrailer(ctx, metadata.Pairs("x-tokens", in.Service))
		}
		return &response{}, nil
	}}},
	Streams: []grpc.StreamDesc{{StreamName: "Stream", ServerStreams: true, ClientStreams: true,
		Handler: func(_ any, s grpc.ServerStream) error {
			for {
				if err := s.RecvMsg(&request{}); errors.Is(err, io.EOF) {
					s.SetTrailer(metadata.Pairs("x-tokens", "2"))
					return nil
				} else if err != nil {
					return err
				}
				if err := s.SendMsg(&response{}); err != nil {
					return err
				}
			}
		}}},
}

// call is a client of the echo through a gateway with these limits.
func call(t *testing.T, config string, state []link.Message, edits ...string) (*grpc.ClientConn, context.Context) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	server.RegisterService(&echo, nil)
	go server.Serve(l)
	t.Cleanup(server.Stop)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	address := gateway(t, port, state, edits...)
	options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	if config != "" {
		options = append(options, grpc.WithDefaultServiceConfig(config))
	}
	conn, err := grpc.NewClient(address, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return conn, metadata.AppendToOutgoingContext(ctx, "x-tenant", "acme", "x-client", "alice")
}

func TestRefusedCall(t *testing.T) {
	t.Parallel()
	conn, ctx := call(t, "", limits(config.Limit{Name: "l", Rate: 0.01, Burst: 1}))
	if err := conn.Invoke(ctx, unary, &request{}, &response{}); err != nil {
		t.Fatalf("within the limit: %v", err)
	}
	var header, trailer metadata.MD
	err := conn.Invoke(ctx, unary, &request{}, &response{}, grpc.Header(&header), grpc.Trailer(&trailer))
	if s := status.Convert(err); s.Code() != codes.ResourceExhausted || s.Message() != "rate limited: client_limit" {
		t.Fatalf("beyond the limit: %v", err)
	}
	pushback, err := strconv.Atoi(first(trailer, "grpc-retry-pushback-ms"))
	if err != nil || pushback < 90_000 || pushback > 100_000 {
		t.Errorf("pushback: %v, %v", trailer, err)
	}
	if first(trailer, "x-titrate-reason") != "client_limit" || first(trailer, "ratelimit") == "" || len(header) > 0 {
		t.Errorf("not trailers only: header %v, trailer %v", header, trailer)
	}
}

func first(md metadata.MD, key string) string {
	if v := md.Get(key); len(v) > 0 {
		return v[0]
	}
	return ""
}

// A client with a retry policy waits for the time in the answer, instead of the policy's two milliseconds
// after which it would be refused again.
func TestPushbackIsHonoured(t *testing.T) {
	t.Parallel()
	const policy = `{"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":2,"initialBackoff":"0.001s",
		"maxBackoff":"0.002s","backoffMultiplier":1,"retryableStatusCodes":["RESOURCE_EXHAUSTED"]}}]}`
	conn, ctx := call(t, policy, limits(config.Limit{Name: "l", Rate: 2, Burst: 1}))
	began := time.Now()
	for i := range 3 {
		if err := conn.Invoke(ctx, unary, &request{}, &response{}); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	if took := time.Since(began); took < 900*time.Millisecond {
		t.Errorf("three calls took %v at 2/s with a burst of 1", took)
	}
}

// A stream is one request, however many messages it has.
func TestStreams(t *testing.T) {
	t.Parallel()
	conn, ctx := call(t, "", limits(config.Limit{Name: "l", Rate: 0.01, Burst: 2}))
	for i := range 2 {
		if err := converse(ctx, conn, 50); err != nil {
			t.Fatalf("stream %d: %v", i, err)
		}
	}
	if err := converse(ctx, conn, 1); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a third stream: %v", err)
	}
}

// A held stream loses no message that its client sends while it is held.
func TestHeldStream(t *testing.T) {
	t.Parallel()
	queue := config.Queue{Law: config.DropTail, MaxWait: 10 * time.Second, MaxRequests: 10}
	conn, ctx := call(t, "", limits(config.Limit{Name: "l", Rate: 4, Burst: 1, Queue: queue}))
	began := time.Now()
	for i := range 3 {
		if err := converse(ctx, conn, 50); err != nil {
			t.Fatalf("stream %d: %v", i, err)
		}
	}
	if took := time.Since(began); took < 450*time.Millisecond {
		t.Errorf("three streams took %v at 4/s with a burst of 1", took)
	}
}

// converse sends n messages at once and reads n.
func converse(ctx context.Context, conn *grpc.ClientConn, n int) error {
	s, err := conn.NewStream(ctx, &echo.Streams[0], stream)
	if err != nil {
		return err
	}
	for range n {
		if err := s.SendMsg(&request{Service: "a message"}); err != nil {
			break // RecvMsg returns the reason
		}
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	for range n {
		if err := s.RecvMsg(&response{}); err != nil {
			return err
		}
	}
	if err := s.RecvMsg(&response{}); !errors.Is(err, io.EOF) {
		return fmt.Errorf("after the last message: %w", err)
	}
	return nil
}

// The cost of a call from its trailer: of an answer, of a stream, of an error
// without an answer, whose trailers come as headers.
func TestCostFromTrailer(t *testing.T) {
	t.Parallel()
	conn, ctx := call(t, "", limits(config.Limit{Name: "l", Rate: 0.01, Burst: 10}),
		"reject_body: AUTO", "response_cost: { trailer: x-tokens }")
	if err := conn.Invoke(ctx, unary, &request{Service: "4"}, &response{}); err != nil {
		t.Fatal(err)
	}
	if err := converse(ctx, conn, 3); err != nil { // 2
		t.Fatal(err)
	}
	if err := conn.Invoke(ctx, unary, &request{Service: "fail"}, &response{}); status.Code(err) != codes.NotFound { // 3
		t.Fatal(err)
	}
	if err := conn.Invoke(ctx, unary, &request{}, &response{}); err != nil { // the last 1
		t.Fatalf("one of ten left: %v", err)
	}
	if err := conn.Invoke(ctx, unary, &request{}, &response{}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("none of ten left: %v", err)
	}
}
