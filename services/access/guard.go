package access

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/reflect/protoreflect"
)

const (
	// anyone marks methods that every caller may call.
	anyone Role = "anyone"
	// known marks methods that every caller with credentials may call.
	known Role = "known"
)

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
	case "titrate.control.v1alpha1.PeerService": // it asks for the secret of the coordinator
		if name == "Ask" {
			return anyone
		}
	case "titrate.quota.v1alpha1.AccessService":
		if name == "GetAccess" {
			return known
		}
	case "titrate.quota.v1alpha1.QuotaService":
		return quotaRules[name]
	}
	return ""
}

var quotaRules = map[string]Role{
	"GetPool": Viewer, "ListPools": Viewer, "GetPlan": Viewer, "ListPlans": Viewer,
	"GetTenant": Viewer, "ListTenants": Viewer,
	"GetQuota": Viewer, "ListQuotas": Viewer, "GetLimit": Viewer, "ListLimits": Viewer, "Why": Viewer, "Top": Viewer,
	"GetOverride": Viewer, "ListOverrides": Viewer, "FindDecisions": Viewer, "ListGateways": Viewer,
	"ListUsage": Viewer, "GetBucket": Viewer, "GetPoolHistory": Viewer, "PlanBlock": Viewer,
	"ListRevisions": Viewer, "GetRevision": Viewer, "Plan": Viewer, "Check": Viewer, "Rollback": Admin,
	"CreatePlan": Editor, "UpdatePlan": Editor, "DeletePlan": Editor,
	"CreatePool": Editor, "UpdatePool": Editor, "DeletePool": Editor, "CreateTenant": Editor, "UpdateTenant": Editor,
	"DeleteTenant": Editor, "CreateQuota": Editor, "UpdateQuota": Editor, "DeleteQuota": Editor,
	"CreateLimit": Editor, "UpdateLimit": Editor, "DeleteLimit": Editor, "Apply": Editor,
	"CreateOverride": Editor, "UpdateOverride": Editor, "DeleteOverride": Editor,
}

// Settings of a Guard.
type Settings struct {
	// Policy is the file; "" = agents alone, by the form of their certificates.
	Policy string
	// Admins are identities that are admins whatever the file says.
	Admins []string
	// Tokens is the file of bearer tokens; "" = none is good.
	Tokens string
	JWT    JWT
	// Clients returns the CA that signs callers' certificates: the same pool until it changes.
	Clients func() *x509.CertPool
	// AgentsUnknown says that agents show no certificates: any client that can connect may open the
	// control stream under any name.
	AgentsUnknown bool
	Log           *slog.Logger
}

// Guard lets calls through or refuses them, by files that are read again when they change. Safe for concurrent use.
type Guard struct {
	of     Settings
	fixed  *Policy          // without a file
	policy *reread[*Policy] // nil without a file
	tokens *reread[[]Token] // nil without a file
	jwts   *jwts            // nil without keys

	refusals refusals
	streams  streams
}

// Open reads the files.
func Open(of Settings) (*Guard, error) {
	g := &Guard{of: of, streams: streams{open: map[*bound]bool{}}}
	g.refusals.sometimes.Interval = logEvery
	g.fixed = g.complete(&Policy{Grants: withoutPolicy})
	var err error
	if of.Policy != "" {
		g.policy, err = open("the access policy (--access-policy)", of.Policy, of.Log, g.readPolicy)
		if err != nil {
			return nil, fmt.Errorf("--access-policy: %w", err)
		}
	}
	if of.Tokens != "" {
		if g.tokens, err = open("the token file (--tokens)", of.Tokens, of.Log, parseTokens); err != nil {
			return nil, fmt.Errorf("--tokens: %w", err)
		}
	}
	if of.JWT.Keys != "" {
		if g.jwts, err = openJWTs(of.JWT, of.Log); err != nil {
			return nil, fmt.Errorf("--jwks: %w", err)
		}
	}
	if of.Policy == "" && len(of.Admins) == 0 && !g.takesTokens() {
		of.Log.Warn("there is neither --access-policy nor --access-admin: agents are served, and nobody may " +
			"read or change the configuration; name an admin, or give a policy")
	}
	return g, nil
}

// readPolicy parses a policy and adds the admins that are always there.
func (g *Guard) readPolicy(text []byte) (*Policy, error) {
	p, err := parsePolicy(text)
	if err != nil {
		return nil, err
	}
	return g.complete(p), nil
}

// takesTokens reports whether a caller can be known by a token.
func (g *Guard) takesTokens() bool { return g.tokens != nil || g.jwts != nil }

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
	if g.policy == nil {
		return g.fixed
	}
	return g.policy.current()
}

// Trouble is nil while every file as it is now is in force.
func (g *Guard) Trouble() error {
	var all []error
	if g.policy != nil {
		all = append(all, g.policy.stale())
	}
	if g.tokens != nil {
		all = append(all, g.tokens.stale())
	}
	if g.jwts != nil {
		all = append(all, g.jwts.keys.stale())
	}
	return errors.Join(all...)
}

// admit returns the caller of a call that may be made, or a status that says why it may not. names says which
// resources the call is about.
func (g *Guard) admit(ctx context.Context, method string, names func(grants []Grant) []string) (*Caller, error) {
	c, err := g.authenticate(ctx)
	if err != nil {
		return nil, err
	}
	c.grants = g.current().of(c)
	about := names(c.grants)
	if g.permits(c, c.grants, method, about) {
		return c, nil
	}
	return nil, g.refuse(ctx, c, method, about)
}

// nothing are the names of a call about no resource.
func nothing([]Grant) []string { return nil }

// Early is nil if a call may be let in of which only the method is known, not the resources; else
// the status that says why it may not.
func (g *Guard) Early(ctx context.Context, method string) error {
	c, err := g.authenticate(ctx)
	if err != nil {
		return err
	}
	c.grants = g.current().of(c)
	least := need(method)
	edits := least == Editor && slices.ContainsFunc(c.grants, func(one Grant) bool { return one.Role == Editor })
	tenants, _ := readsOnly(c.grants)
	if edits || g.permits(c, c.grants, method, named(tenants)) {
		return nil
	}
	return g.refuse(ctx, c, method, nil)
}

// refuse counts and logs a call that its caller may not make, and returns its status.
func (g *Guard) refuse(ctx context.Context, c *Caller, method string, names []string) error {
	if c.By == "" && g.takesTokens() {
		return g.unknown(ctx, byNothing, "the call has no credentials: show a certificate, or send a token "+
			"(--token-file)")
	}
	g.refusals.count(byRole)
	over := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return edits(c.grants, name) })
	g.of.Log.Warn("call refused by the access policy", "who", c.Name, "method", method, "resources",
		over[:min(len(over), maxLogged)], "all", len(over))
	call := nameOfMethod(method)
	s := status.Newf(codes.PermissionDenied, "%s may not call %s%s: %s; %s", c.Name, call, on(over), g.missing(c),
		may(c.grants))
	var details []protoadapt.MessageV1
	for _, name := range over[:min(len(over), maxNamed)] {
		details = append(details, &errdetails.ResourceInfo{ResourceName: name,
			Description: "the roles of the caller do not allow it"})
	}
	if named, err := s.WithDetails(details...); err == nil {
		s = named
	}
	return s.Err()
}

// maxLogged and maxNamed bound how many resources of a refused call its log line, and its status, name.
const maxLogged, maxNamed = 5, 1000

// nameOfMethod is the name of a method without its service.
func nameOfMethod(method string) string { return method[strings.LastIndexByte(method, '/')+1:] }

// permits reports whether a caller with the grants may call a method for the named resources.
func (g *Guard) permits(c *Caller, grants []Grant, method string, names []string) bool {
	least := need(method)
	switch least {
	case "":
		return false
	case anyone:
		return true
	case known:
		return c.By != ""
	case Viewer:
		return reads(grants, nameOfMethod(method), names)
	case Agent:
		if g.of.AgentsUnknown {
			return true
		}
	}
	return allowed(grants, least, names)
}

// authenticate returns who calls: by its token if it sends one, else by its certificate.
func (g *Guard) authenticate(ctx context.Context) (*Caller, error) {
	token, given, err := bearer(ctx)
	if !given {
		if err := g.certified(ctx); err != nil {
			return nil, g.unknown(ctx, byCertificate, err.Error())
		}
		return connected(ctx), nil
	}
	var c *Caller
	if err == nil {
		c, err = g.byToken(token)
	}
	if err != nil {
		return nil, g.unknown(ctx, byToken, err.Error())
	}
	return c, nil
}

// unknown is the status of a call whose credentials are not good, or missing.
func (g *Guard) unknown(ctx context.Context, reason int, why string) error {
	g.refusals.count(reason)
	g.refusals.sometimes.Do(func() {
		g.of.Log.Warn("call refused: who calls is not known; more such calls in this second are counted only",
			"from", connected(ctx).Name, "reason", why)
	})
	return status.Error(codes.Unauthenticated, why)
}

// certified says why a certificate is no longer good: the connection may be older than its end.
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
	return fmt.Errorf("the certificate of %s is no longer good: %w", connected(ctx).Name, err)
}

// Unary guards calls.
func (g *Guard) Unary(ctx context.Context, r any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	c, err := g.admit(ctx, info.FullMethod, func(grants []Grant) []string {
		switch m, ok := r.(proto.Message); {
		case !ok:
			return nil
		case need(info.FullMethod) == Viewer:
			return readNames(grants, nameOfMethod(info.FullMethod), m)
		default:
			return targets(m.ProtoReflect())
		}
	})
	if err != nil {
		return nil, err
	}
	return next(context.WithValue(ctx, callerKey{}, c), r)
}

// targets are the names of all resources that a request is about: its name, its
// parent, and those of the resources in it.
func targets(m protoreflect.Message) (names []string) {
	m.Range(func(d protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case d.Name() == "pool_id":
			names = append(names, "pools/"+v.String())
		case d.Name() == "plan_id":
			names = append(names, "plans/"+v.String())
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
