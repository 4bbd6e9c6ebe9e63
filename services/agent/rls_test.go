package agent

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	api "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/envoy-filter/certtest"
	"github.com/titrate/titrate/services/rls"
	"github.com/titrate/titrate/services/telemetry"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const perDay = `
domain: shop
descriptors:
  - key: client
    rate_limit: {unit: day, requests_per_unit: 60}
`

// withRLS is an agent that serves the rate limit API, without a coordinator.
func withRLS(t *testing.T, name string, join ...string) (*instance, api.RateLimitServiceClient, *grpc.ClientConn) {
	t.Helper()
	return withWindows(t, rls.Sliding, name, join...)
}

// withWindows is the same with windows of a kind.
func withWindows(t *testing.T, windows rls.Windows, name string, join ...string,
) (*instance, api.RateLimitServiceClient, *grpc.ClientConn) {
	t.Helper()
	return serveRLS(t, Config{Name: name, Join: join, RLS: RLS{Options: rls.Options{Windows: windows}}})
}

// serveRLS is an agent that serves limits of 60 per day.
func serveRLS(t *testing.T, c Config) (*instance, api.RateLimitServiceClient, *grpc.ClientConn) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "shop.yaml"), []byte(perDay), 0o600); err != nil {
		t.Fatal(err)
	}
	c.RLS.Address, c.RLS.Dir = "127.0.0.1:0", dir
	i := run(t, c)
	conn, err := grpc.NewClient(i.RLSAddress(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return i, api.NewRateLimitServiceClient(conn), conn
}

// call asks for a client; hits 0 charges nothing.
func call(t *testing.T, c api.RateLimitServiceClient, client string, hits uint64) *api.RateLimitResponse {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	d := &ratelimitv3.RateLimitDescriptor{HitsAddend: wrapperspb.UInt64(hits),
		Entries: []*ratelimitv3.RateLimitDescriptor_Entry{{Key: "client", Value: client}}}
	r, err := c.ShouldRateLimit(ctx, &api.RateLimitRequest{Domain: "shop",
		Descriptors: []*ratelimitv3.RateLimitDescriptor{d}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// admitted counts the requests of a client that pass, of n.
func admitted(t *testing.T, c api.RateLimitServiceClient, client string, n int) (passed int) {
	t.Helper()
	for range n {
		if call(t, c, client, 1).GetOverallCode() == api.RateLimitResponse_OK {
			passed++
		}
	}
	return passed
}

func TestRLSOfOneAgent(t *testing.T) {
	i, client, conn := withRLS(t, "a")
	if n := admitted(t, client, "bob", 70); n != 60 {
		t.Errorf("%d of 70 admitted, 60 per day", n)
	}
	health, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{})
	if err != nil || health.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		t.Errorf("health %v, %v", health, err)
	}
	if code, text := i.http(http.MethodGet, "/readyz"); code != http.StatusOK {
		t.Errorf("not ready without a coordinator: %s", text)
	}
	_, metrics := i.http(http.MethodGet, "/metrics")
	for _, want := range []string{`titrate_rls_hits_total{limit="shop.client",outcome="over"} 10`,
		`titrate_rls_hits_total{limit="shop.client",outcome="near"} 12`, `titrate_rls_requests_total 70`,
		`titrate_rls_limits 1`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics without %s", want)
		}
	}
	i.eventually("links its own gateway", func(s Status) bool {
		return len(s.Gateways) == 1 && s.Gateways[0].Name == "a-rls"
	})
}

// Without its xDS server the agent serves, and says that it has no limits.
func TestRLSWithoutItsXDSServer(t *testing.T) {
	i := run(t, Config{Name: "a", RLS: RLS{Address: "127.0.0.1:0", Options: rls.Options{XDS: rls.XDS{
		Address: "127.0.0.1:1", Node: "n"}}}})
	code, text := i.http(http.MethodGet, "/readyz")
	if code != http.StatusOK || !strings.Contains(text, "--rls-xds 127.0.0.1:1: not connected yet, so there are no") {
		t.Errorf("%d %s", code, text)
	}
	if _, metrics := i.http(http.MethodGet, "/metrics"); !strings.Contains(metrics, "titrate_rls_xds_connected 0") {
		t.Error("metrics without titrate_rls_xds_connected")
	}
}

// hearEachOther waits until two agents know each other's gateways.
func hearEachOther(a, b *instance) {
	for _, i := range []*instance{a, b} {
		i.eventually("hears the other's gateway", func(s Status) bool {
			n := 0
			for _, r := range s.Replicas {
				if r.Heard && r.Member {
					n++
				}
			}
			return n == 2
		})
	}
}

// One counter of a fixed window holds over the services of two agents: each knows exactly the other's count once a
// message has come, also after a restart.
func TestFixedWindowsOfTwoAgents(t *testing.T) {
	a, first, _ := withWindows(t, rls.Fixed, "a")
	b, second, _ := withWindows(t, rls.Fixed, "b", a.GossipAddress())
	hearEachOther(a, b)
	left := func(c api.RateLimitServiceClient) int {
		return int(call(t, c, "bob", 0).GetStatuses()[0].GetLimitRemaining())
	}
	if time.Until(time.Now().UTC().Truncate(24*time.Hour).Add(24*time.Hour)) < time.Minute {
		t.Skip("midnight: the window is about to end")
	}
	if n := admitted(t, first, "bob", 30); n != 30 {
		t.Fatalf("%d of 30 admitted, 60 per day", n)
	}
	b.eventually("hears what the first has admitted, which it has not been asked for", func(Status) bool {
		return left(second) == 30
	})
	for _, step := range []struct {
		c                    api.RateLimitServiceClient
		asked, admitted, now int
	}{{second, 10, 10, 20}, {first, 5, 5, 15}, {second, 20, 15, 0}, {first, 3, 0, 0}} {
		if n := admitted(t, step.c, "bob", step.asked); n != step.admitted {
			t.Errorf("%d of %d admitted, want %d", n, step.asked, step.admitted)
		}
		b.eventually("both know the same", func(Status) bool { return left(first) == step.now && left(second) == step.now })
	}
	b.stop()
	_, second, _ = withWindows(t, rls.Fixed, "b", a.GossipAddress())
	a.eventually("the service that begins anew hears that nothing is left", func(Status) bool {
		return left(second) == 0 && left(first) == 0
	})
	if n := admitted(t, second, "bob", 5); n != 0 {
		t.Errorf("after it began anew %d are admitted of a limit that is used up", n)
	}
}

// One limit holds over the services of two agents.
func TestRLSOfTwoAgents(t *testing.T) {
	a, first, _ := withRLS(t, "a")
	b, second, _ := withRLS(t, "b", a.GossipAddress())
	hearEachOther(a, b)
	left := func(c api.RateLimitServiceClient) int {
		return int(call(t, c, "bob", 0).GetStatuses()[0].GetLimitRemaining())
	}
	total, unheard := admitted(t, first, "bob", 30), 0
	b.eventually("hears what the first has admitted", func(Status) bool {
		total += admitted(t, first, "bob", 1)
		unheard += admitted(t, second, "bob", 1)
		return left(second) <= left(first)+3
	})
	total += unheard
	for range 20 { // within the delay of the gossip each may spend all that is left
		total += admitted(t, second, "bob", 5) + admitted(t, first, "bob", 5)
		b.eventually("both have heard what the other has admitted", func(Status) bool {
			free := max(0, 60-total) + 3
			return left(first) <= free && left(second) <= free
		})
	}
	if total < 55 || total > 60+unheard+10 {
		t.Errorf("%d admitted over both, 60 per day; %d before the second knew of the first", total, unheard)
	}
	b.stop()
	a.eventually("hears that the other has left", func(s Status) bool {
		for _, r := range s.Replicas {
			if r.Name == "b-rls" && !r.Drained {
				return false
			}
		}
		return true
	})
}

// exactRLS are n agents with services, which hold limits as EXACT.
func exactRLS(t *testing.T, n int) (agents []*instance, services []api.RateLimitServiceClient) {
	var join []string
	for i := range n {
		a, c, _ := serveRLS(t, Config{Name: string(rune('a' + i)), Join: join, ExactWithin: exchange.MaxExactWithin})
		agents, services = append(agents, a), append(services, c)
		join = []string{agents[0].GossipAddress()}
	}
	for _, a := range agents {
		a.eventually("hears the other agents' gateways, and holds limits as EXACT", func(s Status) bool {
			return s.Exact && len(s.Replicas) == n
		})
	}
	return agents, services
}

// voidUnlessExact ends a test on a machine that is so busy that an agent has taken the way to the others for too long.
// Limits are then LOCAL for 30 s and more.
func voidUnlessExact(t *testing.T, a *instance) {
	t.Helper()
	if s := a.Status(); !s.Exact {
		t.Skipf("VOID: limits are LOCAL: %s", s.ExactWhy)
	}
}

// Where the way between agents is short enough their services hold a limit exactly, whatever client
// goes to which and however fast. A service that ends gives back what it has, so that nothing is lost.
func TestRLSIsExact(t *testing.T) {
	agents, services := exactRLS(t, 3)
	a, b, first, second := agents[0], agents[1], services[0], services[1]
	const clients, limit = 12, 60
	both := func(client string, each int) (total int) {
		var passed [2]int
		var done sync.WaitGroup
		for n, c := range []api.RateLimitServiceClient{first, second} {
			done.Go(func() { passed[n] = admitted(t, c, client, each) })
		}
		done.Wait()
		return passed[0] + passed[1]
	}
	var exact int
	for n := range clients {
		if total := both("hasty-"+strconv.Itoa(n), 50); total == limit || total == limit+1 {
			exact++
		}
	}
	voidUnlessExact(t, a)
	if exact < clients*2/3 { // where this machine sleeps for 50 ms the ledger decides
		t.Errorf("of %d clients that asked for 100 at both services %d were admitted %d", clients, exact, limit)
	}
	const used = 20
	for n := range clients {
		admitted(t, second, "calm-"+strconv.Itoa(n), used) // b has the whole bucket
	}
	b.stop()
	a.eventually("sees that b has left", func(s Status) bool { return len(s.Peers) == 1 })
	var back int
	var totals []int
	for n := range clients {
		total := used + admitted(t, first, "calm-"+strconv.Itoa(n), 50)
		if totals = append(totals, total); total == limit || total == limit+1 {
			back++
		}
	}
	voidUnlessExact(t, a)
	if back < clients/3 { // buckets that b owned are gone with it: some third
		t.Errorf("of %d limits that one service alone had used, %d were known when it had ended: %d admitted", clients,
			back, totals)
	}
}

// A caller that gives up while its request waits for an unreachable owner costs its limit no more than its requests:
// what was left is not taken.
func TestRLSCallersThatGiveUp(t *testing.T) {
	agents, services := exactRLS(t, 2)
	first := services[0]
	agents[1].Partition(true)
	const clients, calls = 12, 15
	var done sync.WaitGroup
	for n := range clients {
		done.Go(func() {
			d := &ratelimitv3.RateLimitDescriptor{Entries: []*ratelimitv3.RateLimitDescriptor_Entry{
				{Key: "client", Value: "hasty-" + strconv.Itoa(n)}}}
			for range calls {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				_, err := first.ShouldRateLimit(ctx, &api.RateLimitRequest{Domain: "shop",
					Descriptors: []*ratelimitv3.RateLimitDescriptor{d}})
				if code := status.Code(err); err != nil && code != codes.DeadlineExceeded {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	done.Wait()
	for n := range clients {
		r := call(t, first, "hasty-"+strconv.Itoa(n), 0)
		if left := r.GetStatuses()[0].GetLimitRemaining(); left < 60-calls {
			t.Errorf("client %d has %d left of 60 after %d calls", n, left, calls)
		}
	}
}

func TestRLSSettings(t *testing.T) {
	c := Config{Socket: filepath.Join(t.TempDir(), "s"), Gossip: "127.0.0.1:0", Admin: "127.0.0.1:0",
		RLS: RLS{Options: rls.Options{Dir: t.TempDir()}}}
	if _, err := c.Complete(t.Context()); err == nil || !strings.Contains(err.Error(), "--rls is not") {
		t.Errorf("--rls-config without --rls: %v", err)
	}
	c.RLS.Dir, c.RLS.XDS.Address = "", "127.0.0.1:1"
	if _, err := c.Complete(t.Context()); err == nil || !strings.Contains(err.Error(), "--rls-xds is given") {
		t.Errorf("--rls-xds without --rls: %v", err)
	}
	c.RLS.Dir, c.RLS.Address = t.TempDir(), "127.0.0.1:0"
	if _, err := c.Complete(t.Context()); err == nil || !strings.Contains(err.Error(), "give the flag of the source") {
		t.Errorf("--rls-xds and --rls-config: %v", err)
	}
	c.RLS.Dir, c.RLS.XDS.Address = "", "gateway"
	if _, err := c.Complete(t.Context()); !errors.Is(err, ErrSettings) || !strings.Contains(err.Error(), "--rls-xds") {
		t.Errorf("--rls-xds without a port: %v", err)
	}
	c.RLS.XDS.Address = ""
	c.RLS.Address = "0.0.0.0:0"
	if _, err := c.Complete(t.Context()); err == nil || !strings.Contains(err.Error(), "--tls-cert") {
		t.Errorf("--rls beyond loopback without TLS: %v", err)
	}
	c.RLS.Windows, c.Socket = "tumbling", "/nowhere/s" // settings are read before anything is opened
	if _, err := c.Complete(t.Context()); !errors.Is(err, ErrSettings) ||
		!strings.Contains(err.Error(), "want sliding or fixed") {
		t.Errorf("unknown windows: %v", err)
	}
	c.RLS.Windows, c.RLS.Address = rls.Fixed, ""
	if _, err := c.Complete(t.Context()); !errors.Is(err, ErrSettings) || !strings.Contains(err.Error(), "--rls is not") {
		t.Errorf("--rls-windows fixed without --rls: %v", err)
	}
	if seedOf(nil) != 0 || seedOf([][]byte{{1}}) == seedOf([][]byte{{2}, {1}}) {
		t.Error("seeds do not follow the gossip key")
	}
}

// With TLS files the service takes callers with a certificate of the CA, and no others.
func TestRLSWithCertificates(t *testing.T) {
	ca, stranger := certtest.New(t), certtest.New(t)
	security := telemetry.Security{CA: certtest.Bundle(t, ca)}
	security.Cert, security.Key = ca.Issue(t, "agent")
	i := run(t, Config{Name: "a", Security: security, RLS: RLS{Address: "127.0.0.1:0"}})
	for _, c := range []struct {
		of   *certtest.Authority
		want codes.Code
	}{{ca, codes.OK}, {stranger, codes.Unavailable}} {
		own := telemetry.Security{CA: security.CA}
		own.Cert, own.Key = c.of.Issue(t, "envoy")
		credentials, err := own.ClientCredentials()
		if err != nil {
			t.Fatal(err)
		}
		conn, err := grpc.NewClient(i.RLSAddress(), grpc.WithTransportCredentials(credentials))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, err = api.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &api.RateLimitRequest{Domain: "shop",
			Descriptors: []*ratelimitv3.RateLimitDescriptor{{}}})
		if status.Code(err) != c.want {
			t.Errorf("%v, want %v", err, c.want)
		}
	}
}
