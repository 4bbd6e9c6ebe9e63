package coordinator_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/titrate/titrate/envoy-filter/certtest"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/coordinator"
	"github.com/titrate/titrate/services/rest"
	"github.com/titrate/titrate/services/telemetry"
)

// portal says of every method what a token of a tenant's viewer gets. "no" is refused whatever it asks about, "all" is
// for everybody, "some" leaves others out of its answer. Of other methods it has the field of the request that names
// the tenant, and its value with %s for the tenant. A method that is not here fails the test.
var portal = map[string]string{
	"GetAccess": "all", "Ask": "all", // of itself; by the secret of coordinators
	"Connect":   "no",
	"GetTenant": "name=tenants/%s", "GetQuota": "name=tenants/%s/quotas/api", "GetLimit": "name=tenants/%s/limits/l",
	"GetOverride": "name=tenants/%s/limits/l/overrides/c", "ListQuotas": "parent=tenants/%s",
	"ListLimits": "parent=tenants/%s", "ListOverrides": "parent=tenants/%s", "ListUsage": "parent=tenants/%s",
	"Why": "tenant=tenants/%s", "Top": "selection.tenant=%s", "GetBucket": "name=tenants/%s/limits/l",
	"ListTenants": "some", "FindDecisions": "some",
	"CreatePool": "no", "GetPool": "no", "ListPools": "no", "UpdatePool": "no", "DeletePool": "no",
	"CreatePlan": "no", "GetPlan": "no", "ListPlans": "no", "UpdatePlan": "no", "DeletePlan": "no",
	"CreateTenant": "no", "UpdateTenant": "no", "DeleteTenant": "no",
	"CreateQuota": "no", "UpdateQuota": "no", "DeleteQuota": "no",
	"CreateLimit": "no", "UpdateLimit": "no", "DeleteLimit": "no",
	"CreateOverride": "no", "UpdateOverride": "no", "DeleteOverride": "no",
	"Apply": "no", "Plan": "no", "PlanBlock": "no", "Rollback": "no", "ListRevisions": "no", "GetRevision": "no",
	"Check": "no", "ListGateways": "no", "GetPoolHistory": "no",
}

// startPortal is a coordinator with one port for all, and resources of acme and bolt. The token p views acme.
func startPortal(t *testing.T) *guarded {
	tokens := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(tokens, fmt.Appendf(nil,
		"tokens: [{name: portal, sha256: %x, role: tenant-viewer, tenants: [acme]}]", sha256.Sum256([]byte("p"))),
		0o600); err != nil {
		t.Fatal(err)
	}
	g := startGuarded(t, func(c *coordinator.Config) { c.Rest, c.Tokens, c.ListenAgents = "127.0.0.1:0", tokens, "" })
	g.apply(pool("api", 100))
	for _, of := range []string{"acme", "bolt"} {
		override := &quotav1.Override{Name: "tenants/" + of + "/limits/l/overrides/c", Rate: "1/s"}
		g.apply(tenant(of, 1), quota(of, "api", 1), limit(of), &quotav1.Resource{
			Kind: &quotav1.Resource_Override{Override: override}})
	}
	return g
}

// A token that views one tenant is tried with every method of every service of ours: about its tenant, another one, all
// and nothing. It gets what portal says, and never a word about the other tenant.
func TestATenantsTokenAgainstEveryMethod(t *testing.T) {
	g := startPortal(t)
	anonymous, err := telemetry.Security{CA: certtest.Bundle(t, g.ca)}.ClientCredentials()
	if err != nil {
		t.Fatal(err)
	}
	p := &portalCaller{t: t, conn: g.dial(g.c.Address(), anonymous)}
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			if service := file.Services().Get(i); strings.HasPrefix(string(service.FullName()), "titrate.") {
				for j := range service.Methods().Len() {
					p.try(service.Methods().Get(j))
				}
			}
		}
		return true
	})
	if p.tried != len(portal) {
		t.Errorf("%d methods are tried, %d are in the table", p.tried, len(portal))
	}
}

type portalCaller struct {
	t     *testing.T
	conn  *grpc.ClientConn
	tried int
}

func (p *portalCaller) try(method protoreflect.MethodDescriptor) {
	may, is := portal[string(method.Name())]
	if !is {
		p.t.Errorf("%s: say in portal what a tenant's token gets", method.FullName())
		return
	}
	p.tried++
	if method.IsStreamingClient() || method.IsStreamingServer() {
		if code := p.stream(method); (code == codes.PermissionDenied) != (may == "no") {
			p.t.Errorf("stream %s: %v, want %q", method.Name(), code, may)
		}
		return
	}
	for _, of := range []string{"acme", "bolt", "-", "*", ""} {
		request := dynamicpb.NewMessage(method.Input())
		for _, field := range []string{"name", "parent", "tenant", "pool"} { // of what it has
			setText(request, field, "tenants/"+of)
		}
		field, value, own := strings.Cut(may, "=")
		if own && of == "" {
			value = ""
		}
		if own {
			setText(request, field, strings.Replace(value, "%s", of, 1))
		}
		answer, err := p.call(method, request)
		refused := may == "no" || own && of != "acme" && of != ""
		if (status.Code(err) == codes.PermissionDenied) != refused && may != "all" {
			p.t.Errorf("%s of %q: %v, want refused: %v", method.Name(), of, err, refused)
		}
		if of != "bolt" && strings.Contains(answer+fmt.Sprint(err), "bolt") {
			p.t.Errorf("%s of %q shows the other tenant: %s, %v", method.Name(), of, answer, err)
		}
	}
}

func (p *portalCaller) call(method protoreflect.MethodDescriptor, request *dynamicpb.Message) (string, error) {
	answer := dynamicpb.NewMessage(method.Output())
	err := p.conn.Invoke(bearer(p.t.Context()), path(method), request, answer)
	return protojson.Format(answer), err
}

func (p *portalCaller) stream(method protoreflect.MethodDescriptor) codes.Code {
	s, err := p.conn.NewStream(bearer(p.t.Context()), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
		path(method))
	if err == nil {
		err = s.RecvMsg(dynamicpb.NewMessage(method.Output()))
	}
	return status.Code(err)
}

func bearer(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer p")
}

func path(method protoreflect.MethodDescriptor) string {
	return fmt.Sprintf("/%s/%s", method.Parent().FullName(), method.Name())
}

// setText sets the text at a path of fields, if the message has it.
func setText(m protoreflect.Message, path, text string) {
	first, rest, nested := strings.Cut(path, ".")
	switch f := m.Descriptor().Fields().ByName(protoreflect.Name(first)); {
	case f == nil:
	case nested:
		setText(m.Mutable(f).Message(), rest, text)
	case f.Kind() == protoreflect.StringKind && !f.IsList():
		m.Set(f, protoreflect.ValueOfString(text))
	}
}

// named has values of the variables in paths, but for the tenant.
var named = strings.NewReplacer("{limit}", "l", "{override}", "c", "{revision}", "1", "{pool}", "api", "{quota}", "api",
	"{plan}", "api", "{request}", "api")

// The same token is tried with every path of the OpenAPI document, for its tenant and the other one.
func TestATenantsTokenAgainstEveryPath(t *testing.T) {
	g := startPortal(t)
	transport := &http.Transport{TLSClientConfig: certtest.Client(t, certtest.Bundle(t, g.ca), "", "")}
	t.Cleanup(transport.CloseIdleConnections)
	w := web{t, "https://" + g.c.RestAddress(), &http.Client{Transport: transport}, "p"}
	var document struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	if err := json.Unmarshal(rest.Document, &document); err != nil {
		t.Fatal(err)
	}
	tried := map[string]bool{}
	for template, methods := range document.Paths {
		for verb, operation := range methods {
			_, method, _ := strings.Cut(strings.TrimRight(operation.OperationID, "0123456789"), "_")
			may, is := portal[method]
			if !is {
				t.Errorf("%s: say in portal what a tenant's token gets", operation.OperationID)
			}
			tried[method] = true
			for _, of := range []string{"acme", "bolt", "*"} {
				at := named.Replace(strings.Replace(template, "{tenant}", of, 1))
				if method == "Top" {
					at += "?selection.tenant=" + of
				}
				sent := "{}"
				if verb == "get" || verb == "delete" {
					sent = ""
				}
				code, body, _ := w.ask(strings.ToUpper(verb), at, sent)
				refused := may == "no" || strings.Contains(may, "=") && of != "acme" ||
					strings.HasPrefix(template, "/v1alpha1/plans/")
				if (code == http.StatusForbidden) != refused {
					t.Errorf("%s %s: %d %s, want refused: %v", verb, at, code, body, refused)
				}
				if of != "bolt" && strings.Contains(body, "bolt") {
					t.Errorf("%s %s shows the other tenant: %s", verb, at, body)
				}
			}
		}
	}
	for method := range portal {
		if !tried[method] && !slices.Contains([]string{"Connect", "Ask"}, method) {
			t.Errorf("%s has no path", method)
		}
	}
}
