package kubernetes

import (
	"cmp"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const chart = "../../charts/titrate"

// object has the fields of all kinds of objects.
type object struct {
	APIVersion, Kind string
	Metadata         struct{ Name, Namespace string }
	raw              map[string]any
}

// objects reads YAML documents.
func objects(t *testing.T, text string) (all []object) {
	t.Helper()
	for _, document := range strings.Split(text, "\n---\n") {
		raw, err := yaml.YAMLToJSON([]byte(document))
		if err != nil {
			t.Fatal(err)
		}
		var o object
		if err := json.Unmarshal(raw, &o); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, &o.raw); err != nil {
			t.Fatal(err)
		}
		if o.Kind != "" {
			all = append(all, o)
		}
	}
	return all
}

// path returns the path of objects of this kind: of the cluster, in the object's namespace or in titrate.
func (o object) path() string {
	api := "/apis/" + o.APIVersion
	if o.APIVersion == "v1" {
		api = "/api/v1"
	}
	kinds := strings.ToLower(o.Kind) + "s"
	if stem, ok := strings.CutSuffix(kinds, "ys"); ok {
		kinds = stem + "ies"
	}
	if o.Kind == "CustomResourceDefinition" || strings.HasPrefix(o.Kind, "Cluster") {
		return api + "/" + kinds
	}
	return api + "/namespaces/" + cmp.Or(o.Metadata.Namespace, "titrate") + "/" + kinds
}

// ofOthers are objects whose types come with cert-manager and Prometheus Operator, which are not here.
func (o object) ofOthers() bool {
	return strings.HasPrefix(o.APIVersion, "cert-manager.io/") || strings.HasPrefix(o.APIVersion, "monitoring.coreos.com/")
}

// checkTaken checks that the API server would create an object, accepts each of its fields and gives no
// warning. The DaemonSet uses a directory of its node, so the server warns that a restricted namespace would
// not admit its pods.
func (c *cluster) checkTaken(t *testing.T, o object) {
	t.Helper()
	said := c.call(t, admin, http.MethodPost, o.path()+"?dryRun=All&fieldValidation=Strict", o.raw)
	warnings := said.warnings
	if o.Kind == "DaemonSet" {
		warnings = slices.DeleteFunc(warnings, func(w string) bool { return strings.Contains(w, "PodSecurity") })
	}
	if said.code != http.StatusCreated || len(warnings) != 0 {
		t.Errorf("%s %s: %d %s %q", o.Kind, o.Metadata.Name, said.code, said.text, warnings)
	}
}

// render renders the chart as Helm would for the API server's version.
func (c *cluster) render(t *testing.T, args ...string) string {
	t.Helper()
	var server struct{ GitVersion string }
	c.get(t, "/version", &server)
	return c.helm(t, append([]string{"template", "demo", abs(t, chart), "--kube-version", server.GitVersion}, args...)...)
}

// The API server takes every object of every set of values.
func TestEveryObjectIsTaken(t *testing.T) {
	c := start(t)
	c.namespace(t, "titrate")
	files, err := filepath.Glob(chart + "/values/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	cases := map[string][]string{"defaults": nil}
	for _, file := range append(files, "../charts/testdata/everything.yaml") {
		cases[filepath.Base(file)] = []string{"--values", abs(t, file)}
	}
	for name, args := range cases {
		t.Run(name, func(t *testing.T) {
			rendered := c.render(t, args...)
			taken := 0
			for _, o := range objects(t, rendered) {
				if !o.ofOthers() {
					c.checkTaken(t, o)
					taken++
				}
			}
			if taken < 8 {
				t.Errorf("%d objects", taken)
			}
		})
	}
}

// A privileged pod, an unknown field and a wrong type are refused: so the checks above mean something.
func TestWhatIsWrongIsNotTaken(t *testing.T) {
	c := start(t)
	c.namespace(t, "titrate")
	for want, document := range map[string]string{
		"violates PodSecurity": "kind: Pod, spec: {containers: [{name: a, image: a}]}",
		"unknown field":        "kind: ConfigMap, dat: {}",
		"quantities must":      "kind: PersistentVolumeClaim, spec: {resources: {requests: {storage: 1Q1}}}",
	} {
		o := objects(t, "{apiVersion: v1, metadata: {name: a}, "+document+"}")[0]
		said := c.call(t, admin, http.MethodPost, o.path()+"?dryRun=All&fieldValidation=Strict", o.raw)
		if said.code/100 != 4 || !strings.Contains(said.text, want) {
			t.Errorf("%s: %d %s, want %q", o.Kind, said.code, said.text, want)
		}
	}
}

// Helm installs, with the hooks, tests, upgrades to other values and back, and uninstalls.
func TestInstallUpgradeRollbackUninstall(t *testing.T) {
	c := start(t)
	c.namespace(t, "titrate")
	trial := []string{"demo", abs(t, chart), "--values", abs(t, chart+"/values/trial.yaml"), "--set"}
	const more = "coordinator.replicas=3,coordinator.separateListeners=true,rls.enabled=true,backup.enabled=true," +
		"networkPolicy.enabled=true"
	for _, step := range []struct {
		args                             []string
		coordinators, deployments, ports int
	}{
		{append([]string{"install"}, append(trial, "bootstrap.existingConfigMap=mine")...), 1, 1, 2},
		{[]string{"test", "demo"}, 1, 1, 2},
		{append([]string{"upgrade"}, append(trial, more)...), 3, 2, 3},
		{[]string{"rollback", "demo", "1"}, 1, 1, 2},
		{append([]string{"upgrade"}, append(trial, more)...), 3, 2, 3}, // the claim for backups is there already
		{append([]string{"upgrade"}, append(trial, "gateway.enabled=false")...), 1, 0, 2},
	} {
		c.helm(t, step.args...)
		var coordinators struct{ Spec struct{ Replicas int } }
		c.get(t, "/apis/apps/v1/namespaces/titrate/statefulsets/demo-coordinator", &coordinators)
		var service struct{ Spec struct{ Ports []any } }
		c.get(t, "/api/v1/namespaces/titrate/services/demo-coordinator", &service)
		if n := c.count(t, "/apis/apps/v1/namespaces/titrate/deployments"); n != step.deployments ||
			coordinators.Spec.Replicas != step.coordinators || len(service.Spec.Ports) != step.ports {
			t.Errorf("after helm %v: %d coordinators on %d ports, %d Deployments, want %d, %d, %d", step.args,
				coordinators.Spec.Replicas, len(service.Spec.Ports), n, step.coordinators, step.ports, step.deployments)
		}
	}
	left := objects(t, c.helm(t, "get", "manifest", "demo"))
	c.helm(t, "uninstall", "demo")
	for _, o := range append(left, object{APIVersion: "apps/v1", Kind: "Deployment"},
		object{APIVersion: "batch/v1", Kind: "CronJob"}, object{APIVersion: "batch/v1", Kind: "Job"}) {
		if n := c.count(t, o.path()); n != 0 {
			t.Errorf("%s: %d left", o.path(), n)
		}
	}
	if n := c.count(t, "/api/v1/namespaces/titrate/persistentvolumeclaims"); n != 1 {
		t.Errorf("%d claims, want that of the backups, which are kept", n)
	}
}

// count returns the number of objects at a path.
func (c *cluster) count(t *testing.T, path string) int {
	t.Helper()
	var list struct{ Items []any }
	c.get(t, path, &list)
	return len(list.Items)
}

// The API server takes deploy/edge.yaml. It also takes another Deployment with the rendered patch for sidecars, and a
// second patch changes nothing.
func TestEnvoysOfOnesOwn(t *testing.T) {
	c := start(t)
	c.namespace(t, "titrate")
	guided, err := os.ReadFile("../../deploy/edge.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects(t, string(guided)) {
		c.checkTaken(t, o)
	}
	edge, err := os.ReadFile("../charts/testdata/edge.yaml")
	if err != nil {
		t.Fatal(err)
	}
	mine := objects(t, string(edge))[0]
	c.create(t, mine.path(), mine.raw)
	var patch map[string]any
	if err := yaml.Unmarshal([]byte(c.sidecar(t, "edge-*")), &patch); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		said := c.call(t, admin, http.MethodPatch, mine.path()+"/edge?fieldValidation=Strict", patch)
		var after struct{ Metadata struct{ Generation int } }
		if err := json.Unmarshal([]byte(said.text), &after); err != nil {
			t.Fatal(err)
		}
		if said.code != http.StatusOK || len(said.warnings) != 0 || after.Metadata.Generation != 2 {
			t.Errorf("%d, generation %d, want 2: %s %q", said.code, after.Metadata.Generation, said.text, said.warnings)
		}
	}
}

// sidecar renders the patch for Envoys in pods of these names.
func (c *cluster) sidecar(t *testing.T, pods string) string {
	t.Helper()
	rendered := c.render(t, "--show-only", "templates/sidecar.yaml", "--set",
		"sidecar.enabled=true,sidecar.socketGroup=101,sidecar.pods={"+pods+"}")
	return objects(t, rendered)[0].raw["data"].(map[string]any)["patch.yaml"].(string)
}
