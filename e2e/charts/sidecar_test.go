package charts

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"

	"github.com/titrate/titrate/services/document"
	"github.com/titrate/titrate/services/rls/ratelimitconfig"
)

// patched returns testdata/edge.yaml after `kubectl patch` with the rendered patch.
func patched(t *testing.T, patch string) *appsv1.Deployment {
	t.Helper()
	edge, err := os.ReadFile("testdata/edge.yaml")
	if err != nil {
		t.Fatal(err)
	}
	before, err := yaml.YAMLToJSON(edge)
	if err != nil {
		t.Fatal(err)
	}
	change, err := yaml.YAMLToJSON([]byte(patch))
	if err != nil {
		t.Fatal(err)
	}
	after, err := strategicpatch.StrategicMergePatch(before, change, appsv1.Deployment{})
	if err != nil {
		t.Fatal(err)
	}
	var d appsv1.Deployment
	if err := json.Unmarshal(after, &d); err != nil {
		t.Fatal(err)
	}
	return &d
}

// The patch adds agent and module to a Deployment, and leaves the rest unchanged.
func TestSidecarPatch(t *testing.T) {
	r := renderAll(t, "--values", abs(t, "testdata/everything.yaml"))
	d := patched(t, r.maps["demo-sidecar"].Data["patch.yaml"])
	checkPods(t, d)
	pod := d.Spec.Template
	if pod.Labels["app"] != "edge" || pod.Labels["titrate.dev/agents"] != "demo" ||
		*pod.Spec.SecurityContext.FSGroup != 101 {
		t.Errorf("labels %v, security %+v", pod.Labels, pod.Spec.SecurityContext)
	}
	envoy := pod.Spec.Containers[0]
	if len(pod.Spec.Containers) != 1 || len(envoy.VolumeMounts) != 3 || len(envoy.Env) != 2 || envoy.Image == "" {
		t.Errorf("%+v", pod.Spec.Containers)
	}
	if len(pod.Spec.InitContainers) != 2 {
		t.Fatalf("%+v", pod.Spec.InitContainers)
	}
	agent := pod.Spec.InitContainers[1]
	if *agent.RestartPolicy != corev1.ContainerRestartPolicyAlways || *agent.SecurityContext.RunAsUser != 65532 ||
		!slices.Contains(agent.Args, "--socket-group=101") {
		t.Errorf("%+v", agent)
	}
	granted := false
	for _, g := range r.policy(t).Grants {
		granted = granted || slices.Contains(g.Names, "edge-*")
	}
	if !granted {
		t.Error("its pods may not be agents")
	}
}

// What the values hold for other programs, these read.
func TestContentsOfConfigMaps(t *testing.T) {
	r := renderAll(t, "--values", abs(t, "testdata/everything.yaml"))
	f := document.Open("bootstrap", strings.NewReader(r.maps["demo-bootstrap"].Data["documents.yaml"]))
	if err := document.Mistakes([]*document.File{f}); err != nil || len(f.Documents) != 2 {
		t.Errorf("bootstrap: %d documents, %v", len(f.Documents), err)
	}
	dir := t.TempDir()
	for name, text := range r.maps["demo-rls"].Data {
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := ratelimitconfig.ReadDir(dir, ratelimitconfig.Options{})
	if err != nil || len(files.Domains()) != 1 {
		t.Errorf("rls: %+v, %v", files, err)
	}
	for _, want := range []string{"--rls-windows=fixed", "--rlqs=0.0.0.0:8082"} {
		if args := r.pods["demo-rls"].Containers[0].Args; !slices.Contains(args, want) {
			t.Errorf("rls: no %s: %q", want, args)
		}
	}
}

// Names of images: registry and tag are added to images without one, the others stay as they are.
func TestImages(t *testing.T) {
	for set, want := range map[string]string{
		"images.tag=":                                     "titrate/titrate:dev",
		"images.tag=v1":                                   "titrate/titrate:v1",
		"images.registry=r.example.org:5000/":             "r.example.org:5000/titrate/titrate:dev",
		"images.titrate=mine/it:7":                        "mine/it:7",
		"images.titrate=mine:5000/it":                     "mine:5000/it:dev",
		"images.titrate=mine/it@sha256:0123,images.tag=x": "mine/it@sha256:0123",
	} {
		r := renderAll(t, "--set", set)
		if got := r.pods["demo-coordinator"].Containers[0].Image; got != want {
			t.Errorf("--set %s: %s, want %s", set, got, want)
		}
	}
}
