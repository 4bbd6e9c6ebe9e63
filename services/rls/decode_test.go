package rls

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	api "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"github.com/titrate/titrate/services/intake"
)

// bytesAsTheyAre sends messages that protobuf would not encode, as Envoy does.
type bytesAsTheyAre struct{}

func (bytesAsTheyAre) Name() string { return "proto" }
func (bytesAsTheyAre) Marshal(v any) ([]byte, error) {
	if text, is := v.([]byte); is {
		return text, nil
	}
	return nil, errors.New("not bytes")
}
func (bytesAsTheyAre) Unmarshal(data []byte, v any) error {
	return proto.Unmarshal(data, v.(proto.Message))
}

// asker sends requests over gRPC. In their texts \x01 and \x02 stand for the bytes 0xfe and 0xff, which are no
// UTF-8.
func asker(t *testing.T, s *Server) func(...*ratelimitv3.RateLimitDescriptor) (*api.RateLimitResponse, error) {
	t.Helper()
	s.o.Credentials = insecure.NewCredentials()
	server := s.grpc()
	at := bufconn.Listen(1 << 20)
	go server.Serve(at) // it ends with the test
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return at.Dial() }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return func(ds ...*ratelimitv3.RateLimitDescriptor) (*api.RateLimitResponse, error) {
		text, err := proto.Marshal(&api.RateLimitRequest{Domain: "shop", Descriptors: ds})
		if err != nil {
			t.Fatal(err)
		}
		for standIn, b := range map[string]byte{"\x01\x01": 0xfe, "\x02\x02": 0xff} {
			text = bytes.ReplaceAll(text, []byte(standIn), []byte{b, b})
		}
		out := &api.RateLimitResponse{}
		return out, conn.Invoke(t.Context(), api.RateLimitService_ShouldRateLimit_FullMethodName, text, out,
			grpc.ForceCodec(bytesAsTheyAre{}))
	}
}

const bytesFile = `
domain: shop
descriptors:
  - {key: tenant, detailed_metric: true, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: path, value: /search*, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: other, rate_limit: {unit: day, requests_per_unit: 100}}
`

// A value counts as the bytes that it has, whatever they are: each value separately, and the other descriptors of the
// call, too.
func TestAnyBytesCount(t *testing.T) {
	for _, o := range []Options{{Metadata: true}, {Windows: Fixed, Metadata: true}} {
		s := newServer(t, bytesFile, o)
		ask := asker(t, s)
		for i, step := range [][2]string{
			{"tenant=a\x01\x01", "OK OK/0 OK/99"},
			{"tenant=a\x01\x01", "OVER_LIMIT OVER_LIMIT/0 OK/98"},
			{"tenant=a\x02\x02", "OK OK/0 OK/97"}, // another value
			{"tenant=a\uFFFD\uFFFD", "OK OK/0 OK/96"},
			{"path=/search\x01\x01", "OK OK/0 OK/95"},
			{"path=/search\x01\x01", "OVER_LIMIT OVER_LIMIT/0 OK/94"},
		} {
			got, err := ask(descriptor(step[0]), descriptor("other=x"))
			if err != nil || answers(got) != step[1] {
				t.Errorf("%s, step %d: %v %s, want %s", o.Windows, i, err, answers(got), step[1])
			}
		}
		if s.Stats().Refused != [len(intake.Reasons)]uint64{} {
			t.Errorf("refused: %v", s.Stats().Refused)
		}
	}
}

// A value of 60 KiB, the longest that Envoy lets through without settings, counts in as many descriptors as a route
// may make. It takes no more memory than a short one.
func TestLongValuesCount(t *testing.T) {
	for _, windows := range []Windows{Sliding, Fixed} {
		s := newServer(t, bytesFile, Options{Windows: windows})
		ask := asker(t, s)
		long := strings.Repeat("x", 60<<10)
		all := make([]*ratelimitv3.RateLimitDescriptor, 0, 20)
		for i := range 20 {
			all = append(all, descriptor("tenant="+long+uintText(uint32(i))))
		}
		for _, want := range []string{"OK", "OVER_LIMIT"} {
			got, err := ask(all...)
			if err != nil || answers(got) != want+strings.Repeat(" "+want+"/0", 20) {
				t.Fatalf("%s: %v %s", windows, err, answers(got))
			}
		}
		for _, h := range s.Stats().Hits {
			if len(h.Limit) > maxMetric+len("…") {
				t.Errorf("a name in the metrics has %d bytes", len(h.Limit))
			}
		}
	}
}

// What is refused before it is decided is counted, logged and an alarm: Envoy lets it pass without
// failure_mode_deny.
func TestRefusedRequestsAreSeen(t *testing.T) {
	s := newServer(t, bytesFile, Options{})
	var log bytes.Buffer
	s.o.Log = slog.New(slog.NewTextHandler(&log, nil))
	s.intake = s.newIntake()
	ask := asker(t, s)
	if s.Trouble() != nil {
		t.Error(s.Trouble())
	}
	for range 3 {
		if _, err := ask(descriptor("tenant=" + strings.Repeat("x", maxRequestBytes))); status.Code(err) !=
			codes.ResourceExhausted {
			t.Error(err)
		}
	}
	if n := s.Stats().Refused[intake.ByLength]; n != 3 {
		t.Errorf("%d counted", n)
	}
	if err := s.Trouble(); err == nil || !strings.Contains(err.Error(), "want at most 4194304") {
		t.Errorf("alarm: %v", err)
	}
	if n := strings.Count(log.String(), "reason=length"); n != 1 {
		t.Errorf("%d lines: %s", n, log.String())
	}
}

// A refund charges nothing, is never refused, and is counted.
func TestARefundChargesNothing(t *testing.T) {
	for _, o := range []Options{{}, {Windows: Fixed}} {
		s := newServer(t, shop, o)
		refund := withHits("tenant=a", 2)
		refund.IsNegativeHits = true
		ask(t, s, "shop", descriptor("tenant=a"))
		for range 5 {
			if got := answers(ask(t, s, "shop", refund)); got != "OK OK/2" {
				t.Errorf("%s: a refund: %s", o.Windows, got)
			}
		}
		ask(t, s, "shop", withHits("tenant=a", 2))
		if got := answers(ask(t, s, "shop", refund)); got != "OK OK/0" {
			t.Errorf("%s: a refund of what is used up: %s", o.Windows, got)
		}
		if n := s.Stats().Refunds; n != 6 {
			t.Errorf("%s: %d counted", o.Windows, n)
		}
	}
}
