package access

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
)

// verbs are the actions that a caller can ask about, each with a method that does it.
var verbs = map[string]string{
	"get": "GetTenant", "list": "ListLimits", "why": "Why", "top": "Top", "plan": "Plan", "history": "ListRevisions",
	"check": "Check", "apply": "Apply", "create": "CreateLimit", "update": "UpdateLimit", deletes: "DeleteLimit",
	"rollback": "Rollback",
}

const (
	connect = "connect" // the verb of agents
	deletes = "delete"

	quotaService = "/titrate.quota.v1alpha1.QuotaService/"
)

// Server says to callers what they may do.
type Server struct {
	quotav1.UnimplementedAccessServiceServer
	guard *Guard
}

// NewServer answers by what the guard would do; nil = every caller may do everything.
func NewServer(g *Guard) *Server { return &Server{guard: g} }

// GetAccess says who the caller is, and whether it may do something.
func (s *Server) GetAccess(ctx context.Context, r *quotav1.GetAccessRequest) (*quotav1.GetAccessResponse, error) {
	method, err := asked(r)
	if err != nil {
		return nil, err
	}
	c := callerOf(ctx)
	out := &quotav1.GetAccessResponse{Caller: c.Name, Credential: c.By}
	if s.guard == nil {
		out.Allowed = r.GetVerb() != ""
		for _, role := range []Role{Admin, Agent} {
			out.Grants = append(out.Grants, &quotav1.AccessGrant{Role: string(role)})
		}
		return out, nil
	}
	if !c.Expires.IsZero() {
		out.ExpireTime = timestamppb.New(c.Expires)
	}
	for _, g := range c.grants {
		out.Grants = append(out.Grants, &quotav1.AccessGrant{Role: string(g.Role), Tenants: g.Tenants,
			Ceiling: g.Ceiling.String()})
	}
	if r.GetVerb() == "" {
		return out, nil
	}
	tenants, _ := readsOnly(c.grants)
	names := named(tenants)
	if r.GetResource() != "" {
		names = []string{r.GetResource()}
	}
	if !s.guard.permits(c, c.grants, method, names) {
		out.Reason = s.guard.missing(c)
	} else if r.GetVerb() == deletes {
		// What is changed is not part of the question, but what a ceiling keeps is.
		out.Reason = status.Convert(Ceilings{}.Delete(ctx, r.GetResource(), nil)).Message()
	}
	out.Allowed = out.Reason == ""
	return out, nil
}

// asked is a method that does what a caller asks about.
func asked(r *quotav1.GetAccessRequest) (string, error) {
	verb, name := r.GetVerb(), r.GetResource()
	switch collection, _, _ := strings.Cut(name, "/"); {
	case verb == connect:
		return "/titrate.control.v1alpha1.ControlService/Connect", nil
	case verb != "" && verbs[verb] == "":
		return "", status.Errorf(codes.InvalidArgument, "verb %q: want %s or %s", verb,
			strings.Join(slices.Sorted(maps.Keys(verbs)), ", "), connect)
	case name != "" && collection != "pools" && collection != "plans" && collection != "tenants":
		return "", status.Error(codes.InvalidArgument, fmt.Sprintf("resource %q: want a name such as pools/api, "+
			"tenants/acme or tenants/acme/limits/per-client", name))
	case name == "" && quotaRules[verbs[verb]] == Editor:
		return "", status.Errorf(codes.InvalidArgument, "resource is missing: %s of what? Name one such as "+
			"tenants/acme/limits/per-client", verb)
	}
	return quotaService + verbs[verb], nil
}
