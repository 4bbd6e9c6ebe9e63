package access

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
)

// notOfTenants are the methods that read what is not of one tenant. No tenant-viewer may call them.
var notOfTenants = []string{"GetPoolHistory", "PlanBlock", "GetPool", "ListPools", "GetPlan", "ListPlans", "ListGateways", "ListRevisions",
	"GetRevision", "Plan", "Check"}

// tenantGuard has viewers of one tenant and of two.
func tenantGuard(t *testing.T) *Guard {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy.yaml")
	err := os.WriteFile(path, []byte(`grants:
  - {id: "spiffe://x/one", role: tenant-viewer, tenants: [acme]}
  - {id: "spiffe://x/two", role: tenant-viewer, tenants: [acme, bolt]}
  - {id: "spiffe://x/both", role: tenant-viewer, tenants: [acme]}
  - {id: "spiffe://x/both", role: viewer}
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	g, err := Open(Settings{Policy: path, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Each method of the API is called by a tenant-viewer with a request that names its tenant, another one, a pool or
// nothing. A new method that reads fails here until tenantReads or notOfTenants has it.
func TestTenantViewersReadTheirTenants(t *testing.T) {
	g := tenantGuard(t)
	methods := quotav1.File_titrate_quota_v1alpha1_service_proto.Services().ByName("QuotaService").Methods()
	for i := range methods.Len() {
		method := methods.Get(i)
		name := string(method.Name())
		field, reads := tenantReads[name]
		if need(quotaService+name) == Viewer && reads == slices.Contains(notOfTenants, name) {
			t.Errorf("%s: say in tenantReads which field of its request names a tenant, or that it is not of tenants", name)
		}
		for _, c := range []struct {
			caller, says string
			may          bool
		}{
			{"one", "tenants/acme", true}, {"one", "tenants/bolt", false}, {"one", "tenants/-", false},
			{"one", "pools/acme", false}, {"one", "acme", false}, {"one", "tenants/acme2", false}, {"one", "", true},
			{"two", "tenants/bolt", true}, {"two", "tenants/dart", false}, {"two", "", false},
			{"both", "tenants/dart", true}, {"nobody", "tenants/acme", false},
		} {
			request := dynamicpb.NewMessage(method.Input())
			says := c.says
			switch {
			case field == "selection.tenant" && strings.HasPrefix(says, "tenants/"):
				says = strings.TrimPrefix(says, "tenants/")
			case field == "selection.tenant" && says != "":
				continue // a selection has names without collection
			case (name == "GetQuota" || name == "GetLimit") && strings.HasPrefix(says, "tenants/"):
				says += "/of/x"
			}
			set(request, field, says)
			got := ""
			_, err := g.Unary(caller("spiffe://x/"+c.caller), request, &grpc.UnaryServerInfo{FullMethod: quotaService + name},
				func(context.Context, any) (any, error) {
					got = value(request, field)
					return nil, nil
				})
			may := c.may && reads || field == "" && reads && c.caller != "nobody" ||
				c.caller == "both" && need(quotaService+name) == Viewer
			if (err == nil) != may || err != nil && status.Code(err) != codes.PermissionDenied {
				t.Errorf("%s of %q by %s: %v", name, c.says, c.caller, err)
			}
			if err == nil && field != "" && says == "" && !strings.HasSuffix(got, "acme") {
				t.Errorf("%s by a viewer of acme, which names no tenant: is about %q, want acme", name, got)
			}
		}
	}
}

// at returns the message that has a field, and the field.
func at(m protoreflect.Message, path string) (protoreflect.Message, protoreflect.FieldDescriptor) {
	steps := strings.Split(path, ".")
	for _, step := range steps[:len(steps)-1] {
		m = m.Mutable(m.Descriptor().Fields().ByName(protoreflect.Name(step))).Message()
	}
	return m, m.Descriptor().Fields().ByName(protoreflect.Name(steps[len(steps)-1]))
}

func set(m proto.Message, path, text string) {
	if in, f := at(m.ProtoReflect(), path); f != nil && text != "" {
		in.Set(f, protoreflect.ValueOfString(text))
	}
}

func value(m proto.Message, path string) string {
	if in, f := at(m.ProtoReflect(), path); f != nil {
		return in.Get(f).String()
	}
	return ""
}

// What a tenant-viewer may do is said by GetAccess, and by a refusal.
func TestTenantViewersAreToldTheirTenants(t *testing.T) {
	g := tenantGuard(t)
	for verb, resource := range map[string]string{"get": "tenants/acme/limits/l", "list": "", "top": "", "why": "tenants/acme"} {
		if r := access(t, g, verb, resource); !r.Allowed {
			t.Errorf("%s %s: %v", verb, resource, r)
		}
	}
	for verb, resource := range map[string]string{"get": "tenants/bolt", "list": "tenants/bolt", "top": "pools/api", "plan": "",
		"history": "tenants/acme", "check": "", "apply": "tenants/acme"} {
		if r := access(t, g, verb, resource); r.Allowed {
			t.Errorf("%s %s is allowed", verb, resource)
		}
	}
	_, err := g.Unary(caller("spiffe://x/two"), &quotav1.TopRequest{}, &grpc.UnaryServerInfo{FullMethod: quotaService + "Top"}, nil)
	if want := "it may read tenants/acme, tenants/bolt"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// access returns the answer of GetAccess to a viewer of acme.
func access(t *testing.T, g *Guard, verb, resource string) *quotav1.GetAccessResponse {
	t.Helper()
	r := &quotav1.GetAccessRequest{Verb: verb, Resource: resource}
	out, err := g.Unary(caller("spiffe://x/one"), r,
		&grpc.UnaryServerInfo{FullMethod: "/titrate.quota.v1alpha1.AccessService/GetAccess"},
		func(ctx context.Context, _ any) (any, error) { return NewServer(g).GetAccess(ctx, r) })
	if err != nil {
		t.Fatal(err)
	}
	return out.(*quotav1.GetAccessResponse)
}
