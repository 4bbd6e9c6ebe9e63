package charts

import (
	"os"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/titrate/titrate/e2e/guide"
)

// The guide's Deployment is valid and safe, and all objects that it names exist in the chart's release.
func TestGuideKubernetes(t *testing.T) {
	const page, heading = "../../docs/your-own-envoy.md", "Kubernetes"
	deployment, err := os.ReadFile("../../deploy/edge.yaml")
	if err != nil {
		t.Fatal(err)
	}
	objects := decode(t, string(deployment))
	if len(objects) != 1 {
		t.Fatalf("%d objects, want a Deployment", len(objects))
	}
	checkPods(t, objects[0])
	pod := objects[0].(*appsv1.Deployment).Spec.Template.Spec
	grants := regexp.MustCompile(`--set-json '(access\.grants=.*)'`).FindStringSubmatch(guide.Section(t, page, heading))
	if grants == nil {
		t.Fatal("the guide grants nothing to the agents")
	}
	release, err := helm(t, "template", "titrate", "--kube-version", "1.31.0", "--set-json", grants[1])
	if err != nil {
		t.Fatal(err, release)
	}
	if !strings.Contains(release, "edge-*") {
		t.Error("the release's policy does not name the pods")
	}
	made := named(t, decode(t, release))
	for _, v := range pod.Volumes {
		if v.Secret != nil && !made["Secret "+v.Secret.SecretName] {
			t.Errorf("volume %s: the chart makes no secret %s", v.Name, v.Secret.SecretName)
		}
	}
	agent := pod.InitContainers[1]
	if agent.Name != "agent" || agent.RestartPolicy == nil || *agent.RestartPolicy != corev1.ContainerRestartPolicyAlways {
		t.Errorf("the agent is %s with restartPolicy %v", agent.Name, agent.RestartPolicy)
	}
	for _, arg := range agent.Args {
		for _, flag := range []string{"--coordinator=", "--join="} {
			if address, ok := strings.CutPrefix(arg, flag); ok && !made["Service "+strings.Split(address, ":")[0]] {
				t.Errorf("%s: the chart makes no such service", arg)
			}
		}
	}
}

// named are the kinds and names of services and secrets.
func named(t *testing.T, objects []runtime.Object) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, object := range objects {
		switch o := object.(type) {
		case *corev1.Service:
			names["Service "+o.Name] = true
		case *batchv1.Job:
			for secret := range secretsOf(t, o) {
				names["Secret "+secret] = true
			}
		}
	}
	return names
}
