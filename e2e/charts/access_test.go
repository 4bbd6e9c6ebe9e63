package charts

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/titrate/titrate/services/access"
	"github.com/titrate/titrate/services/cli"
)

// rendered are the objects that a set of values renders, by kind and name.
type rendered struct {
	secrets map[string]map[string][]byte // the Job's secrets
	maps    map[string]*corev1.ConfigMap
	pods    map[string]corev1.PodSpec
	ports   map[string][]corev1.ServicePort
}

func renderAll(t *testing.T, args ...string) rendered {
	t.Helper()
	r := rendered{map[string]map[string][]byte{}, map[string]*corev1.ConfigMap{}, map[string]corev1.PodSpec{},
		map[string][]corev1.ServicePort{}}
	for _, object := range decode(t, render(t, args...)) {
		switch o := object.(type) {
		case *batchv1.Job:
			if o.Name == "demo-secrets" {
				r.secrets = secretsOf(t, o)
			}
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

// secretsOf returns the secrets that the Job makes: its commands run here, with a directory instead of the
// cluster.
func secretsOf(t *testing.T, job *batchv1.Job) map[string]map[string][]byte {
	t.Helper()
	dir := t.TempDir()
	for _, c := range job.Spec.Template.Spec.Containers {
		args := slices.DeleteFunc(slices.Clone(c.Args), func(a string) bool { return a == "--kubernetes" })
		var said bytes.Buffer
		if status := cli.Run(t.Context(), append(args, "--dir", dir), nil, &said, &said); status != 0 {
			t.Fatalf("titrate %v: status %d\n%s", args, status, said.String())
		}
	}
	files, err := filepath.Glob(dir + "/*/*")
	if err != nil {
		t.Fatal(err)
	}
	secrets := map[string]map[string][]byte{}
	for _, file := range files {
		name := filepath.Base(filepath.Dir(file))
		if secrets[name] == nil {
			secrets[name] = map[string][]byte{}
		}
		if secrets[name][filepath.Base(file)], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	return secrets
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

// The certificates that the chart makes are of one CA. In the policy, agents' certificates have the role of an
// agent, admins' the role of an admin, and coordinators' no role.
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
		"demo-admin-tls": access.Admin, "demo-client-tls": ""} {
		data := r.secrets[secret]
		roots := x509.NewCertPool()
		roots.AddCert(certificate(t, r.secrets["demo-tls"]["ca.crt"]))
		leaf := certificate(t, data["tls.crt"])
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots,
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
			t.Errorf("%s: %v", secret, err)
		}
		got := access.Role("")
		for _, name := range leaf.DNSNames {
			got += roles[name]
		}
		if got != want || string(data["ca.crt"]) != string(r.secrets["demo-tls"]["ca.crt"]) {
			t.Errorf("%s: role %q, want %q", secret, got, want)
		}
	}
}

// Values for etcd's user, the listeners and the certificates reach the processes.
func TestAccessValues(t *testing.T) {
	r := renderAll(t, "--values", abs(t, chart+"/values/external.yaml"))
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
	if !slices.Contains(gateway.InitContainers[1].Args, "--coordinator=demo-coordinator:7402") {
		t.Errorf("agents: %v", gateway.InitContainers[1].Args)
	}
	for pod, want := range map[string]string{"demo-coordinator": "titrate-certs",
		"demo-gateway": "titrate-agent-certs"} {
		mounts := func(v corev1.Volume) bool { return v.Secret != nil && v.Secret.SecretName == want }
		if !slices.ContainsFunc(r.pods[pod].Volumes, mounts) {
			t.Errorf("%s does not mount %s", pod, want)
		}
	}
	if len(r.ports["demo-coordinator"]) != 3 || len(renderAll(t).ports["demo-coordinator"]) != 2 ||
		len(renderAll(t, "--set", "coordinator.rest=true,coordinator.console=true").ports["demo-coordinator"]) != 4 {
		t.Error("ports of the coordinators' service")
	}
	if p := r.policy(t); len(p.Grants) != 2 || p.Grants[1].ID != "spiffe://example.org/ops" ||
		r.secrets["demo-agent-tls"] != nil {
		t.Errorf("grants %+v", p.Grants)
	}
}

// Tokens and JWTs are files of the user, at the paths of the coordinator's flags.
func TestTokenValues(t *testing.T) {
	pod := renderAll(t, "--set", "access.tokensSecret=mine,access.jwt.keysConfigMap=keys,access.jwt.audience=titrate,"+
		"access.jwt.issuer=https://login.example.org,access.jwt.claims.role=groups").pods["demo-coordinator"]
	for _, arg := range []string{"--tokens=/etc/titrate/tokens/tokens.yaml", "--jwks=/etc/titrate/jwks/jwks.json",
		"--jwt-issuer=https://login.example.org", "--jwt-audience=titrate", "--jwt-claims=role=groups"} {
		if !slices.Contains(pod.Containers[0].Args, arg) {
			t.Errorf("the coordinator has no %s: %v", arg, pod.Containers[0].Args)
		}
	}
	mounted := map[string]string{}
	for _, m := range pod.Containers[0].VolumeMounts {
		mounted[m.Name] = m.MountPath
	}
	for _, v := range pod.Volumes {
		switch {
		case v.Secret != nil && v.Secret.SecretName == "mine":
			mounted["the secret"] = mounted[v.Name]
		case v.ConfigMap != nil && v.ConfigMap.Name == "keys":
			mounted["the keys"] = mounted[v.Name]
		}
	}
	if mounted["the secret"] != "/etc/titrate/tokens" || mounted["the keys"] != "/etc/titrate/jwks" {
		t.Errorf("mounted: %v", mounted)
	}
	policy := renderAll(t, "--set-json", `access.grants=[{"subject":"ci","role":"editor","tenants":["acme"],`+
		`"ceiling":{"burst":20}}]`).policy(t)
	if last := policy.Grants[len(policy.Grants)-1]; last.Subject != "ci" || last.Ceiling == nil {
		t.Errorf("the grant of a JWT's subject: %+v", last)
	}
}

// Values that would lock all callers out are refused, with advice.
func TestAccessValuesThatLackSomething(t *testing.T) {
	for set, want := range map[string]string{
		"tls.existingSecret=mine":            "access.grants",
		"etcd.user=titrate":                  "etcd.passwordSecret",
		"sidecar.enabled=true":               "sidecar.pods",
		"etcd.endpoints={https://etcd:2379}": "etcd.tlsSecret",
		"access.grants[0].id=only":           "role",
		"access.jwt.keysConfigMap=keys":      "access.jwt.issuer",
		"access.jwt.issuer=https://a.org":    "access.jwt.keysConfigMap",
	} {
		out, err := helm(t, "template", "demo", "--kube-version", "1.31.0", "--set", set)
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("--set %s: %v: %s", set, err, out)
		}
	}
}

// etcd takes its members and the coordinators, by a CA that no agent has a certificate of.
func TestEtcdIsForCoordinatorsAlone(t *testing.T) {
	r := renderAll(t)
	own := string(r.secrets["demo-etcd-tls"]["ca.crt"])
	if own == "" || own != string(r.secrets["demo-etcd-client-tls"]["ca.crt"]) ||
		own == string(r.secrets["demo-tls"]["ca.crt"]) {
		t.Error("etcd's CA is not one of its own")
	}
	member := certificate(t, r.secrets["demo-etcd-tls"]["tls.crt"])
	args := r.pods["demo-etcd"].Containers[0].Args
	for i := range 3 {
		at := fmt.Sprintf("demo-etcd-%d.demo-etcd-members.titrate.svc", i)
		if err := member.VerifyHostname(at); err != nil {
			t.Error(err)
		}
		if !slices.ContainsFunc(args, func(a string) bool { return strings.Contains(a, "https://"+at+":2380") }) {
			t.Errorf("%s is no member: %v", at, args)
		}
		if !strings.Contains(strings.Join(r.pods["demo-coordinator"].Containers[0].Args, " "), "https://"+at+":2379") {
			t.Errorf("coordinators do not know %s", at)
		}
	}
	const peers = "demo-etcd-members"
	if !slices.Contains(args, "--client-cert-auth") || !slices.Contains(args, "--peer-cert-allowed-hostname="+peers) ||
		member.VerifyHostname(peers) != nil ||
		certificate(t, r.secrets["demo-etcd-client-tls"]["tls.crt"]).VerifyHostname(peers) == nil {
		t.Error("not the members alone are peers")
	}
}
