package kubernetes

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/e2e/guide"
)

const gatewayPage = "../../docs/envoy-gateway.md"

// gatewaysModule is the directory of Envoy Gateway's Go module, which has its charts.
func gatewaysModule(t *testing.T) string {
	t.Helper()
	version := os.Getenv("ENVOY_GATEWAY")
	if version == "" {
		t.Fatal("ENVOY_GATEWAY is not set to a version of Envoy Gateway; `make e2e-k8s` sets it")
	}
	cmd := exec.Command("go", "mod", "download", "-json", "github.com/envoyproxy/gateway@v"+version)
	cmd.Env, cmd.Dir = append(os.Environ(), "GOWORK=off"), t.TempDir()
	said, err := cmd.Output()
	var module struct{ Dir string }
	if err != nil || json.Unmarshal(said, &module) != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, said)
	}
	return module.Dir
}

// define adds a type of Envoy Gateway's, as its chart has it, and returns when the API server serves it.
func (c *cluster) define(t *testing.T, types string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(gatewaysModule(t), "charts/gateway-helm/charts/crds/crds/generated",
		"gateway.envoyproxy.io_"+types+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	c.create(t, path, objects(t, strings.TrimPrefix(string(text), "---\n"))[0].raw)
	retry(t, time.Minute, func() error {
		said := c.call(t, admin, http.MethodGet, "/apis/gateway.envoyproxy.io/v1alpha1/"+types, nil)
		if said.code != http.StatusOK {
			return fmt.Errorf("%d %s", said.code, said.text)
		}
		return nil
	})
}

// The API server takes the resources of docs/envoy-gateway.md by Envoy Gateway's definitions. The commands run
// without a cluster: kubectl prints its requests.
func TestEnvoyGatewaysResources(t *testing.T) {
	c := start(t)
	const namespace = "envoy-gateway-system"
	c.namespace(t, namespace)
	c.define(t, "envoyproxies")
	dir := t.TempDir()
	write(t, dir+"/patch.yaml", c.sidecar(t, "envoy-*"))
	const before = `helm() { :; }
kubectl() { case "$*" in *get*) cat patch.yaml;; *) cat;; esac; }
`
	cmd := exec.Command("bash", "-euc",
		before+strings.Join(guide.Blocks(t, gatewayPage, "Kubernetes", "sh"), ""))
	cmd.Dir = dir
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	all := objects(t, string(said))
	if len(all) != 1 || !strings.Contains(string(said), "titrate-agent") {
		t.Fatalf("%d objects, want an EnvoyProxy with the patch:\n%s", len(all), said)
	}
	c.checkTaken(t, all[0])
}
