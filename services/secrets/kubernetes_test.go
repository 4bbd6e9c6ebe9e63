package secrets_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/titrate/titrate/services/kubernetes"
	"github.com/titrate/titrate/services/secrets"
)

// api answers what an API server does, as far as Kubernetes asks: it keeps what was applied.
// The suite of `make e2e-k8s` asks a real one.
func api(t *testing.T, objects map[string]map[string]any, calls *[]string) *secrets.Kubernetes {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, found := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/ns/secrets/")
		if !found || r.Header.Get("Authorization") != "Bearer token" {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"kind": "Status", "message": "not you"}`)
			return
		}
		*calls = append(*calls, r.Method+" "+name+" "+r.Header.Get("Content-Type"))
		if r.Method == http.MethodGet {
			if objects[name] == nil {
				w.WriteHeader(http.StatusNotFound)
			}
			_ = json.NewEncoder(w).Encode(objects[name])
			return
		}
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		if body["kind"] != nil {
			objects[name] = body
		} else {
			objects[name]["metadata"].(map[string]any)["annotations"] = body["metadata"].(map[string]any)["annotations"]
		}
	}))
	t.Cleanup(server.Close)
	return &secrets.Kubernetes{Cluster: &kubernetes.Cluster{Server: server.URL, Namespace: "ns",
		Token: func() (string, error) { return "token", nil }, Client: server.Client()},
		Labels: map[string]string{"app.kubernetes.io/instance": "demo"}}
}

func annotation(object map[string]any) any {
	annotations, _ := object["metadata"].(map[string]any)["annotations"].(map[string]any)
	return annotations["helm.sh/resource-policy"]
}

// Secrets are applied once, with the type and the mark that keep them, and then left alone.
func TestKubernetes(t *testing.T) {
	objects, calls := map[string]map[string]any{}, []string(nil)
	k := api(t, objects, &calls)
	made, _, err := secrets.Make(t.Context(), k, wanted)
	if err != nil || len(made) != 3 {
		t.Fatalf("made %v: %v", made, err)
	}
	for name, kind := range map[string]string{"server": "kubernetes.io/tls", "client": "kubernetes.io/tls",
		"gossip": "Opaque"} {
		if o := objects[name]; o["type"] != kind || annotation(o) != "keep" {
			t.Errorf("%s: type %v, annotation %v", name, o["type"], annotation(o))
		}
	}
	calls = nil
	if made, kept, err := secrets.Make(t.Context(), k, wanted); made != nil || len(kept) != 3 || err != nil {
		t.Errorf("made %v again, kept %v: %v", made, kept, err)
	}
	changes := slices.DeleteFunc(calls, func(c string) bool { return strings.HasPrefix(c, "GET") })
	if len(changes) > 0 {
		t.Errorf("the second time it changes something: %v", changes)
	}
}

// Secrets that Helm made before are marked, so that the upgrade which drops them leaves them.
func TestSecretsOfHelmAreKept(t *testing.T) {
	objects, calls := map[string]map[string]any{}, []string(nil)
	k := api(t, objects, &calls)
	if _, _, err := secrets.Make(t.Context(), k, wanted); err != nil {
		t.Fatal(err)
	}
	delete(objects["client"]["metadata"].(map[string]any), "annotations")
	made, _, err := secrets.Make(t.Context(), k, wanted)
	if made != nil || err != nil || annotation(objects["client"]) != "keep" {
		t.Errorf("made %v, annotation %v: %v", made, annotation(objects["client"]), err)
	}
}

// A refusal says what the API server said, and of which secret.
func TestKubernetesRefuses(t *testing.T) {
	var calls []string
	k := api(t, nil, &calls)
	k.Token = func() (string, error) { return "another", nil }
	_, _, err := secrets.Make(t.Context(), k, wanted)
	if err == nil || !strings.Contains(err.Error(), "secret server") || !strings.Contains(err.Error(), "not you") {
		t.Errorf("error: %v", err)
	}
}
