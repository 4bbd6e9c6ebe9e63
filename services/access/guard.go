package access

import (
	"context"
	"crypto/x509"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// anyone marks methods that every caller may call.
const anyone Role = "anyone"

// need is the least role for a method of the coordinator, "" for one without a rule.
func need(method string) Role {
	service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	switch service {
	case "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection":
		return anyone
	case "titrate.control.v1alpha1.ControlService":
		if name == "Connect" {
			return Agent
		}
	case "titrate.quota.v1alpha1.QuotaService":
		return quotaRules[name]
	}
	return ""
}

var quotaRules = map[string]Role{
	"GetPool": Viewer, "ListPools": Viewer, "GetTenant": Viewer, "ListTenants": Viewer,
	"GetQuota": Viewer, "ListQuotas": Viewer, "GetLimit": Viewer, "ListLimits": Viewer, "Why": Viewer, "Top": Viewer,
	"ListRevisions": Viewer, "GetRevision": Viewer, "Plan": Viewer, "Check": Viewer, "Rollback": Admin,
	"CreatePool": Editor, "UpdatePool": Editor, "DeletePool": Editor, "CreateTenant": Editor, "UpdateTenant": Editor,
	"DeleteTenant": Editor, "CreateQuota": Editor, "UpdateQuota": Editor, "DeleteQuota": Editor,
	"CreateLimit": Editor, "UpdateLimit": Editor, "DeleteLimit": Editor, "Apply": Editor,
}

// Settings of a Guard.
type Settings struct {
	// Policy is the file; "" = agents alone, by the form of their certificates.
	Policy string
	// Admins are identities that are admins whatever the file says.
	Admins []string
	// Clients returns the CA that signs callers' certificates: the same pool until it
	// changes.
	Clients func() *x509.CertPool
	Log     *slog.Logger
}

// Guard lets calls through or refuses them, by a policy file that is read again when
// it changes. Safe for concurrent use.
type Guard struct {
	of Settings

	mu     sync.Mutex
	policy *Policy
	stamp  time.Time // of the file that was read last, also in vain
	size   int64

	streams streams
}

// Open reads the policy file.
func Open(of Settings) (*Guard, error) {
	g := &Guard{of: of, policy: &Policy{Grants: withoutPolicy}, streams: streams{open: map[*bound]bool{}}}
	if of.Policy != "" {
		policy, err := Read(of.Policy)
		if err != nil {
			return nil, err
		}
		g.policy = policy
		if info, err := os.Stat(of.Policy); err == nil {
			g.stamp, g.size = info.ModTime(), info.Size()
		}
	} else if len(of.Admins) == 0 {
		of.Log.Warn("there is neither --access-policy nor --access-admin: agents are served, and nobody may " +
			"read or change the configuration; name an admin, or give a policy")
	}
	g.policy = g.complete(g.policy)
	return g, nil
}

// complete adds the admins that are always there.
func (g *Guard) complete(p *Policy) *Policy {
	out := &Policy{Grants: slices.Clone(p.Grants)}
	for _, id := range g.of.Admins {
		out.Grants = append(out.Grants, Grant{ID: id, Role: Admin})
	}
	return out
}

// current returns the policy in force.
func (g *Guard) current() *Policy {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.of.Policy == "" {
		return g.policy
	}
	info, err := os.Stat(g.of.Policy)
	if err != nil || info.ModTime().Equal(g.stamp) && info.Size() == g.size {
		return g.policy
	}
	g.stamp, g.size = info.ModTime(), info.Size()
	if policy, err := Read(g.of.Policy); err != nil {
		g.of.Log.Error("the access policy cannot be read; the one before stays in force", "error", err)
	} else {
		g.policy = g.complete(policy)
		g.of.Log.Info("access policy read", "file", g.of.Policy, "grants", len(policy.Grants))
	}
	return g.policy
}

// chain is a caller's verified certificate with those that signed it, nil without one.
func chain(ctx context.Context) []*x509.Certificate {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.VerifiedChains) == 0 {
		return nil
	}
	return info.State.VerifiedChains[0]
}

// who returns the identities of a caller, none without a verified certificate.
func who(ctx context.Context) []string {
	if c := chain(ctx); len(c) > 0 {
		return identities(c[0])
	}
	return nil
}

// Who names a caller for people.
func Who(ctx context.Context) string {
	if ids := who(ctx); len(ids) > 0 {
		return strings.Join(ids, " ")
	}
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		return "no certificate, " + p.Addr.String()
	}
	return "unknown"
}

// check returns a status for what the caller may not do.
func (g *Guard) check(ctx context.Context, method string, names []string) error {
	if err := g.certified(ctx); err != nil {
		return err
	}
	least := need(method)
	if least == anyone || least != "" && allowed(g.current().of(who(ctx)), least, names) {
		return nil
	}
	g.of.Log.Warn("call refused by the access policy", "who", Who(ctx), "method", method, "resources", names)
	return status.Errorf(codes.PermissionDenied, "%s may not call %s: %s",
		Who(ctx), method[strings.LastIndexByte(method, '/')+1:], g.missing())
}

// missing says what would have to be there for a call that is refused.
func (g *Guard) missing() string {
	if g.of.Policy != "" {
		return "no grant in the coordinator's access policy allows it"
	}
	return "the coordinator has no --access-policy, and then only agents (URI .../agent/NAME or " +
		"DNS name NAME.agent....) and the identities of --access-admin may call it"
}

// certified returns a status for a certificate that is no longer good: the connection
// may be older than its end.
func (g *Guard) certified(ctx context.Context) error {
	c := chain(ctx)
	if len(c) == 0 || g.of.Clients == nil {
		return nil
	}
	between := x509.NewCertPool()
	for _, one := range c[1:] {
		between.AddCert(one)
	}
	_, err := c[0].Verify(x509.VerifyOptions{Roots: g.of.Clients(), Intermediates: between,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err == nil {
		return nil
	}
	return status.Errorf(codes.Unauthenticated, "the certificate of %s is no longer good: %v", Who(ctx), err)
}

// Unary guards calls.
func (g *Guard) Unary(ctx context.Context, r any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	var names []string
	if m, ok := r.(proto.Message); ok {
		names = targets(m.ProtoReflect())
	}
	if err := g.check(ctx, info.FullMethod, names); err != nil {
		return nil, err
	}
	return next(ctx, r)
}

// targets are the names of all resources that a request is about: its name, its
// parent, and those of the resources in it.
func targets(m protoreflect.Message) (names []string) {
	m.Range(func(d protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case d.Name() == "pool_id":
			names = append(names, "pools/"+v.String())
		case d.Name() == "tenant_id":
			names = append(names, "tenants/"+v.String())
		case d.Name() == "name", d.Name() == "parent":
			names = append(names, v.String())
		case d.Name() == "resources":
			for i := range v.List().Len() {
				names = append(names, resourceNames(v.List().Get(i).Message())...)
			}
		case d.Name() == "deletions":
			for i := range v.List().Len() {
				names = append(names, nameOf(v.List().Get(i).Message())...)
			}
		case d.Message() != nil && !d.IsList() && !d.IsMap():
			names = append(names, nameOf(v.Message())...)
		}
		return true
	})
	return names
}

// resourceNames is the name within an envelope.
func resourceNames(envelope protoreflect.Message) (names []string) {
	envelope.Range(func(_ protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		names = append(names, v.Message().Get(v.Message().Descriptor().Fields().ByName("name")).String())
		return true
	})
	return names
}

// nameOf is the name of a resource in a request, none where it has none.
func nameOf(m protoreflect.Message) []string {
	if d := m.Descriptor().Fields().ByName("name"); d != nil && m.Has(d) {
		return []string{m.Get(d).String()}
	}
	return nil
}
