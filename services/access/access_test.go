package access

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
)

const policy = `grants:
  - {id: "spiffe://x/agent/*", role: agent}
  - {id: "spiffe://x/viewer", role: viewer}
  - {id: "spiffe://x/acme", role: editor, tenants: [acme]}
  - {id: ops.example.com, role: admin}
`

func guard(t *testing.T) (*Guard, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(path, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := Open(Settings{Policy: path, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return g, path
}

// about are the names of a call.
func about(names ...string) func([]Grant) []string { return func([]Grant) []string { return names } }

// check is admit without the caller.
func (g *Guard) check(ctx context.Context, method string, names []string) error {
	_, err := g.admit(ctx, method, about(names...))
	return err
}

// caller is the context of a call with a verified certificate, without one for "".
func caller(id string) context.Context {
	if id == "" {
		return context.Background()
	}
	c := &x509.Certificate{}
	if u, err := url.Parse(id); err == nil && u.Scheme != "" {
		c.URIs = []*url.URL{u}
	} else {
		c.DNSNames = []string{id}
	}
	return peer.NewContext(context.Background(), &peer.Peer{AuthInfo: credentials.TLSInfo{
		State: tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{c}}}}})
}

// Every method of the coordinator's services has a rule, and each role gets what is
// its own: a new method without a rule fails here.
func TestEveryMethodHasARule(t *testing.T) {
	g, _ := guard(t)
	s := grpc.NewServer()
	quotav1.RegisterQuotaServiceServer(s, quotav1.UnimplementedQuotaServiceServer{})
	quotav1.RegisterAccessServiceServer(s, quotav1.UnimplementedAccessServiceServer{})
	controlv1.RegisterControlServiceServer(s, controlv1.UnimplementedControlServiceServer{})
	grpc_health_v1.RegisterHealthServer(s, grpc_health_v1.UnimplementedHealthServer{})
	reflection.Register(s)
	callers := map[string]string{"": "", "agent": "spiffe://x/agent/a1", "viewer": "spiffe://x/viewer",
		"editor": "spiffe://x/acme", "admin": "ops.example.com"}
	may := map[Role]string{anyone: " agent viewer editor admin", known: "agent viewer editor admin", Agent: "agent",
		Viewer: "viewer editor admin", Editor: "editor admin", Admin: "admin"}
	for service, info := range s.GetServiceInfo() {
		for _, m := range info.Methods {
			method := "/" + service + "/" + m.Name
			if need(method) == "" {
				t.Errorf("%s has no rule: give it one in need", method)
			}
			for name, id := range callers {
				err := g.check(caller(id), method, []string{"tenants/acme/limits/l"})
				want := need(method) == anyone || name != "" && strings.Contains(may[need(method)], name)
				if (err == nil) != want || err != nil && status.Code(err) != codes.PermissionDenied {
					t.Errorf("%s by %q: %v", method, name, err)
				}
			}
		}
	}
	if g.check(caller("ops.example.com"), "/titrate.quota.v1alpha1.QuotaService/New", nil) == nil {
		t.Error("a method without a rule is allowed to an admin")
	}
}

// An editor changes its own tenants and nothing else, whatever field names them.
func TestEditor(t *testing.T) {
	g, _ := guard(t)
	limit := func(name string) *quotav1.Resource {
		return &quotav1.Resource{Kind: &quotav1.Resource_Limit{Limit: &quotav1.Limit{Name: name}}}
	}
	for _, c := range []struct {
		method string
		r      proto.Message
		may    bool
	}{
		{"Apply", &quotav1.ApplyRequest{Resources: []*quotav1.Resource{limit("tenants/acme/limits/l")}}, true},
		{"Apply", &quotav1.ApplyRequest{Resources: []*quotav1.Resource{limit("tenants/acme/limits/l"),
			limit("tenants/bolt/limits/l")}}, false},
		{"Apply", &quotav1.ApplyRequest{Resources: []*quotav1.Resource{limit("tenants/-/limits/l")}}, false},
		{"Apply", &quotav1.ApplyRequest{Resources: []*quotav1.Resource{{}}}, false},
		{"Apply", &quotav1.ApplyRequest{Resources: []*quotav1.Resource{limit("tenants/acme/limits/l")},
			Deletions: []*quotav1.Deletion{{Name: "tenants/acme/limits/m"}}}, true},
		{"Apply", &quotav1.ApplyRequest{Resources: []*quotav1.Resource{limit("tenants/acme/limits/l")},
			Deletions: []*quotav1.Deletion{{Name: "tenants/bolt/limits/m"}}}, false},
		{"Rollback", &quotav1.RollbackRequest{Revision: 1}, false},
		{"CreateLimit", &quotav1.CreateLimitRequest{Parent: "tenants/acme", LimitId: "l", Limit: &quotav1.Limit{}},
			true},
		{"CreateLimit", &quotav1.CreateLimitRequest{Parent: "tenants/acme",
			Limit: &quotav1.Limit{Name: "tenants/bolt/limits/l"}}, false},
		{"UpdateTenant", &quotav1.UpdateTenantRequest{Tenant: &quotav1.Tenant{Name: "tenants/acme"}}, true},
		{"CreateTenant", &quotav1.CreateTenantRequest{TenantId: "bolt", Tenant: &quotav1.Tenant{}}, false},
		{"CreatePool", &quotav1.CreatePoolRequest{PoolId: "acme", Pool: &quotav1.Pool{}}, false},
		{"DeletePool", &quotav1.DeletePoolRequest{Name: "pools/api"}, false},
		{"DeleteQuota", &quotav1.DeleteQuotaRequest{Name: "tenants/acme/quotas/api"}, true},
	} {
		next := func(context.Context, any) (any, error) { return nil, nil }
		info := &grpc.UnaryServerInfo{FullMethod: "/titrate.quota.v1alpha1.QuotaService/" + c.method}
		if _, err := g.Unary(caller("spiffe://x/acme"), c.r, info, next); (err == nil) != c.may {
			t.Errorf("%s %v: %v", c.method, c.r, err)
		}
		if _, err := g.Unary(caller("ops.example.com"), c.r, info, next); err != nil {
			t.Errorf("admin: %s %v: %v", c.method, c.r, err)
		}
	}
}

// A refused call names what it was refused for, so that a caller can leave that out.
func TestRefusedResourcesAreNamed(t *testing.T) {
	g, _ := guard(t)
	r := &quotav1.ApplyRequest{}
	for _, tenant := range []string{"acme", "bolt", "acme", "dart"} {
		r.Resources = append(r.Resources, &quotav1.Resource{Kind: &quotav1.Resource_Tenant{
			Tenant: &quotav1.Tenant{Name: "tenants/" + tenant}}})
	}
	_, err := g.Unary(caller("spiffe://x/acme"), r,
		&grpc.UnaryServerInfo{FullMethod: "/titrate.quota.v1alpha1.QuotaService/Apply"}, nil)
	var named []string
	for _, d := range status.Convert(err).Details() {
		info := d.(*errdetails.ResourceInfo)
		named = append(named, info.GetResourceName())
		if strings.Contains(info.GetDescription(), "spiffe://x/acme") {
			t.Errorf("%s repeats the message: %q", info.GetResourceName(), info.GetDescription())
		}
	}
	if want := []string{"tenants/bolt", "tenants/dart"}; !slices.Equal(named, want) {
		t.Errorf("%v names %q, want %q", err, named, want)
	}
	// The sentence says what was denied, and what would be allowed.
	for _, want := range []string{"spiffe://x/acme may not call Apply on tenants/bolt, tenants/dart: ",
		"it may change tenants/acme with quotas and limits"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// incoming is a stream that brings one Hello.
type incoming struct {
	grpc.ServerStream
	ctx   context.Context
	agent string
}

func (s *incoming) Context() context.Context { return s.ctx }
func (s *incoming) RecvMsg(m any) error {
	m.(*controlv1.ConnectRequest).Message = &controlv1.ConnectRequest_Hello{Hello: &controlv1.Hello{Agent: s.agent}}
	return nil
}

func TestAnAgentIsItself(t *testing.T) {
	g, _ := guard(t)
	info := &grpc.StreamServerInfo{FullMethod: "/titrate.control.v1alpha1.ControlService/Connect"}
	for _, c := range []struct {
		id, agent string
		may       bool
	}{
		{"spiffe://x/agent/a1", "a1", true}, {"spiffe://x/agent/a1", "a2", false}, {"spiffe://x/agent/a1", "", false},
		{"spiffe://x/viewer", "viewer", false}, {"ops.example.com", "ops", false}, {"", "a1", false},
	} {
		err := g.Stream(nil, &incoming{ctx: caller(c.id), agent: c.agent}, info,
			func(_ any, s grpc.ServerStream) error {
				return s.RecvMsg(&controlv1.ConnectRequest{})
			})
		if (err == nil) != c.may {
			t.Errorf("%s as %s: %v", c.id, c.agent, err)
		}
	}
	if got := g.Refused()[byRole]; got != 5 {
		t.Errorf("%d refusals are counted, want 5", got)
	}
	if g.streams.all() != nil {
		t.Error("a stream that has ended is still held")
	}
	if !ownName("gw-7.titrate.svc", "gw-7") || !ownName("gw-7.titrate.svc", "gw-7.titrate.svc") ||
		ownName("gw-7.titrate.svc", "gw-77") {
		t.Error("DNS names")
	}
}

// A changed policy is read; an unreadable policy changes nothing.
func TestPolicyIsReadAgain(t *testing.T) {
	g, path := guard(t)
	const method = "/titrate.quota.v1alpha1.QuotaService/GetPool"
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("grants: [{id: spiffe://x/viewer, role: king}]")
	if err := g.check(caller("spiffe://x/viewer"), method, nil); err != nil {
		t.Errorf("after a policy that cannot be read: %v", err)
	}
	write("grants: []")
	if g.check(caller("spiffe://x/viewer"), method, nil) == nil {
		t.Error("a grant that was taken back holds")
	}
	for _, wrong := range []string{"grants: [{role: admin}]", "grants: [{id: a, role: editor}]",
		"grants: [{id: a, role: admin, tenants: [b]}]",
		"grants: [{id: a, role: admin, names: [b]}]", "rules: []"} {
		write(wrong)
		if _, err := Read(path); err == nil {
			t.Errorf("%s is read", wrong)
		}
	}
}

// A star stands for anything; an id is of URIs or of DNS names.
func TestIDs(t *testing.T) {
	for _, c := range []struct {
		pattern, id string
		fits        bool
	}{
		{"a.b", "a.b", true}, {"a.b", "a.bc", false}, {"a.*", "a.b", true}, {"*", "spiffe://x/y", true},
		{"*", "a", true},
		{"spiffe://*/agent/*", "spiffe://x/y/agent/z", true}, {"spiffe://*/agent/*", "spiffe://x/agents/z", false},
		{"*.agent.*", "gw-1.agent.example.org", true}, {"*.agent.*", "gw-1.agents.org", false},
		{"*.agent.*", "spiffe://x.agent.org/alice", false}, {"spiffe://*", "x", false}, {"*a*a", "a", false},
		{"*a*a", "aa", true},
	} {
		if g := (&Grant{ID: c.pattern}); g.matches(c.id) != c.fits {
			t.Errorf("%s and %s: want %v", c.pattern, c.id, c.fits)
		}
	}
	p := &Policy{Grants: []Grant{{ID: "all.example.org", Role: Agent, Names: []string{"gw-*"}}, {ID: "*", Role: Agent}}}
	for id, want := range map[string]string{"all.example.org": "gw-1 gw-2 all", "gw-2.example.org": "gw-2"} {
		for _, name := range []string{"gw-1", "gw-2", "all", ""} {
			if may := p.mayBe([]string{id}, name); may != (name != "" && strings.Contains(want, name)) {
				t.Errorf("%s as %q: %v", id, name, may)
			}
		}
	}
}

// Without a policy the form of a certificate makes an agent, and only the operator
// makes an admin.
func TestWithoutAPolicy(t *testing.T) {
	g, err := Open(Settings{Admins: []string{"ops.example.com"}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	const connect, get, apply = "/titrate.control.v1alpha1.ControlService/Connect",
		"/titrate.quota.v1alpha1.QuotaService/GetPool", "/titrate.quota.v1alpha1.QuotaService/Apply"
	for _, c := range []struct {
		id  string
		may string
	}{
		{"spiffe://x/titrate/agent/a1", connect}, {"a1.agent.example.com", connect}, {"a1.example.com", ""},
		{"spiffe://x/ops", ""},
		{"ops.example.com", get + apply}, {"", ""},
	} {
		for _, method := range []string{connect, get, apply} {
			err := g.check(caller(c.id), method, []string{"tenants/acme"})
			if (err == nil) != strings.Contains(c.may, method) ||
				err != nil && !strings.Contains(err.Error(), "--access-admin") {
				t.Errorf("%s by %q: %v", method, c.id, err)
			}
		}
	}
	if !g.current().mayBe([]string{"spiffe://x/titrate/agent/a1"}, "a1") ||
		g.current().mayBe([]string{"a1.agent.example.com"}, "a2") {
		t.Error("names of agents")
	}
}
