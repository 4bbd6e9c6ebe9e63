package charts

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

const chart = "../../charts/titrate"

// helm runs the pinned Helm for the chart; the first run builds it.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return helmFor(t, chart, args...)
}

// helmFor is helm for another chart.
func helmFor(t *testing.T, chart string, args ...string) (string, error) {
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
	return out.String(), nil // problems may have go's messages while it fetches helm
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

// The chart of a release needs nothing else of the network than the images that it names: those of the release, by its
// version, and two of others.
func TestPackaged(t *testing.T) {
	dir := t.TempDir()
	if out, err := helm(t, "package", "--version", "1.2.3", "--app-version", "v1.2.3", "--destination", dir); err != nil {
		t.Fatalf("helm package: %v\n%s", err, out)
	}
	out, err := helmFor(t, filepath.Join(dir, "titrate-1.2.3.tgz"), "template", "demo", "--kube-version", "1.31.0")
	if err != nil {
		t.Fatalf("helm template: %v\n%s", err, out)
	}
	images := map[string]bool{}
	for _, found := range regexp.MustCompile(`(?m)^ *(?:- )?image: "?([^"\s]+)`).FindAllStringSubmatch(out, -1) {
		images[found[1]] = true
	}
	want := []string{"envoyproxy/envoy:v1.40.0", "quay.io/coreos/etcd:v3.7.3", "titrate/module:v1.2.3",
		"titrate/titrate:v1.2.3"}
	if got := slices.Sorted(maps.Keys(images)); !slices.Equal(got, want) {
		t.Errorf("images %q, want %q", got, want)
	}
}

// decode reads every document strictly: an unknown field or a wrong type is an error.
func decode(t *testing.T, rendered string) []runtime.Object {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{appsv1.AddToScheme, autoscalingv2.AddToScheme,
		batchv1.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme,
		rbacv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	strict := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	var objects []runtime.Object
	for _, doc := range strings.Split(rendered, "\n---\n") {
		if body := strings.TrimSpace(withoutComments(doc)); body == "" || body == "---" || custom.MatchString(body) {
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

// custom are resources of others, whose types are not Kubernetes' own, and definitions of such types.
var custom = regexp.MustCompile(`(?m)^apiVersion: (cert-manager\.io|monitoring\.coreos\.com|apiextensions\.k8s\.io)/`)

func withoutComments(doc string) string {
	var kept []string
	for line := range strings.Lines(doc) {
		if !strings.HasPrefix(line, "#") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// valuesFiles returns sets of values that render: the chart's own, and all optional parts.
func valuesFiles(t *testing.T) map[string][]string {
	t.Helper()
	cases := map[string][]string{"defaults": nil, "everything": {"--values", abs(t, "testdata/everything.yaml")}}
	files, err := filepath.Glob(chart + "/values/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		cases[filepath.Base(file)] = []string{"--values", abs(t, file)}
	}
	return cases
}

// Each set of values makes valid objects, safe pods, and the same again the second time.
func TestRender(t *testing.T) {
	for name, args := range valuesFiles(t) {
		t.Run(name, func(t *testing.T) {
			text := render(t, args...)
			objects := decode(t, text)
			if len(objects) < 6 {
				t.Errorf("%d objects rendered", len(objects))
			}
			for _, object := range objects {
				checkPods(t, object)
				checkMemory(t, object)
			}
			if render(t, args...) != text {
				t.Error("rendered twice it is not the same")
			}
		})
	}
}

// podsOf returns the pod that an object makes, nil if it makes none.
func podsOf(object runtime.Object) *corev1.PodSpec {
	switch o := object.(type) {
	case *appsv1.Deployment:
		return &o.Spec.Template.Spec
	case *appsv1.StatefulSet:
		spec := o.Spec.Template.Spec
		for _, claim := range o.Spec.VolumeClaimTemplates {
			spec.Volumes = append(spec.Volumes, corev1.Volume{Name: claim.Name})
		}
		return &spec
	case *appsv1.DaemonSet:
		return &o.Spec.Template.Spec
	case *batchv1.Job:
		return &o.Spec.Template.Spec
	case *batchv1.CronJob:
		return &o.Spec.JobTemplate.Spec.Template.Spec
	case *corev1.Pod:
		return &o.Spec
	}
	return nil
}

// checkMemory: each container of the chart, also of Jobs and of initialization, has a limit of memory.
func checkMemory(t *testing.T, object runtime.Object) {
	t.Helper()
	spec := podsOf(object)
	if spec == nil {
		return
	}
	for _, c := range append(spec.Containers, spec.InitContainers...) {
		if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Memory().IsZero() {
			t.Errorf("container %s of %T may take all memory of its node, or asks for none", c.Name, object)
		}
	}
}

// checkPods: the volumes that a pod mounts exist in it, and it keeps to the Pod Security Standard "restricted".
// The DaemonSet may run as root, without any capability: its directory is the node's.
func checkPods(t *testing.T, object runtime.Object) {
	t.Helper()
	spec := podsOf(object)
	if spec == nil {
		return
	}
	_, onNode := object.(*appsv1.DaemonSet)
	volumes := map[string]bool{}
	for _, v := range spec.Volumes {
		volumes[v.Name] = true
		if v.HostPath != nil && !onNode {
			t.Errorf("%T mounts %s of its node", object, v.HostPath.Path)
		}
	}
	for _, c := range append(spec.Containers, spec.InitContainers...) {
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] {
				t.Errorf("container %s mounts volume %s, which the pod has not", c.Name, m.Name)
			}
		}
		if s := c.SecurityContext; s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
			t.Errorf("container %s may write to its image", c.Name)
		} else if s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.Capabilities == nil ||
			len(s.Capabilities.Drop) != 1 || s.Capabilities.Drop[0] != "ALL" {
			t.Errorf("container %s has capabilities, or may get some", c.Name)
		}
	}
	s := spec.SecurityContext
	if s == nil || !onNode && (s.RunAsNonRoot == nil || !*s.RunAsNonRoot) {
		t.Errorf("a pod of %T runs as root", object)
	} else if s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("a pod of %T has no seccomp profile", object)
	}
}

// Each agent of the chart, wherever it runs, is of the site of the values.
func TestSite(t *testing.T) {
	for name, args := range valuesFiles(t) {
		agents := 0
		for _, object := range decode(t, render(t, append(slices.Clone(args), "--set", "gossip.site=eu-1")...)) {
			spec := podsOf(object)
			if spec == nil {
				continue
			}
			for _, c := range append(spec.Containers, spec.InitContainers...) {
				if len(c.Args) == 0 || c.Args[0] != "agent" {
					continue
				}
				if agents++; !slices.Contains(c.Args, "--site=eu-1") {
					t.Errorf("%s: container %s has no site: %q", name, c.Name, c.Args)
				}
			}
		}
		if agents == 0 {
			t.Errorf("%s: no agent", name)
		}
		if text := render(t, args...); strings.Contains(text, "--site=") {
			t.Errorf("%s: a site that no value names", name)
		}
	}
}

func TestBadValuesAreRefused(t *testing.T) {
	for _, set := range []string{"gateway.replicas=0", "gateway.upstream.pool=NOT OK", "gateway.bootPolicy=MAYBE",
		"gatway.replicas=1",
		"etcd.replicas=2", "backup.keep=0", "gossip.period=fast", "gossip.site=e u",
		"gossip.site=-eu"} {
		out, err := helm(t, "template", "demo", "--kube-version", "1.31.0", "--set", set)
		field := strings.Split(strings.Split(set, "=")[0], ".")
		if err == nil || !strings.Contains(out, field[len(field)-1]) && !strings.Contains(out, field[0]) {
			t.Errorf("--set %s: error %v does not name the value:\n%s", set, err, out)
		}
	}
}

// TestEnvoyConfigurations: Envoy with the filter accepts the configurations of the chart and of the image.
func TestEnvoyConfigurations(t *testing.T) {
	envoy, modules := os.Getenv("ENVOY_BIN"), abs(t, "../../bin")
	if _, err := os.Stat(modules + "/libtitrate.so"); envoy == "" || err != nil {
		t.Skip("needs ENVOY_BIN and bin/libtitrate.so: `make build envoy`, then `make e2e`")
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
