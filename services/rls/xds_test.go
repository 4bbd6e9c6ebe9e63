package rls

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rlsconfig "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/anypb"
)

// management is an xDS server that sends what a test says, and shows what it is asked.
type management struct {
	discovery.UnimplementedAggregatedDiscoveryServiceServer
	server   *grpc.Server
	at       atomic.Pointer[bufconn.Listener]
	requests chan *discovery.DiscoveryRequest
	out      chan *discovery.DiscoveryResponse
}

func newManagement(t *testing.T) *management {
	m := &management{requests: make(chan *discovery.DiscoveryRequest, 16), out: make(chan *discovery.DiscoveryResponse)}
	m.start()
	t.Cleanup(m.stop)
	return m
}

func (m *management) start() {
	listener := bufconn.Listen(1 << 20)
	m.at.Store(listener)
	m.server = grpc.NewServer()
	discovery.RegisterAggregatedDiscoveryServiceServer(m.server, m)
	go func() { _ = m.server.Serve(listener) }()
}

func (m *management) stop() { m.server.Stop() }

func (m *management) StreamAggregatedResources(
	stream discovery.AggregatedDiscoveryService_StreamAggregatedResourcesServer,
) error {
	go func() {
		for {
			r, err := stream.Recv()
			if err != nil {
				return
			}
			m.requests <- r
		}
	}()
	for {
		select {
		case r := <-m.out:
			if err := stream.Send(r); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return nil
		}
	}
}

// send sends limits and returns what the service answers.
func (m *management) send(t *testing.T, version string,
	all ...*rlsconfig.RateLimitConfig) *discovery.DiscoveryRequest {
	t.Helper()
	r := &discovery.DiscoveryResponse{VersionInfo: version, Nonce: "nonce of " + version, TypeUrl: limitsType}
	for _, one := range all {
		resource, err := anypb.New(one)
		if err != nil {
			t.Fatal(err)
		}
		r.Resources = append(r.Resources, resource)
	}
	m.out <- r
	answer := <-m.requests
	if answer.GetResponseNonce() != r.GetNonce() {
		t.Errorf("the answer to version %s has the nonce %q", version, answer.GetResponseNonce())
	}
	return answer
}

// subscribed is a server that has its limits of m.
func subscribed(t *testing.T, m *management) *Server {
	dial := func(ctx context.Context, _ string) (net.Conn, error) { return m.at.Load().DialContext(ctx) }
	s, err := New(Options{Name: "gw", Log: slog.New(slog.DiscardHandler), XDS: XDS{
		Address: "passthrough:///gateway", Node: DefaultNode, Dial: []grpc.DialOption{
			grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(dial)}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.xds.run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return s
}

// perDay limits each client of a domain.
func perDay(domain string, requests uint32) *rlsconfig.RateLimitConfig {
	return &rlsconfig.RateLimitConfig{Name: domain, Domain: domain, Descriptors: []*rlsconfig.RateLimitDescriptor{{
		Key: "client", RateLimit: &rlsconfig.RateLimitPolicy{Unit: rlsconfig.RateLimitUnit_DAY, RequestsPerUnit: requests}}}}
}

// inForce are the domains and their requests per day. What follows from them is not asked
// for: the engine's clock is not that of a test with virtual time.
func inForce(s *Server) string {
	var words []string
	for _, l := range s.composer.files.Load().Limits() {
		words = append(words, l.Domain, uintText(l.Requests))
	}
	return strings.Join(words, " ")
}

// Limits come from an xDS server: wrong ones are refused with the reason, and what is in force stays without the
// server, until it is back and says something else.
func TestLimitsByXDS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManagement(t)
		s := subscribed(t, m)
		want := func(text string) {
			t.Helper()
			if got := inForce(s); got != text {
				t.Errorf("in force %q, want %q", got, text)
			}
		}
		first := <-m.requests
		if first.GetNode().GetId() != DefaultNode || first.GetTypeUrl() != limitsType || first.GetVersionInfo() != "" {
			t.Errorf("first request %v", first)
		}
		want("")
		ack := m.send(t, "1", perDay("shop", 3), perDay("mall", 1))
		if ack.GetVersionInfo() != "1" || ack.GetErrorDetail() != nil {
			t.Errorf("answer to right limits: %v", ack)
		}
		want("mall 1 shop 3")
		wrong := perDay("shop", 10)
		wrong.Descriptors = append(wrong.Descriptors, wrong.GetDescriptors()[0])
		nack := m.send(t, "2", wrong)
		why := nack.GetErrorDetail().GetMessage()
		if nack.GetVersionInfo() != "1" || !strings.Contains(why, "is there already") {
			t.Errorf("answer to wrong limits: version %s, %q", nack.GetVersionInfo(), why)
		}
		if now := s.Stats(); now.FilesRefused != 1 || !strings.Contains(now.FilesTrouble, "shop:1: descriptors[1]") {
			t.Errorf("after wrong limits: %+v", now)
		}
		want("mall 1 shop 3")
		m.stop()
		synctest.Wait()
		if now := *s.Stats().XDS; now.Connected || now.Lost != 1 || now.Why == "" || now.Version != "1" {
			t.Errorf("after the server has gone: %+v", now)
		}
		want("mall 1 shop 3")
		m.start()
		if again := <-m.requests; again.GetVersionInfo() != "" || again.GetNode().GetId() != DefaultNode {
			t.Errorf("first request to the new server, whose versions are others: %v", again)
		}
		synctest.Wait()
		if now := *s.Stats().XDS; now.Connected {
			t.Errorf("with a server back that says nothing: %+v", now)
		}
		m.send(t, "3", perDay("shop", 4))
		if now := *s.Stats().XDS; !now.Connected || now.Lost != 1 || now.Why != "" {
			t.Errorf("with the server back: %+v", now)
		}
		want("shop 4")
		m.send(t, "4")
		want("")
		if now := s.Stats(); now.Limits != 0 || now.FilesTrouble != "" {
			t.Errorf("without limits: %+v", now)
		}
	})
}

// A server that sends what was refused again at once does not make this side spin, and the reason that it is sent has a
// bound.
func TestXDSRefusalsTakeTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManagement(t)
		subscribed(t, m)
		<-m.requests
		wrong, began := perDay("shop", 10), time.Now()
		for range 1000 {
			wrong.Descriptors = append(wrong.Descriptors, wrong.GetDescriptors()[0])
		}
		for range 10 {
			if nack := m.send(t, "1", wrong); len(nack.GetErrorDetail().GetMessage()) > maxReason+len("…") {
				t.Errorf("a reason of %d bytes", len(nack.GetErrorDetail().GetMessage()))
			}
		}
		if took := time.Since(began); took < 10*refusalPause {
			t.Errorf("10 refusals in %s", took)
		}
	})
}

// Callers wait for the first limits: an agent that starts together with its server admits nothing without them.
func TestServesWithTheLimitsOfXDS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManagement(t)
		s := subscribed(t, m)
		s.o.Alone = true
		<-m.requests
		ready := make(chan time.Time, 1)
		go func() { s.awaitConfiguration(t.Context()); ready <- time.Now() }()
		time.Sleep(time.Second)
		synctest.Wait()
		if len(ready) > 0 {
			t.Error("serves without limits")
		}
		m.send(t, "1", perDay("shop", 3))
		synctest.Wait()
		if len(ready) == 0 {
			t.Error("does not serve with limits")
		}
	})
}

// A resource of another type is refused.
func TestXDSOfAnotherType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManagement(t)
		s := subscribed(t, m)
		<-m.requests
		other, err := anypb.New(&discovery.DiscoveryRequest{})
		if err != nil {
			t.Fatal(err)
		}
		m.out <- &discovery.DiscoveryResponse{VersionInfo: "1", Nonce: "n", Resources: []*anypb.Any{other}}
		if nack := <-m.requests; nack.GetErrorDetail() == nil || nack.GetVersionInfo() != "" {
			t.Errorf("answer %v", nack)
		}
		if s.Stats().FilesRefused != 1 {
			t.Errorf("%+v", s.Stats())
		}
	})
}

func TestRefusalsAreNewsOnce(t *testing.T) {
	var r refusals
	bad := errors.New("bad")
	for i, c := range []struct {
		err  error
		news bool
	}{{bad, true}, {bad, false}, {nil, true}, {bad, true}, {errors.New("worse"), true}} {
		if r.note(c.err) != c.news {
			t.Errorf("%d: %v is news: %v", i, c.err, !c.news)
		}
	}
	if n, why := r.trouble(); n != 3 || why != "worse" {
		t.Errorf("%d refused, the last %q", n, why)
	}
}
