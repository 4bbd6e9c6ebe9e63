package rls

import (
	"bytes"
	"log/slog"
	"testing"
	"unicode/utf8"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	api "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	rlsconfig "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/titrate/titrate/control/config"
)

// FuzzShouldRateLimit answers requests of any bytes: with an error that says what is wrong, or with a status
// for each descriptor that fits the code of the whole.
func FuzzShouldRateLimit(f *testing.F) {
	own := descriptor("tenant=a")
	own.Limit = &ratelimitv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 4, Unit: typev3.RateLimitUnit_YEAR}
	for _, r := range []*api.RateLimitRequest{{}, {Domain: "shop", HitsAddend: 7, Descriptors: descriptors(3)},
		{Domain: Domain, Descriptors: []*ratelimitv3.RateLimitDescriptor{
			descriptor("tenant=acme client=a pool=api class=write address=1"), withHits("tenant=acme", 0)}},
		{Domain: "shop", Descriptors: []*ratelimitv3.RateLimitDescriptor{own, descriptor("special=x"), descriptor("quota=x"),
			{Entries: own.Entries, HitsAddend: wrapperspb.UInt64(1 << 63)}}}} {
		text, err := proto.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
		f.Add(bytes.ReplaceAll(text, []byte("a"), []byte{0xff}))
	}
	var servers []*Server
	for _, o := range []Options{{}, {Windows: Fixed, Headers: true, Metadata: true}} {
		s := newServer(f, shop, o)
		if err := s.composer.configure(&config.Config{Seed: 4, Pools: []config.Pool{{Name: "api", Capacity: 1e6}},
			Tenants: []config.Tenant{{Name: "acme", Limits: []config.Limit{
				{Name: "writes", Rate: 1e12, Burst: 1e12, Classes: []string{"write"}, Identity: "address"}}}}}); err != nil {
			f.Fatal(err)
		}
		servers = append(servers, s)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r := &api.RateLimitRequest{}
		if len(text) > maxRequestBytes || unmarshal(text, r) != nil {
			return // it is refused before
		}
		for _, s := range servers {
			checkAnswer(t, s, r)
		}
	})
}

func checkAnswer(t *testing.T, s *Server, r *api.RateLimitRequest) {
	t.Helper()
	out, err := s.ShouldRateLimit(t.Context(), r)
	if err != nil {
		if status.Code(err) != codes.InvalidArgument {
			t.Fatalf("%v: %v", r, err)
		}
		return
	}
	over := false
	for _, one := range out.GetStatuses() {
		over = over || one.GetCode() == api.RateLimitResponse_OVER_LIMIT
		if one.GetDurationUntilReset().AsDuration() < 0 {
			t.Errorf("%v: %v", r, one)
		}
	}
	if len(out.GetStatuses()) != len(r.GetDescriptors()) || over != (out.GetOverallCode() ==
		api.RateLimitResponse_OVER_LIMIT) {
		t.Errorf("%v: %v", r, out)
	}
	if _, err := proto.Marshal(out); err != nil {
		t.Errorf("%v: %v", r, err)
	}
	if n := s.Stats().Panics; n > 0 {
		t.Fatalf("%v: %d panics", r, n)
	}
}

// FuzzReadRequest reads what is a message as protobuf does.
func FuzzReadRequest(f *testing.F) {
	r := &api.RateLimitRequest{Domain: "shop", HitsAddend: 7, Descriptors: descriptors(2)}
	r.Descriptors[0].IsNegativeHits, r.Descriptors[1].HitsAddend = true, wrapperspb.UInt64(1<<63)
	r.Descriptors[0].Limit = &ratelimitv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 4,
		Unit: typev3.RateLimitUnit_YEAR}
	text, err := proto.Marshal(r)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		want, got := &api.RateLimitRequest{}, &api.RateLimitRequest{}
		if (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, want) != nil {
			return
		}
		if err := readRequest(text, got); err != nil || !proto.Equal(got, want) {
			t.Errorf("%x: %v, %v; want %v", text, err, got, want)
		}
	})
}

// FuzzDiscoveryResponse takes what an xDS server sends, of any bytes. It is in force as a whole, or refused
// with a reason that fits a message, and what was in force before stays.
func FuzzDiscoveryResponse(f *testing.F) {
	nested := perDay("shop", 3)
	nested.Descriptors[0].Descriptors = perDay("", 1<<31).Descriptors
	nested.Descriptors[0].RateLimit.Replaces = []*rlsconfig.RateLimitReplace{{Name: "other"}}
	for _, resources := range [][]proto.Message{nil, {perDay("shop", 3), perDay("mall", 0)}, {nested},
		{perDay("shop", 3), perDay("shop", 3)}, {perDay("", 3), perDay("", 3)}, {perDay(Domain, 3)}, {wrapperspb.String("another type")}} {
		r := &discovery.DiscoveryResponse{VersionInfo: "1", Nonce: "a", TypeUrl: limitsType}
		for _, m := range resources {
			one, err := anypb.New(m)
			if err != nil {
				f.Fatal(err)
			}
			r.Resources = append(r.Resources, one)
		}
		text, err := proto.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	s, err := New(Options{Name: "gw", Log: slog.New(slog.DiscardHandler), XDS: XDS{Address: "passthrough:///none",
		Node: DefaultNode, Dial: []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { s.xds.conn.Close() })
	f.Fuzz(func(t *testing.T, text []byte) {
		r := &discovery.DiscoveryResponse{}
		if proto.Unmarshal(text, r) != nil {
			return
		}
		before := s.composer.files.Load()
		next := s.xds.answer(r)
		if _, err := proto.Marshal(next); err != nil {
			t.Errorf("the answer to %v: %v", r, err)
		}
		why := next.GetErrorDetail().GetMessage()
		switch after := s.composer.files.Load(); {
		case next.GetErrorDetail() != nil && (after != before || why == "" || len(why) > maxReason+len("…") ||
			!utf8.ValidString(why)):
			t.Errorf("%v is refused with %q, and changes the limits: %v", r, why, after != before)
		case next.GetErrorDetail() == nil && (after == before || next.GetVersionInfo() != r.GetVersionInfo()):
			t.Errorf("%v is taken, and not in force", r)
		}
		for _, l := range s.composer.files.Load().Limits() {
			checkAnswer(t, s, &api.RateLimitRequest{Domain: l.Domain, Descriptors: descriptors(1)})
		}
	})
}
