package kubernetes

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/e2e/guide"
)

// gatewayImage is the name that an Envoy Gateway built from its module has for its own image.
const gatewayImage = "envoyproxy/gateway-dev:latest"

// The configuration of Envoy Gateway's Envoys, besides the guide's resources.
const (
	gatewayDocuments = `
{apiVersion: titrate.dev/v1alpha1, kind: Pool, name: pools/api, spec: {capacity: 300}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/acme, spec: {weight: 1}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/acme/limits/per-client, spec: {rate: 1/min, burst: 20}}
`
	gatewayClass = `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: eg}
spec:
  controllerName: gateway.envoyproxy.io/gatewayclass-controller
  parametersRef: {group: gateway.envoyproxy.io, kind: EnvoyProxy, name: titrate, namespace: envoy-gateway-system}
`
	globalLimit = `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: global, namespace: default}
spec:
  parentRefs: [{name: eg}]
  rules:
  - matches: [{path: {type: PathPrefix, value: /global}}]
    backendRefs: [{name: upstream, port: 80}]
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: BackendTrafficPolicy
metadata: {name: limits, namespace: default}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: global}]
  rateLimit:
    type: Global
    global:
      rules:
      - clientSelectors: [{headers: [{name: x-client, type: Distinct}]}]
        limit: {requests: 5, unit: Hour}
`
)

// ownImage has the Envoys be of the image that is here.
const ownImage = `
kubectl -n envoy-gateway-system patch envoyproxy titrate --type merge -p \
  '{"spec": {"provider": {"kubernetes": {"envoyDeployment": {"container": {"image": "envoyproxy/envoy:v1.40.0"}}}}}}'
`

// gatewayProgram is Envoy Gateway's binary, or skips the test.
func gatewayProgram(t *testing.T) string {
	t.Helper()
	return given(t, "ENVOY_GATEWAY_BIN", "an envoy-gateway binary")
}

// envoyGateway installs Envoy Gateway by its own chart, with the agent as its rate limit service, and follows the
// guide. The Envoys that it makes have the module and an agent, and obey limits, policies and global limits.
func (in *installed) envoyGateway(t *testing.T) {
	dir := t.TempDir()
	in.installGateway(t, dir)
	write(t, dir+"/documents.yaml", gatewayDocuments)
	in.shell(t, dir, "--wait --timeout 5m --values "+abs(t, chart+"/values/trial.yaml")+
		" --set images.tag=dev,images.pullPolicy=Never --set-file bootstrap.documents="+dir+"/documents.yaml",
		strings.Join(guide.Blocks(t, gatewayPage, "Kubernetes", "sh"), "")+ownImage)
	backend := strings.ReplaceAll(upstream, "namespace: titrate", "namespace: default")
	in.shell(t, dir, "", "kubectl apply -f - <<'YAML'\n"+backend+"---"+gatewayClass+"---\n"+policies(t)+"---"+
		globalLimit+"YAML\n")
	url := in.gatewaysURL(t)
	retry(t, 3*time.Minute, func() error {
		if status, err := ask(t.Context(), http.DefaultClient, url, "probe"); err != nil || status != http.StatusOK {
			return fmt.Errorf("%s: status %d, %w", url, status, err)
		}
		return nil
	})
	admitted := func(path, client string, n int) (admitted int) {
		for range n {
			status, err := ask(t.Context(), http.DefaultClient, url+path, client)
			if err != nil || status != http.StatusOK && status != http.StatusTooManyRequests {
				t.Errorf("a request of %s: status %d, %v", client, status, err)
			}
			if status == http.StatusOK {
				admitted++
			}
		}
		return admitted
	}
	for _, c := range []struct {
		path, client   string
		asked, allowed int
	}{{"", "alice", 40, 20}, {"search", "bob", 5, 2}, {"global", "carol", 8, 5}} {
		n := admitted(c.path, c.client, c.asked)
		t.Logf("/%s: %d of %d admitted", c.path, n, c.asked)
		if n != c.allowed && n != c.allowed+1 { // one more, if this takes a minute
			t.Errorf("/%s: %d of %d requests were admitted, want %d", c.path, n, c.asked, c.allowed)
		}
	}
}

// installGateway installs Envoy Gateway by the chart of its module, with the configuration of the guide.
func (in *installed) installGateway(t *testing.T, dir string) {
	t.Helper()
	chart := dir + "/gateway-helm"
	if err := os.CopyFS(chart, os.DirFS(filepath.Join(gatewaysModule(t), "charts/gateway-helm"))); err != nil {
		t.Fatal(err)
	}
	values, err := os.ReadFile(chart + "/values.tmpl.yaml")
	if err != nil {
		t.Fatal(err)
	}
	write(t, chart+"/values.yaml", strings.NewReplacer("${GatewayImage}", "docker.io/"+gatewayImage,
		"${GatewayImagePullPolicy}", "IfNotPresent").Replace(string(values)))
	var config strings.Builder
	for line := range strings.Lines(strings.Join(guide.Blocks(t, gatewayPage, "Its rate limit service", "yaml"), "")) {
		config.WriteString("    " + line)
	}
	write(t, dir+"/gateway.yaml", "config:\n  envoyGateway:\n"+config.String())
	in.shell(t, dir, "--wait --timeout 5m", "helm install eg "+chart+
		" --namespace envoy-gateway-system --create-namespace --values "+dir+"/gateway.yaml\n")
}

// shell runs commands with Helm and kubectl for the cluster; more are arguments that each helm has besides.
func (in *installed) shell(t *testing.T, dir, more, commands string) {
	t.Helper()
	root := abs(t, "../..")
	before := fmt.Sprintf(`export KUBECONFIG=%s
helm() { local all=("$@"); (cd %[2]s/tools/helm && GOWORK=off go tool helm "${all[@]/#charts\//%[2]s/charts/}" %s); }
`, in.kubeconfig, root, more)
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", before+commands)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "HELM_CACHE_HOME="+dir)
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s\n%s", err, commands, said)
	}
}

// policies are the guide's Gateway, routes and policies, with a Service in place of the address.
func policies(t *testing.T) string {
	t.Helper()
	var kept []string
	for _, part := range [][2]string{{"To try it", "gateway"}, {"Standalone", "policies"}} {
		heading, file := part[0], part[1]
		commands := strings.Join(guide.Blocks(t, gatewayPage, heading, "sh"), "")
		found := regexp.MustCompile(`(?s)>resources/` + file + `.yaml <<'YAML'\n(.*?)\nYAML\n`).FindStringSubmatch(commands)
		if found == nil {
			t.Fatalf("%s writes no resources/%s.yaml", gatewayPage, file)
		}
		for _, document := range strings.Split(found[1], "\n---\n") {
			if !strings.Contains(document, "kind: Backend\n") && !strings.Contains(document, "kind: GatewayClass\n") {
				kept = append(kept, document)
			}
		}
	}
	return strings.ReplaceAll(strings.Join(kept, "\n---\n"), "{group: gateway.envoyproxy.io, kind: Backend, name: api}",
		"{name: upstream, port: 80}") + "\n"
}

// gatewaysURL waits for the Service that Envoy Gateway makes for the Gateway.
func (in *installed) gatewaysURL(t *testing.T) (url string) {
	t.Helper()
	retry(t, time.Minute, func() error {
		var services struct {
			Items []struct{ Spec struct{ ClusterIP string } }
		}
		in.get(t, "/api/v1/namespaces/envoy-gateway-system/services?labelSelector="+
			"gateway.envoyproxy.io%2Fowning-gateway-name%3Deg", &services)
		if len(services.Items) != 1 {
			return fmt.Errorf("%d Services of the Gateway", len(services.Items))
		}
		url = "http://" + services.Items[0].Spec.ClusterIP + ":8888/"
		return nil
	})
	return url
}
