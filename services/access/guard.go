package access

import (
	"context"
	"log/slog"
	"os"
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

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
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
	"GetQuota": Viewer, "ListQuotas": Viewer, "GetLimit": Viewer, "ListLimits": Viewer, "Why": Viewer,
	"CreatePool": Editor, "UpdatePool": Editor, "DeletePool": Editor, "CreateTenant": Editor, "UpdateTenant": Editor,
	"DeleteTenant": Editor, "CreateQuota": Editor, "UpdateQuota": Editor, "DeleteQuota": Editor,
	"CreateLimit": Editor, "UpdateLimit": Editor, "DeleteLimit": Editor, "Apply": Editor,
}

// Guard lets calls through or refuses them, by a policy file that is read again when
// it changes. Safe for concurrent use.
type Guard struct {
	path string
	log  *slog.Logger

	mu     sync.Mutex
	policy *Policy
	stamp  time.Time // of the file that was read last, also in vain
	size   int64
}

// Open reads the policy file.
func Open(path string, log *slog.Logger) (*Guard, error) {
	policy, err := Read(path)
	if err != nil {
		return nil, err
	}
	g := &Guard{path: path, log: log, policy: policy}
	if info, err := os.Stat(path); err == nil {
		g.stamp, g.size = info.ModTime(), info.Size()
	}
	return g, nil
}

// current returns the policy in force.
func (g *Guard) current() *Policy {
	g.mu.Lock()
	defer g.mu.Unlock()
	info, err := os.Stat(g.path)
	if err != nil || info.ModTime().Equal(g.stamp) && info.Size() == g.size {
		return g.policy
	}
	g.stamp, g.size = info.ModTime(), info.Size()
	if policy, err := Read(g.path); err != nil {
		g.log.Error("the access policy cannot be read; the one before stays in force", "error", err)
	} else {
		g.policy = policy
		g.log.Info("access policy read", "file", g.path, "grants", len(policy.Grants))
	}
	return g.policy
}

// who returns the identities of a caller, none without a verified certificate.
func who(ctx context.Context) []string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.VerifiedChains) == 0 {
		return nil
	}
	return identities(info.State.VerifiedChains[0][0])
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
	least := need(method)
	if least == anyone || least != "" && allowed(g.current().of(who(ctx)), least, names) {
		return nil
	}
	g.log.Warn("call refused by the access policy", "who", Who(ctx), "method", method, "resources", names)
	return status.Errorf(codes.PermissionDenied, "%s may not call %s: no grant in the coordinator's access policy allows it",
		Who(ctx), method[strings.LastIndexByte(method, '/')+1:])
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

// Stream guards streams, and binds an agent's Hello to its certificate.
func (g *Guard) Stream(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if err := g.check(s.Context(), info.FullMethod, nil); err != nil {
		return err
	}
	return next(srv, &bound{s, g})
}

// bound is a stream whose Hello must carry the name of its certificate.
type bound struct {
	grpc.ServerStream
	g *Guard
}

// RecvMsg refuses a Hello under another's name.
func (b *bound) RecvMsg(m any) error {
	if err := b.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	r, ok := m.(*controlv1.ConnectRequest)
	if !ok || r.GetHello() == nil {
		return nil
	}
	for _, id := range who(b.Context()) {
		if ownName(id, r.GetHello().GetAgent()) {
			return nil
		}
	}
	b.g.log.Warn("an agent's name is not that of its certificate", "who", Who(b.Context()), "agent", r.GetHello().GetAgent())
	return status.Errorf(codes.PermissionDenied, "%s is not the certificate of agent %q: want a URI that ends with /%[2]s, or its DNS name",
		Who(b.Context()), r.GetHello().GetAgent())
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
