package kubernetes

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/services/kubernetes"
	"github.com/titrate/titrate/services/secrets"
)

const secretsPath = "/api/v1/namespaces/titrate/secrets"

// ofTheJob renders the chart, creates the Job's account with its rights, and speaks as this account.
func (c *cluster) ofTheJob(t *testing.T) *secrets.Kubernetes {
	t.Helper()
	for _, o := range objects(t, c.render(t, "--show-only", "templates/secrets.yaml")) {
		if o.Kind != "Job" {
			c.create(t, o.path(), o.raw)
		}
	}
	token := c.tokenOf(t, "demo-secrets")
	k := &secrets.Kubernetes{Cluster: &kubernetes.Cluster{Server: c.url, Namespace: "titrate", Client: c.client,
		Token: func() (string, error) { return token, nil }},
		Labels: map[string]string{"app.kubernetes.io/instance": "demo"}}
	retry(t, 20*time.Second, func() error { // until the authorizer has the new role
		_, err := k.Has(t.Context(), "demo-tls")
		return err
	})
	return k
}

// The Job's account may make the secrets of the chart, and look at no others. What is there stays.
func TestSecretsWithTheRightsOfTheJob(t *testing.T) {
	c := start(t)
	c.namespace(t, "titrate")
	// A secret that an earlier release of the chart made, as a part of the release.
	c.create(t, secretsPath, map[string]any{"type": "Opaque", "metadata": map[string]any{
		"name": "demo-gossip"}, "data": map[string]any{"gossip.key": []byte("kept")}})
	k := c.ofTheJob(t)
	wanted := secrets.Wanted{GossipKeys: []string{"demo-gossip"}, Certificates: []secrets.Certificate{
		{Secret: "demo-tls", Names: []string{"localhost"}}, {Secret: "demo-agent-tls", Names: []string{"agents"}}}}
	made, kept, err := secrets.Make(t.Context(), k, wanted)
	if err != nil || !slices.Equal(made, []string{"demo-tls", "demo-agent-tls"}) ||
		!slices.Equal(kept, []string{"demo-gossip"}) {
		t.Errorf("made %v, kept %v: %v", made, kept, err)
	}
	if made, kept, err := secrets.Make(t.Context(), k, wanted); err != nil || made != nil || len(kept) != 3 {
		t.Errorf("the second time: made %v, kept %v: %v", made, kept, err)
	}
	said := c.call(t, admin, http.MethodGet, secretsPath+"/demo-gossip", nil)
	if !strings.Contains(said.text, `"helm.sh/resource-policy":"keep"`) {
		t.Errorf("Helm would delete it: %s", said.text)
	}
	var certificate struct{ Type string }
	if c.get(t, secretsPath+"/demo-tls", &certificate); certificate.Type != "kubernetes.io/tls" {
		t.Errorf("demo-tls has type %s", certificate.Type)
	}
	for _, name := range []string{"somebody-elses", "demo-gossip2"} {
		_, _, err = secrets.Make(t.Context(), k, secrets.Wanted{GossipKeys: []string{name}})
		if err == nil || !strings.Contains(err.Error(), "forbidden") {
			t.Errorf("%s, which is not the chart's: %v", name, err)
		}
	}
}
