package coordinator_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/titrate/titrate/envoy-filter/certtest"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/coordinator"
	"github.com/titrate/titrate/services/store/storetest"
	"github.com/titrate/titrate/services/telemetry"
)

const grants = `grants:
  - {id: "spiffe://x/agent/*", role: agent}
  - {id: spiffe://x/viewer, role: viewer}
  - {id: spiffe://x/acme, role: editor, tenants: [acme]}
  - {id: ops.example.org, role: admin}
`

// guarded is a coordinator with real TLS, a policy and a separate port for agents.
type guarded struct {
	*running
	t             *testing.T
	ca            *certtest.Authority
	trust, policy string // files
	audit         string
}

func startGuarded(t *testing.T, set ...func(*coordinator.Config)) *guarded {
	t.Helper()
	g := &guarded{t: t, ca: certtest.New(t), policy: filepath.Join(t.TempDir(), "policy.yaml"),
		audit: filepath.Join(t.TempDir(), "audit")}
	g.trust = certtest.Bundle(t, g.ca)
	g.grant(grants)
	g.running = startWith(t, storetest.Shared(t).Endpoint, storetest.Prefix(t), "one",
		g.credentials(g.ca, "ops.example.org"),
		func(c *coordinator.Config) {
			c.Security.Cert, c.Security.Key = g.ca.Issue(t, "coordinator")
			c.Security.CA, c.AccessPolicy, c.AuditLog = g.trust, g.policy, g.audit
			c.ListenAgents = "127.0.0.1:0"
			for _, more := range set {
				more(c)
			}
		})
	return g
}

// grant replaces the policy.
func (g *guarded) grant(text string) {
	g.t.Helper()
	if err := os.WriteFile(g.policy, []byte(text), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

func (g *guarded) credentials(of *certtest.Authority, id string) credentials.TransportCredentials {
	g.t.Helper()
	return g.until(of, time.Now().Add(certtest.Lifetime), id)
}

func (g *guarded) until(of *certtest.Authority, expiry time.Time, id string) credentials.TransportCredentials {
	g.t.Helper()
	s := telemetry.Security{CA: certtest.Bundle(g.t, g.ca)}
	s.Cert, s.Key = of.IssueUntil(g.t, expiry, id)
	c, err := s.ClientCredentials()
	if err != nil {
		g.t.Fatal(err)
	}
	return c
}

// dial connects a caller to one of the ports.
func (g *guarded) dial(address string, who credentials.TransportCredentials) *grpc.ClientConn {
	g.t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(who))
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { conn.Close() })
	return conn
}

// connected opens a control stream and returns it once it has brought something, or
// why it ended.
func (g *guarded) connected(conn *grpc.ClientConn, name string) (controlv1.ControlService_ConnectClient, error) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	g.t.Cleanup(cancel)
	s, err := controlv1.NewControlServiceClient(conn).Connect(ctx)
	if err != nil {
		return nil, err
	}
	hello := &controlv1.ConnectRequest{Message: &controlv1.ConnectRequest_Hello{Hello: &controlv1.Hello{Agent: name}}}
	if err := s.Send(hello); err != nil && !errors.Is(err,
		io.EOF) { // EOF: Recv has the status of a stream that was refused
		return nil, err
	}
	_, err = s.Recv()
	return s, err
}

// ended reads a stream to its end.
func ended(s controlv1.ControlService_ConnectClient) error {
	for {
		if _, err := s.Recv(); err != nil {
			return err
		}
	}
}

func limit(tenant string) *quotav1.Resource {
	return &quotav1.Resource{Kind: &quotav1.Resource_Limit{Limit: &quotav1.Limit{Name: "tenants/" + tenant +
		"/limits/l", Rate: "10/s"}}}
}

// By real certificates over real TLS: each role does what is its own and no more, on
// its own port, and each change leaves its line.
func TestRolesOverTLS(t *testing.T) {
	g := startGuarded(t)
	g.apply(pool("api", 100), tenant("acme", 1), tenant("bolt", 1))
	for _, c := range []struct{ id, may string }{
		{"spiffe://x/agent/a1", ""}, {"spiffe://x/viewer", "get"}, {"spiffe://x/acme", "get acme"},
		{"ops.example.org", "get acme bolt pool"}, {"spiffe://x/nobody", ""},
	} {
		api := quotav1.NewQuotaServiceClient(g.dial(g.c.Address(), g.credentials(g.ca, c.id)))
		_, err := api.ListPools(t.Context(), &quotav1.ListPoolsRequest{})
		got := map[string]error{"get": err}
		for what, r := range map[string]*quotav1.Resource{"acme": limit("acme"), "bolt": limit("bolt"),
			"pool": pool("api", 200)} {
			_, got[what] = api.Apply(t.Context(), &quotav1.ApplyRequest{Resources: []*quotav1.Resource{r}})
		}
		for what, err := range got {
			want := codes.PermissionDenied
			if strings.Contains(c.may, what) {
				want = codes.OK
			}
			if status.Code(err) != want {
				t.Errorf("%s, %s: %v, want %v", c.id, what, err, want)
			}
		}
	}
	g.audited("ops.example.org", "updated", "pools/api", `"capacity":100`, `"capacity":200`)
	g.audited("spiffe://x/acme", "created", "tenants/acme/limits/l", "", `"rate":"10/s"`)
	_, err := quotav1.NewQuotaServiceClient(g.dial(g.c.Address(), g.credentials(certtest.New(t), "ops.example.org"))).
		ListPools(t.Context(), &quotav1.ListPoolsRequest{})
	if status.Code(err) != codes.Unavailable {
		t.Errorf("a certificate of another CA: %v", err)
	}
}

// audited looks for the line of a change.
func (g *guarded) audited(who, outcome, name, before, after string) {
	g.t.Helper()
	text, err := os.ReadFile(g.audit)
	if err != nil {
		g.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var l struct{ Who, Outcome, Resource, Before, After string }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			g.t.Fatal(err)
		}
		compact := func(s string) string { return strings.ReplaceAll(s, " ", "") }
		if l.Who == who && l.Outcome == outcome && l.Resource == name && strings.Contains(compact(l.Before), before) &&
			(before == "") == (l.Before == "") && strings.Contains(compact(l.After), after) {
			return
		}
	}
	g.t.Errorf("no line says that %s has %s %s from %q to %q:\n%s", who, outcome, name, before, after, text)
}

// An agent is itself and nobody else, on the agents' port; neither port has the other's
// service.
func TestAgentsOverTLS(t *testing.T) {
	g := startGuarded(t)
	agents := g.dial(g.c.AgentAddress(), g.credentials(g.ca, "spiffe://x/agent/a1"))
	g.eventually("an agent is let in", func() bool { _, err := g.connected(agents, "a1"); return err == nil })
	for _, c := range []struct {
		id, name, address string
		want              codes.Code
	}{
		{"spiffe://x/agent/a1", "a2", g.c.AgentAddress(), codes.PermissionDenied},
		{"spiffe://x/viewer", "viewer", g.c.AgentAddress(), codes.PermissionDenied},
		{"ops.example.org", "ops", g.c.AgentAddress(), codes.PermissionDenied},
		{"spiffe://x/agent/a1", "a1", g.c.Address(), codes.Unimplemented},
	} {
		if _, err := g.connected(g.dial(c.address, g.credentials(g.ca, c.id)), c.name); status.Code(err) != c.want {
			t.Errorf("%s as %s: %v, want %v", c.id, c.name, err, c.want)
		}
	}
	_, err := quotav1.NewQuotaServiceClient(g.dial(g.c.AgentAddress(), g.credentials(g.ca, "ops.example.org"))).
		ListPools(t.Context(), &quotav1.ListPoolsRequest{})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("the admin API on the agents' port: %v", err)
	}
}

func (g *guarded) eventually(what string, holds func() bool) {
	g.t.Helper()
	for end := time.Now().Add(deadline); !holds(); {
		if time.Now().After(end) {
			g.t.Fatalf("never: %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// open opens a control stream, again until the coordinator leads.
func (g *guarded) open(name string, who credentials.TransportCredentials) (s controlv1.ControlService_ConnectClient) {
	g.t.Helper()
	conn := g.dial(g.c.AgentAddress(), who)
	g.eventually(name+" is let in", func() bool {
		var err error
		s, err = g.connected(conn, name)
		return err == nil
	})
	return s
}

// A stream ends when its grant is taken back, when its certificate expires and when the
// CA of its certificate goes; the others stay. A new CA is taken without a restart.
func TestOpenStreamsEndWithWhatAllowedThem(t *testing.T) {
	g := startGuarded(t)
	kept := g.open("kept", g.credentials(g.ca, "spiffe://x/agent/kept"))
	gone := g.open("gone", g.credentials(g.ca, "spiffe://x/agent/gone"))
	short := g.open("short", g.until(g.ca, time.Now().Add(5*time.Second), "spiffe://x/agent/short"))
	if err := ended(short); status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), "expired") {
		t.Errorf("after its certificate has expired: %v", err)
	}
	g.grant(strings.Replace(grants, "spiffe://x/agent/*", "spiffe://x/agent/kept", 1))
	if err := ended(gone); status.Code(err) != codes.PermissionDenied {
		t.Errorf("after its grant was taken back: %v", err)
	}
	if _, err := kept.Recv(); err != nil {
		t.Errorf("a stream whose grant stands: %v", err)
	}
	newer := certtest.New(t)
	certtest.Trust(t, g.trust, newer)
	if err := ended(kept); status.Code(err) != codes.Unauthenticated {
		t.Errorf("after its CA is gone: %v", err)
	}
	g.open("kept", g.credentials(newer, "spiffe://x/agent/kept"))
	_, err := g.quota().ListPools(t.Context(), &quotav1.ListPoolsRequest{}) // on a connection from before
	if status.Code(err) != codes.Unauthenticated && status.Code(err) != codes.Unavailable {
		t.Errorf("a caller of the old CA, connected already: %v", err)
	}
}

// Without a policy agents are agents, the identities of --access-admin are admins, and
// nobody else is anything.
func TestWithoutAPolicyOnlyTheNamedAreAdmins(t *testing.T) {
	g := &guarded{t: t, ca: certtest.New(t)}
	g.running = startWith(t, storetest.Shared(t).Endpoint, storetest.Prefix(t), "one",
		g.credentials(g.ca, "ops.example.org"),
		func(c *coordinator.Config) {
			c.Security.Cert, c.Security.Key = g.ca.Issue(t, "coordinator")
			c.Security.CA, c.AccessAdmins = certtest.Bundle(t, g.ca), []string{"ops.example.org"}
		})
	g.apply(pool("api", 100))
	g.open("a1", g.credentials(g.ca, "a1.agent.example.org"))
	for _, id := range []string{"a1.agent.example.org", "spiffe://x/alice"} {
		api := quotav1.NewQuotaServiceClient(g.dial(g.c.Address(), g.credentials(g.ca, id)))
		_, err := api.Apply(t.Context(), &quotav1.ApplyRequest{Resources: []*quotav1.Resource{pool("api", 1)}})
		if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "--access-admin") {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// A port beyond loopback whose callers stay unknown is refused.
func TestCallersBeyondLoopbackAreKnown(t *testing.T) {
	ca := certtest.New(t)
	cert, key := ca.Issue(t)
	for _, set := range []func(*coordinator.Config){
		func(c *coordinator.Config) { c.Listen = "0.0.0.0:0" },
		func(c *coordinator.Config) { c.ListenAgents = "0.0.0.0:0" },
	} {
		c := coordinator.Config{EtcdEndpoints: []string{"127.0.0.1:1"}, Listen: "127.0.0.1:0", Admin: "127.0.0.1:0",
			Advertise: "x:1"}
		c.Security.Cert, c.Security.Key = cert, key
		set(&c)
		if _, err := c.Complete(t.Context()); err == nil || !strings.Contains(err.Error(), "--tls-ca") {
			t.Errorf("opened: %v", err)
		}
	}
}
