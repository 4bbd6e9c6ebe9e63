package charts

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/titrate/titrate/services/access"
)

// rendered is what a set of values makes, by kind and name.
type rendered struct {
	secrets map[string]*corev1.Secret
	maps    map[string]*corev1.ConfigMap
	pods    map[string]corev1.PodSpec
	ports   map[string][]corev1.ServicePort
}

func renderAll(t *testing.T, args ...string) rendered {
	t.Helper()
	r := rendered{map[string]*corev1.Secret{}, map[string]*corev1.ConfigMap{}, map[string]corev1.PodSpec{},
		map[string][]corev1.ServicePort{}}
	for _, object := range decode(t, render(t, args...)) {
		switch o := object.(type) {
		case *corev1.Secret:
			r.secrets[o.Name] = o
		case *corev1.ConfigMap:
			r.maps[o.Name] = o
		case *appsv1.Deployment:
			r.pods[o.Name] = o.Spec.Template.Spec
		case *appsv1.StatefulSet:
			r.pods[o.Name] = o.Spec.Template.Spec
		case *corev1.Service:
			r.ports[o.Name] = o.Spec.Ports
		}
	}
	return r
}

// policy reads the access policy as a coordinator does.
func (r rendered) policy(t *testing.T) *access.Policy {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(path, []byte(r.maps["demo-access"].Data["policy.yaml"]), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := access.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func certificate(t *testing.T, text []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(text)
	if block == nil {
		t.Fatalf("no PEM in %.40q", text)
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The certificates that the chart makes are of one CA, and the policy makes that of
// agents an agent's, that of admins an admin's, and that of coordinators nobody's.
func TestCertificatesHaveTheirRoles(t *testing.T) {
	r := renderAll(t)
	roles := map[string]access.Role{}
	for _, g := range r.policy(t).Grants {
		roles[g.ID] = g.Role
		if g.Role == access.Agent && !slices.Equal(g.Names, []string{"demo-gateway-*"}) {
			t.Errorf("agents may be called %v", g.Names)
		}
	}
	for secret, want := range map[string]access.Role{"demo-tls": "", "demo-agent-tls": access.Agent,
		"demo-admin-tls": access.Admin} {
		data := r.secrets[secret].Data
		roots := x509.NewCertPool()
		roots.AddCert(certificate(t, r.secrets["demo-tls"].Data["ca.crt"]))
		leaf := certificate(t, data["tls.crt"])
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots,
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
			t.Errorf("%s: %v", secret, err)
		}
		got := access.Role("")
		for _, name := range leaf.DNSNames {
			got += roles[name]
		}
		if got != want || string(data["ca.crt"]) != string(r.secrets["demo-tls"].Data["ca.crt"]) {
			t.Errorf("%s: role %q, want %q", secret, got, want)
		}
	}
}

// Values for etcd's user, the listeners and the certificates reach the processes.
func TestAccessValues(t *testing.T) {
	r := renderAll(t, "--values", abs(t, chart+"/ci/external-values.yaml"))
	coordinator, gateway := r.pods["demo-coordinator"], r.pods["demo-gateway"]
	for _, arg := range []string{"--etcd-user=titrate", "--listen-agents=0.0.0.0:7402",
		"--advertise=$(POD_NAME).demo-coordinator.titrate.svc:7402",
		"--access-policy=/etc/titrate/access/policy.yaml"} {
		if !slices.Contains(coordinator.Containers[0].Args, arg) {
			t.Errorf("the coordinator has no %s: %v", arg, coordinator.Containers[0].Args)
		}
	}
	password := slices.IndexFunc(coordinator.Containers[0].Env, func(e corev1.EnvVar) bool {
		return e.Name == "TITRATE_ETCD_PASSWORD" && e.ValueFrom.SecretKeyRef.Name == "etcd-password" &&
			e.ValueFrom.SecretKeyRef.Key == "password"
	})
	if password < 0 {
		t.Errorf("no password: %v", coordinator.Containers[0].Env)
	}
	if !slices.Contains(gateway.Containers[1].Args, "--coordinator=demo-coordinator:7402") {
		t.Errorf("agents: %v", gateway.Containers[1].Args)
	}
	for pod, want := range map[string]string{"demo-coordinator": "titrate-certs",
		"demo-gateway": "titrate-agent-certs"} {
		mounts := func(v corev1.Volume) bool { return v.Secret != nil && v.Secret.SecretName == want }
		if !slices.ContainsFunc(r.pods[pod].Volumes, mounts) {
			t.Errorf("%s does not mount %s", pod, want)
		}
	}
	if len(r.ports["demo-coordinator"]) != 2 || len(renderAll(t).ports["demo-coordinator"]) != 1 {
		t.Error("ports of the coordinators' service")
	}
	if p := r.policy(t); len(p.Grants) != 2 || p.Grants[1].ID != "spiffe://example.org/ops" ||
		r.secrets["demo-agent-tls"] != nil {
		t.Errorf("grants %+v", p.Grants)
	}
}

// Values that would lock everybody out are refused, and what to do is said.
func TestAccessValuesThatLackSomething(t *testing.T) {
	for set, want := range map[string]string{
		"tls.existingSecret=mine":  "access.grants",
		"etcd.user=titrate":        "etcd.passwordSecret",
		"access.grants[0].id=only": "role",
	} {
		out, err := helm(t, "template", "demo", "--kube-version", "1.31.0", "--set", set)
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("--set %s: %v: %s", set, err, out)
		}
	}
}
