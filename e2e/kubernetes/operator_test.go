package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/kubernetes"
	"github.com/titrate/titrate/services/operator"
	"github.com/titrate/titrate/services/quota"
	"github.com/titrate/titrate/services/quota/quotatest"
	"github.com/titrate/titrate/services/store/storetest"
)

// operated is a cluster with the chart's definitions and rights, and a coordinator's API.
type operated struct {
	*cluster
	token string // of the operator's account
	api   quotav1.QuotaServiceClient
}

// withOperator installs the chart's objects for the operator.
func withOperator(t *testing.T) *operated {
	t.Helper()
	w := &operated{cluster: start(t), api: quotatest.Client(t, quota.New(storetest.Open(t), nil))}
	w.namespace(t, "titrate")
	for _, template := range []string{"crds", "operator"} {
		for _, o := range objects(t, w.render(t, "--set=crds.enabled=true,operator.enabled=true",
			"--show-only=templates/"+template+".yaml")) {
			if o.Kind != "Deployment" {
				w.create(t, o.path(), o.raw)
			}
		}
	}
	w.token = w.tokenOf(t, "demo-operator")
	return w
}

// operate runs an operator until the returned function is called.
func (w *operated) operate(t *testing.T, name string) (stop func()) {
	t.Helper()
	o := operator.New(operator.Options{API: w.api, Set: "kubernetes", Name: name, Resync: 2 * time.Second,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Cluster: &kubernetes.Cluster{Server: w.url,
			Namespace: "titrate", Client: w.client, Token: func() (string, error) { return w.token, nil }}})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); o.Run(ctx) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

const customs = "/apis/titrate.dev/v1alpha1/"

// put creates a custom resource.
func (w *operated) put(t *testing.T, kinds, name, resource string, spec map[string]any) {
	t.Helper()
	kind := strings.ToUpper(kinds[:1]) + strings.TrimSuffix(kinds[1:], "s")
	w.create(t, customs+kinds+"?fieldValidation=Strict", map[string]any{"apiVersion": "titrate.dev/v1alpha1",
		"kind": kind, "metadata": map[string]any{"name": name}, "name": resource, "spec": spec})
}

// edit changes the spec of a custom resource.
func (w *operated) edit(t *testing.T, kinds, name string, spec map[string]any) {
	t.Helper()
	request := map[string]any{}
	w.get(t, customs+kinds+"/"+name, &request)
	request["spec"] = spec
	if said := w.call(t, admin, http.MethodPut, customs+kinds+"/"+name, request); said.code != http.StatusOK {
		t.Fatalf("PUT %s %s: %d %s", kinds, name, said.code, said.text)
	}
}

func (w *operated) remove(t *testing.T, kinds, name string) {
	t.Helper()
	if said := w.call(t, admin, http.MethodDelete, customs+kinds+"/"+name, nil); said.code != http.StatusOK {
		t.Fatalf("DELETE %s %s: %d %s", kinds, name, said.code, said.text)
	}
}

// says waits until a custom resource has the condition InForce with a reason, for its generation, and a text.
func (w *operated) says(t *testing.T, kinds, name, truth, reason string, words ...string) {
	t.Helper()
	retry(t, 30*time.Second, func() error {
		var o struct {
			Metadata struct{ Generation int64 }
			Status   struct {
				ObservedGeneration int64
				Conditions         []struct{ Type, Status, Reason, Message string }
			}
		}
		w.get(t, customs+kinds+"/"+name, &o)
		if len(o.Status.Conditions) != 1 || o.Status.ObservedGeneration != o.Metadata.Generation {
			return fmt.Errorf("%s %s: %+v", kinds, name, o)
		}
		c := o.Status.Conditions[0]
		if c.Type != "InForce" || c.Status != truth || c.Reason != reason {
			return fmt.Errorf("%s %s: %+v, want %s %s", kinds, name, c, truth, reason)
		}
		for _, word := range words {
			if !strings.Contains(c.Message, word) {
				return fmt.Errorf("%s %s says %q, without %q", kinds, name, c.Message, word)
			}
		}
		return nil
	})
}

// gone waits until a custom resource is gone.
func (w *operated) gone(t *testing.T, kinds, name string) {
	t.Helper()
	retry(t, 30*time.Second, func() error {
		if said := w.call(t, admin, http.MethodGet, customs+kinds+"/"+name, nil); said.code != http.StatusNotFound {
			return fmt.Errorf("%s %s is still there: %s", kinds, name, said.text)
		}
		return nil
	})
}

// rate is the rate of the limit that the coordinator has, "" without.
func (w *operated) rate(t *testing.T, name string) string {
	t.Helper()
	l, err := w.api.GetLimit(t.Context(), &quotav1.GetLimitRequest{Name: name})
	if status.Code(err) == codes.NotFound {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return l.GetRate()
}

// Custom resources are the coordinator's configuration, with no more rights than the chart gives the operator.
// Their status has what is in force, and the reason if something is not; another operator takes over.
func TestOperator(t *testing.T) {
	w := withOperator(t)
	const limit = "tenants/acme/limits/per-client"
	stop := w.operate(t, "first")

	// What others need may come last.
	w.put(t, "limits", "acme-per-client", limit,
		map[string]any{"rate": "100/min", "queue": map[string]any{"maxWait": "1s"}})
	w.says(t, "limits", "acme-per-client", "False", "Refused", "tenants/acme")
	w.put(t, "tenants", "acme", "tenants/acme", map[string]any{"weight": 2})
	w.put(t, "pools", "api", "pools/api", map[string]any{"capacity": 300, "sharing": "MAX_MIN"})
	w.put(t, "quotas", "acme-api", "tenants/acme/quotas/api", map[string]any{"guaranteed": 20})
	for _, o := range [][2]string{{"limits", "acme-per-client"}, {"tenants", "acme"}, {"pools", "api"},
		{"quotas", "acme-api"}} {
		w.says(t, o[0], o[1], "True", "Applied")
	}
	stored, err := w.api.GetLimit(t.Context(), &quotav1.GetLimitRequest{Name: limit})
	if err != nil || stored.GetRate() != "100/min" || stored.GetSet() != "kubernetes" ||
		stored.GetQueue().GetMaxWait().GetSeconds() != 1 {
		t.Errorf("%v %v", stored, err)
	}

	// A wrong spec does not change the configuration in force.
	w.edit(t, "limits", "acme-per-client", map[string]any{"rate": "fast"})
	w.says(t, "limits", "acme-per-client", "False", "Invalid", "spec.rate: ", "stays in force")
	if rate := w.rate(t, limit); rate != "100/min" {
		t.Errorf("rate %q", rate)
	}
	w.edit(t, "limits", "acme-per-client", map[string]any{"rate": "200/min"})
	w.says(t, "limits", "acme-per-client", "True", "Applied")

	w.conflicts(t, limit)

	// Changes by other means are reverted.
	changed := &quotav1.Limit{Name: limit, Rate: "5/s"}
	if _, err := w.api.UpdateLimit(t.Context(), &quotav1.UpdateLimitRequest{Limit: changed}); err != nil {
		t.Fatal(err)
	}
	retry(t, 30*time.Second, func() error {
		if rate := w.rate(t, limit); rate != "200/min" {
			return fmt.Errorf("rate %q", rate)
		}
		return nil
	})

	// While no operator runs a change waits; the next one makes it.
	stop()
	w.edit(t, "limits", "acme-per-client", map[string]any{"rate": "300/min"})
	w.remove(t, "quotas", "acme-api")
	w.operate(t, "second")
	w.says(t, "limits", "acme-per-client", "True", "Applied")
	w.gone(t, "quotas", "acme-api")
	if rate := w.rate(t, limit); rate != "300/min" {
		t.Errorf("rate %q after a restart", rate)
	}
	w.deletions(t, limit)
}

// conflicts has two objects for one resource, and an object for a resource of another set.
func (w *operated) conflicts(t *testing.T, limit string) {
	t.Helper()
	w.put(t, "limits", "twin", limit, map[string]any{"rate": "1/s"})
	w.says(t, "limits", "twin", "False", "Conflict", limit, "Limit acme-per-client")
	if rate := w.rate(t, limit); rate != "200/min" {
		t.Errorf("rate %q", rate)
	}
	w.remove(t, "limits", "twin")
	w.gone(t, "limits", "twin")
	if rate := w.rate(t, limit); rate != "200/min" {
		t.Errorf("rate %q after the twin is gone", rate)
	}
	const other = "tenants/acme/limits/by-hand"
	theirs := &quotav1.Resource{Kind: &quotav1.Resource_Limit{Limit: &quotav1.Limit{Name: other, Rate: "7/s"}}}
	request := &quotav1.ApplyRequest{Set: "git", Resources: []*quotav1.Resource{theirs}}
	if _, err := w.api.Apply(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	w.put(t, "limits", "by-hand", other, map[string]any{"rate": "1/s"})
	w.says(t, "limits", "by-hand", "False", "Conflict", "another set: git")
	w.remove(t, "limits", "by-hand")
	w.gone(t, "limits", "by-hand")
	if rate := w.rate(t, other); rate != "7/s" {
		t.Errorf("rate %q of another set", rate)
	}
	if _, err := w.api.DeleteLimit(t.Context(), &quotav1.DeleteLimitRequest{Name: other}); err != nil {
		t.Fatal(err)
	}
}

// deletions deletes a tenant that a limit needs: it stays until the limit is gone.
func (w *operated) deletions(t *testing.T, limit string) {
	t.Helper()
	w.remove(t, "tenants", "acme")
	w.says(t, "tenants", "acme", "True", "DeletionRefused", limit)
	w.remove(t, "limits", "acme-per-client")
	w.gone(t, "limits", "acme-per-client")
	w.gone(t, "tenants", "acme")
	_, err := w.api.GetTenant(t.Context(), &quotav1.GetTenantRequest{Name: "tenants/acme"})
	if status.Code(err) != codes.NotFound {
		t.Errorf("the tenant: %v", err)
	}
	if _, err := w.api.GetPool(t.Context(), &quotav1.GetPoolRequest{Name: "pools/api"}); err != nil {
		t.Errorf("the pool, which was not deleted: %v", err)
	}
}

// The name of a resource cannot be changed, and the API server refuses unknown fields of a spec.
func TestDefinitionsRefuse(t *testing.T) {
	w := withOperator(t)
	w.put(t, "pools", "api", "pools/api", map[string]any{"capacity": 300})
	said := w.call(t, admin, http.MethodPatch, customs+"pools/api", nil)
	if said.code/100 == 2 {
		t.Errorf("a strategic patch of a custom resource: %d", said.code)
	}
	request := map[string]any{}
	w.get(t, customs+"pools/api", &request)
	request["name"] = "pools/other"
	said = w.call(t, admin, http.MethodPut, customs+"pools/api", request)
	if said.code != http.StatusUnprocessableEntity || !strings.Contains(said.text, "cannot be changed") {
		t.Errorf("another name: %d %s", said.code, said.text)
	}
	for want, spec := range map[string]map[string]any{
		"unknown field": {"capacity": 300, "capacitty": 2}, "Unsupported value": {"capacity": 300, "sharing": "FAIR"},
		"must be of type number": {"capacity": "300"},
	} {
		said := w.call(t, admin, http.MethodPost, customs+"pools?fieldValidation=Strict", map[string]any{
			"apiVersion": "titrate.dev/v1alpha1", "kind": "Pool", "metadata": map[string]any{"name": "wrong"},
			"name": "pools/wrong", "spec": spec})
		if said.code/100 != 4 || !strings.Contains(said.text, want) {
			t.Errorf("%v: %d %s, want %q", spec, said.code, said.text, want)
		}
	}
}

// Of two operators one leads; the other takes over when it stops.
func TestOneOperatorLeads(t *testing.T) {
	w := withOperator(t)
	stop := w.operate(t, "first")
	holder := func(want string) {
		t.Helper()
		retry(t, 40*time.Second, func() error {
			var lease struct {
				Spec struct{ HolderIdentity string }
			}
			said := w.call(t, admin, http.MethodGet,
				"/apis/coordination.k8s.io/v1/namespaces/titrate/leases/titrate-operator", nil)
			if err := json.Unmarshal([]byte(said.text), &lease); err != nil || lease.Spec.HolderIdentity != want {
				return fmt.Errorf("%s: %v, want %s", said.text, err, want)
			}
			return nil
		})
	}
	holder("first")
	w.operate(t, "second")
	w.put(t, "pools", "api", "pools/api", map[string]any{"capacity": 300})
	w.says(t, "pools", "api", "True", "Applied")
	holder("first")
	stop()
	holder("second")
	w.put(t, "pools", "web", "pools/web", map[string]any{"capacity": 300})
	w.says(t, "pools", "web", "True", "Applied")
}
