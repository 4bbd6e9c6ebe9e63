package charts

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

const chart = "../../charts/titrate"

// helm runs the pinned Helm; the first run builds it.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	path, err := filepath.Abs(chart)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", append([]string{"tool", "helm"}, append(args, path)...)...)
	cmd.Dir = "../../tools/helm"
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return out.String() + problems.String(), err
	}
	return out.String(), nil // problems may have what go says while it fetches helm
}

func render(t *testing.T, args ...string) string {
	t.Helper()
	out, err := helm(t, append([]string{"template", "demo", "--namespace", "titrate", "--kube-version", "1.31.0"},
		args...)...)
	if err != nil {
		t.Fatalf("helm template %v: %v\n%s", args, err, out)
	}
	return out
}

func TestLint(t *testing.T) {
	if out, err := helm(t, "lint", "--strict", "--kube-version", "1.31.0"); err != nil {
		t.Errorf("helm lint: %v\n%s", err, out)
	}
}

// decode reads every document strictly: an unknown field or a wrong type is an error.
func decode(t *testing.T, rendered string) []runtime.Object {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{appsv1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	strict := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	var objects []runtime.Object
	for _, doc := range strings.Split(rendered, "\n---\n") {
		if body := strings.TrimSpace(withoutComments(doc)); body == "" || body == "---" {
			continue
		}
		object, _, err := strict.Decode([]byte(doc), nil, nil)
		if err != nil {
			t.Errorf("%v in\n%s", err, doc)
			continue
		}
		objects = append(objects, object)
	}
	return objects
}

func withoutComments(doc string) string {
	var kept []string
	for line := range strings.Lines(doc) {
		if !strings.HasPrefix(line, "#") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

func TestRender(t *testing.T) {
	cases := map[string][]string{
		"defaults":      nil,
		"external etcd": {"--values", chart + "/ci/external-values.yaml"},
	}
	for name, args := range cases {
		t.Run(name, func(t *testing.T) {
			for i, a := range args {
				if strings.HasPrefix(a, chart) {
					args[i], _ = filepath.Abs(a)
				}
			}
			objects := decode(t, render(t, args...))
			if len(objects) < 6 {
				t.Errorf("%d objects rendered", len(objects))
			}
			for _, object := range objects {
				checkPods(t, object)
			}
		})
	}
}

// checkPods: what a pod mounts exists in it, and nothing runs as root or may write to its image.
func checkPods(t *testing.T, object runtime.Object) {
	t.Helper()
	var spec corev1.PodSpec
	switch o := object.(type) {
	case *appsv1.Deployment:
		spec = o.Spec.Template.Spec
	case *appsv1.StatefulSet:
		spec = o.Spec.Template.Spec
	default:
		return
	}
	volumes := map[string]bool{}
	for _, v := range spec.Volumes {
		volumes[v.Name] = true
	}
	for _, c := range spec.Containers {
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] {
				t.Errorf("container %s mounts volume %s, which the pod has not", c.Name, m.Name)
			}
		}
		if c.SecurityContext == nil || c.SecurityContext.ReadOnlyRootFilesystem == nil ||
			!*c.SecurityContext.ReadOnlyRootFilesystem {
			t.Errorf("container %s may write to its image", c.Name)
		}
	}
	if spec.SecurityContext == nil || spec.SecurityContext.RunAsNonRoot == nil || !*spec.SecurityContext.RunAsNonRoot {
		t.Errorf("a pod of %T runs as root", object)
	}
}

func TestBadValuesAreRefused(t *testing.T) {
	for _, set := range []string{"gateway.replicas=0", "gateway.upstream.pool=NOT OK", "gateway.bootPolicy=MAYBE",
		"gatway.replicas=1"} {
		out, err := helm(t, "template", "demo", "--kube-version", "1.31.0", "--set", set)
		field := strings.Split(strings.Split(set, "=")[0], ".")
		if err == nil || !strings.Contains(out, field[len(field)-1]) && !strings.Contains(out, field[0]) {
			t.Errorf("--set %s: error %v does not name the value:\n%s", set, err, out)
		}
	}
}

// TestEnvoyConfigurations: Envoy with the filter accepts what the chart renders and what the image
// carries.
func TestEnvoyConfigurations(t *testing.T) {
	envoy, modules := os.Getenv("ENVOY_BIN"), abs(t, "../../bin")
	if _, err := os.Stat(modules + "/libtitrate.so"); envoy == "" || err != nil {
		t.Skip("needs ENVOY_BIN and bin/libtitrate.so: `make build envoy`, then `make test`")
	}
	configs := map[string]string{}
	raw, err := os.ReadFile("../../deploy/envoy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	configs["deploy/envoy.yaml"] = string(raw)
	for _, object := range decode(t, render(t)) {
		if m, ok := object.(*corev1.ConfigMap); ok && m.Data["envoy.yaml"] != "" {
			configs["chart"] = m.Data["envoy.yaml"]
		}
	}
	if configs["chart"] == "" {
		t.Fatal("the chart renders no envoy.yaml")
	}
	for name, config := range configs {
		file := filepath.Join(t.TempDir(), "envoy.yaml")
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), envoy, "--mode", "validate", "-c", file, "--use-dynamic-base-id")
		cmd.Env = append(os.Environ(), "ENVOY_DYNAMIC_MODULES_SEARCH_PATH="+modules)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

func abs(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
