package coordinator_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/credentials/insecure"

	"github.com/titrate/titrate/envoy-filter/certtest"
	"github.com/titrate/titrate/services/coordinator"
	"github.com/titrate/titrate/services/rest"
	"github.com/titrate/titrate/services/store/storetest"
)

// web asks a coordinator over HTTP.
type web struct {
	t      testing.TB
	base   string
	client *http.Client
	token  string
}

func (w web) ask(method, path, body string) (int, string, http.Header) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.base+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if w.token != "" {
		r.Header.Set("Authorization", "Bearer "+w.token)
	}
	answer, err := w.client.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		w.t.Errorf("%s %s: %v: %s", method, path, err, text)
	}
	return answer.StatusCode, compact.String(), answer.Header
}

// operations are the names of all that the OpenAPI document has.
func operations(t *testing.T) map[string]bool {
	t.Helper()
	var document struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	if err := json.Unmarshal(rest.Document, &document); err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, methods := range document.Paths {
		for _, one := range methods {
			all[one.OperationID] = true
		}
	}
	return all
}

// Each operation of the OpenAPI document does over HTTP what it does over gRPC.
func TestRestDoesAllOfTheAPI(t *testing.T) {
	r := startWith(t, storetest.Shared(t).Endpoint, storetest.Prefix(t), "one", insecure.NewCredentials(),
		func(c *coordinator.Config) { c.Rest = "127.0.0.1:0" })
	w := web{t: t, base: "http://" + r.c.RestAddress(), client: http.DefaultClient}
	join(t, "x", map[string]float64{"acme": 10}, r.c.Address())
	for end := time.Now().Add(deadline); ; time.Sleep(20 * time.Millisecond) {
		status, body, _ := w.ask("GET", "/v1alpha1:top", "")
		if status == http.StatusOK {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("it does not know shares: %s", body)
		}
	}
	left := operations(t)
	first := ""
	for _, c := range []struct{ operation, method, path, body, want string }{
		{"QuotaService_CreatePool", "POST", "/pools", `{"name":"pools/api","capacity":300}`, `"capacity":300`},
		{"QuotaService_GetPool", "GET", "/pools/api", "", `"name":"pools/api"`},
		{"QuotaService_UpdatePool", "PATCH", "/pools/api", `{"capacity":200}`, `"capacity":200`},
		{"QuotaService_UpdatePool2", "PUT", "/pools/api", `{"capacity":100}`, `"capacity":100`},
		{"QuotaService_ListPools", "GET", "/pools?page_size=5", "", `"pools":[{"name":"pools/api"`},
		{"QuotaService_CreateTenant", "POST", "/tenants?tenantId=acme", `{"weight":2}`, `"name":"tenants/acme"`},
		{"QuotaService_GetTenant", "GET", "/tenants/acme", "", `"weight":2`},
		{"QuotaService_UpdateTenant", "PATCH", "/tenants/acme", `{"displayName":"A"}`, `"displayName":"A","weight":2`},
		{"QuotaService_UpdateTenant2", "PUT", "/tenants/new?allow_missing=true", `{"weight":1}`, `"name":"tenants/new"`},
		{"QuotaService_ListTenants", "GET", "/tenants", "", `tenants/new`},
		{"QuotaService_DeleteTenant", "DELETE", "/tenants/new", "", `{}`},
		{"QuotaService_CreateQuota", "POST", "/tenants/acme/quotas?quota_id=api", `{"max":50}`, `"max":50`},
		{"QuotaService_GetQuota", "GET", "/tenants/acme/quotas/api", "", `"max":50`},
		{"QuotaService_UpdateQuota", "PATCH", "/tenants/acme/quotas/api", `{"guaranteed":5}`, `"guaranteed":5,"max":50`},
		{"QuotaService_UpdateQuota2", "PUT", "/tenants/acme/quotas/api", `{"max":60}`, `"guaranteed":0,"max":60`},
		{"QuotaService_ListQuotas", "GET", "/tenants/*/quotas", "", `"quotas":[{"name":"tenants/acme/quotas/api"`},
		{"QuotaService_CreateLimit", "POST", "/tenants/-/limits", `{"name":"tenants/-/limits/l","rate":"9/s"}`, `"burst":9`},
		{"QuotaService_GetLimit", "GET", "/tenants/-/limits/l", "", `"rate":"9/s"`},
		{"QuotaService_UpdateLimit", "PATCH", "/tenants/-/limits/l", `{"rate":"8/s"}`, `"rate":"8/s","burst":9`},
		{"QuotaService_UpdateLimit2", "PUT", "/tenants/-/limits/l", `{"rate":"7/s"}`, `"burst":7`},
		{"QuotaService_ListLimits", "GET", "/tenants/-/limits", "", `tenants/-/limits/l`},
		{"QuotaService_DeleteLimit", "DELETE", "/tenants/-/limits/l", "", `{}`},
		{"QuotaService_DeleteQuota", "DELETE", "/tenants/acme/quotas/api", "", `{}`},
		{"QuotaService_CreatePlan", "POST", "/plans?plan_id=gold", `{"weight":2}`, `"name":"plans/gold"`},
		{"QuotaService_GetPlan", "GET", "/plans/gold", "", `"weight":2`},
		{"QuotaService_UpdatePlan", "PATCH", "/plans/gold", `{"displayName":"A"}`, `"displayName":"A","weight":2`},
		{"QuotaService_UpdatePlan2", "PUT", "/plans/gold", `{"weight":3}`, `"weight":3`},
		{"QuotaService_ListPlans", "GET", "/plans", "", `"plans":[{"name":"plans/gold"`},
		{"QuotaService_CreateQuota2", "POST", "/plans/gold/quotas?quota_id=api", `{"max":50}`, `"max":50`},
		{"QuotaService_GetQuota2", "GET", "/plans/gold/quotas/api", "", `"max":50`},
		{"QuotaService_UpdateQuota3", "PATCH", "/plans/gold/quotas/api", `{"guaranteed":5}`, `"guaranteed":5,"max":50`},
		{"QuotaService_UpdateQuota4", "PUT", "/plans/gold/quotas/api", `{"max":60}`, `"guaranteed":0,"max":60`},
		{"QuotaService_ListQuotas2", "GET", "/plans/*/quotas", "", `"quotas":[{"name":"plans/gold/quotas/api"`},
		{"QuotaService_CreateLimit2", "POST", "/plans/gold/limits?limit_id=l", `{"rate":"9/s"}`, `"burst":9`},
		{"QuotaService_GetLimit2", "GET", "/plans/gold/limits/l", "", `"rate":"9/s"`},
		{"QuotaService_UpdateLimit3", "PATCH", "/plans/gold/limits/l", `{"rate":"8/s"}`, `"rate":"8/s","burst":9`},
		{"QuotaService_UpdateLimit4", "PUT", "/plans/gold/limits/l", `{"rate":"7/s"}`, `"burst":7`},
		{"QuotaService_ListLimits2", "GET", "/plans/gold/limits", "", `plans/gold/limits/l`},
		{"QuotaService_DeleteLimit2", "DELETE", "/plans/gold/limits/l", "", `{}`},
		{"QuotaService_DeleteQuota2", "DELETE", "/plans/gold/quotas/api", "", `{}`},
		{"QuotaService_DeletePlan", "DELETE", "/plans/gold", "", `{}`},
		{"QuotaService_Plan", "POST", ":plan", `{"apply":{"resources":[{"pool":{"name":"pools/api","capacity":9}}]}}`,
			`"name":"cut-half"`},
		{"QuotaService_Apply", "POST", ":apply", `{"message":"more","resources":[{"tenant":{"name":"tenants/bolt"}},
			{"limit":{"name":"tenants/acme/limits/l","rate":"9/s"}}]}`, `"outcomes":["CREATED","CREATED"]`},
		{"QuotaService_Why", "GET", "/tenants/acme:why", "", `"explanations":[`},
		{"QuotaService_Top", "GET", ":top?selection.by=POOL&selection.most=3", "", `"agents":1`},
		{"QuotaService_GetBucket", "GET", "/tenants/acme/limits/l:bucket?client=a", "", `"gateways":[]`},
		{"QuotaService_GetPoolHistory", "GET", "/pools/api:history", "", `"samples":[]`},
		{"QuotaService_PlanBlock", "GET", "/tenants/acme:planBlock?client=a&until=2199-01-01T00:00:00Z", "",
			`limits/blocked/overrides/a","rate":"0"`},
		{"QuotaService_CreateOverride", "POST", "/tenants/acme/limits/l/overrides",
			`{"name":"tenants/acme/limits/l/overrides/a","rate":"8/s"}`, `"burst":8`},
		{"QuotaService_GetOverride", "GET", "/tenants/acme/limits/l/overrides/a", "", `"rate":"8/s"`},
		{"QuotaService_UpdateOverride", "PATCH", "/tenants/acme/limits/l/overrides/a", `{"rate":"7/s"}`, `"rate":"7/s"`},
		{"QuotaService_UpdateOverride2", "PUT", "/tenants/acme/limits/l/overrides/a", `{"rate":"6/s"}`, `"burst":6`},
		{"QuotaService_ListOverrides", "GET", "/tenants/acme/limits/l/overrides", "", `overrides/a`},
		{"QuotaService_ListOverrides2", "GET", "/tenants/acme/overrides", "", `overrides/a`},
		{"QuotaService_DeleteOverride", "DELETE", "/tenants/acme/limits/l/overrides/a", "", `{}`},
		{"QuotaService_FindDecisions", "GET", "/requests/some-id", "", `"decisions":[]`},
		{"QuotaService_ListGateways", "GET", "/gateways", "", `"gateways":[`},
		{"QuotaService_ListUsage", "GET", "/tenants/acme/usage?period=all", "", `"usage":[]`},
		{"QuotaService_Check", "GET", ":check", "", `"state":"OK"`},
		{"AccessService_GetAccess", "GET", ":access?verb=apply&resource=pools/api", "", `"allowed":true`},
		{"QuotaService_ListRevisions", "GET", "/revisions", "", `"message":"more"`},
		{"QuotaService_GetRevision", "GET", "/revisions/FIRST", "", `"after":{"pool":{"name":"pools/api"`},
		{"QuotaService_Rollback", "POST", "/revisions/FIRST:rollback", `{"message":"back"}`, `"name":"tenants/bolt"`},
		{"QuotaService_DeletePool", "DELETE", "/pools/api?force=true", "", `{}`},
	} {
		status, body, _ := w.ask(c.method, "/v1alpha1"+strings.ReplaceAll(c.path, "FIRST", first), c.body)
		if status != http.StatusOK || !strings.Contains(body, c.want) {
			t.Errorf("%s: %s %s: %d %s, want %s", c.operation, c.method, c.path, status, body, c.want)
		}
		if c.operation == "QuotaService_ListRevisions" {
			first = firstRevision(t, body)
		}
		if !left[c.operation] {
			t.Errorf("%s is not in the document, or twice here", c.operation)
		}
		delete(left, c.operation)
	}
	if len(left) > 0 {
		t.Errorf("not tried: %v", left)
	}
	if _, metrics := r.get("/metrics"); !strings.Contains(metrics, `titrate_rest_requests_total{`) ||
		!strings.Contains(metrics, `status="200"} `) {
		t.Error("titrate_rest_requests_total does not count")
	}
}

// firstRevision is the oldest of a list.
func firstRevision(t *testing.T, body string) string {
	t.Helper()
	var list struct{ Revisions []struct{ Revision string } }
	if err := json.Unmarshal([]byte(body), &list); err != nil || len(list.Revisions) == 0 {
		t.Fatalf("%v: %s", err, body)
	}
	return list.Revisions[len(list.Revisions)-1].Revision
}

// Over HTTP callers are who they are over gRPC, by certificate and by token: they may do the
// same, and history and audit name them.
func TestRestKnowsItsCallers(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(tokens, fmt.Appendf(nil,
		"tokens: [{name: ci, sha256: %x, role: editor, tenants: [acme], ceiling: {burst: 20}}, "+
			"{name: portal, sha256: %x, role: tenant-viewer, tenants: [acme]}]",
		sha256.Sum256([]byte("s")), sha256.Sum256([]byte("p"))), 0o600); err != nil {
		t.Fatal(err)
	}
	g := startGuarded(t, func(c *coordinator.Config) { c.Rest, c.Tokens = "127.0.0.1:0", tokens })
	g.apply(pool("api", 100), tenant("acme", 1), tenant("bolt", 1))
	as := func(token string, ids ...string) web {
		var cert, key string
		if len(ids) > 0 {
			cert, key = g.ca.Issue(t, ids...)
		}
		transport := &http.Transport{TLSClientConfig: certtest.Client(t, certtest.Bundle(t, g.ca), cert, key),
			ForceAttemptHTTP2: true}
		t.Cleanup(transport.CloseIdleConnections)
		return web{t, "https://" + g.c.RestAddress(), &http.Client{Transport: transport}, token}
	}
	ops := as("", "ops.example.org")
	for _, c := range []struct {
		who                web
		method, path, body string
		status             int
		want               string
	}{
		{ops, "PATCH", "/pools/api", `{"capacity":200}`, 200, `"capacity":200`},
		{as("", "spiffe://x/viewer"), "GET", "/pools", "", 200, "pools/api"},
		{as("", "spiffe://x/viewer"), "DELETE", "/pools/api", "", 403, "spiffe://x/viewer may not call DeletePool"},
		{as("", "spiffe://x/agent/a1"), "GET", "/pools", "", 403, "PERMISSION_DENIED"},
		{as("s"), "POST", "/tenants/acme/limits?limit_id=l", `{"rate":"10/s"}`, 200, `"burst":10`},
		{as("s"), "POST", "/tenants/bolt/limits?limit_id=l", `{"rate":"10/s"}`, 403, "token:ci may not call CreateLimit"},
		{as("s"), "PATCH", "/tenants/acme/limits/l", `{"burst":21}`, 403, "burst 21 is above 20"},
		{as("s", "ops.example.org"), "PATCH", "/pools/api", `{"capacity":1}`, 403, "token:ci"},
		{as("wrong", "ops.example.org"), "GET", "/pools", "", 401, "UNAUTHENTICATED"},
		{as(""), "GET", "/pools", "", 401, "no credentials"},
		{as(""), "POST", ":apply", `{"resources":[{"tenant":{"name":"tenants/x"}}]}`, 401, "no credentials"},
		{as("s"), "GET", ":access", "", 200, `"caller":"token:ci"`},
		{ops, "GET", "/revisions", "", 200, `"author":"token:ci"`},
		{as("p"), "GET", "/tenants", "", 200, `{"tenants":[{"name":"tenants/acme"`},
		{as("p"), "GET", "/tenants/acme/limits/l", "", 200, `"burst":10`},
		{as("p"), "GET", ":top", "", 503, "no agent is connected"},
		{as("p"), "GET", ":top?selection.tenant=bolt", "", 403, "token:portal may not call Top on tenants/bolt"},
		{as("p"), "GET", "/tenants/bolt", "", 403, "it may read tenants/acme"},
		{as("p"), "GET", "/tenants/nosuch/limits", "", 403, "token:portal may not call ListLimits"},
		{as("p"), "GET", "/pools/api", "", 403, "token:portal may not call GetPool"},
		{as("p"), "POST", ":plan", `{}`, 403, "token:portal may not call Plan"},
		{as("p"), "DELETE", "/tenants/acme/limits/l", "", 403, "token:portal may not call DeleteLimit"},
	} {
		status, body, header := c.who.ask(c.method, "/v1alpha1"+c.path, c.body)
		if status != c.status || !strings.Contains(body, c.want) || c.who.token == "p" && status == 200 &&
			strings.Contains(body, "bolt") {
			t.Errorf("%s %s: %d %s, want %d and %s", c.method, c.path, status, body, c.status, c.want)
		}
		if (status == 401) != (header.Get("WWW-Authenticate") == "Bearer") {
			t.Errorf("%s %s: %d with WWW-Authenticate %q", c.method, c.path, status, header.Get("WWW-Authenticate"))
		}
	}
	g.audited("ops.example.org", "updated", "pools/api", `"capacity":100`, `"capacity":200`)
	g.audited("token:ci", "created", "tenants/acme/limits/l", "", `"rate":"10/s"`)
	g.grant(strings.Replace(grants, "ops.example.org", "nobody.example.org", 1))
	if status, body, _ := ops.ask("GET", "/v1alpha1/pools", ""); status != 403 {
		t.Errorf("on a connection that is older than the policy: %d %s", status, body)
	}
}

// While callers are not known, requests name an address or the coordinator's host, wherever the ports listen: a port
// of a container listens at 0.0.0.0 and is published on loopback.
func TestHostsWhileCallersAreUnknown(t *testing.T) {
	r := startWith(t, storetest.Shared(t).Endpoint, storetest.Prefix(t), "one", insecure.NewCredentials(),
		func(c *coordinator.Config) {
			c.Rest, c.Console, c.Security.Insecure = "0.0.0.0:0", "0.0.0.0:0", true
			c.Advertise = "coordinator.example:7400"
		})
	for _, at := range []string{r.c.RestAddress(), r.c.ConsoleAddress()} {
		_, port, _ := strings.Cut(strings.TrimPrefix(at, "[::]"), ":")
		for host, want := range map[string]int{"evil.example": 403, "evil.example:" + port: 403,
			"localhost:" + port: 200, "127.0.0.1": 200, "10.1.2.3:7403": 200, "coordinator.example:7403": 200} {
			for _, one := range []struct{ method, path, body string }{
				{"GET", "/v1alpha1:access", ""}, {"POST", "/events", `{"paths":["/v1alpha1/pools"]}`},
			} {
				q, err := http.NewRequestWithContext(t.Context(), one.method, "http://127.0.0.1:"+port+one.path,
					strings.NewReader(one.body))
				if err != nil {
					t.Fatal(err)
				}
				q.Host = host
				a, err := http.DefaultClient.Do(q)
				if err != nil {
					t.Fatal(err)
				}
				a.Body.Close()
				if one.path == "/events" && at == r.c.RestAddress() {
					continue // the console's alone
				}
				if a.StatusCode != want {
					t.Errorf("%s %s of host %s: %d, want %d", at, one.path, host, a.StatusCode, want)
				}
			}
		}
	}
}
