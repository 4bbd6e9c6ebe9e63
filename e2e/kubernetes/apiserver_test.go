package kubernetes

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/titrate/titrate/lab/installation"
	"github.com/titrate/titrate/lab/installation/child"
	"github.com/titrate/titrate/services/kubernetes"
	"github.com/titrate/titrate/services/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// admin is the token of a user with all rights.
const admin = "admin-token"

// cluster is an API server that runs.
type cluster struct {
	url, kubeconfig       string
	certificate, accounts string // files: of the server, which is its own CA; the key of service accounts' tokens
	client                *http.Client
	runs                  bool // pods and controllers, on a node
}

// programs returns the directory of Kubernetes' programs. Without one it skips the test.
func programs(t *testing.T) string {
	t.Helper()
	return given(t, "KUBERNETES_BIN", "a directory with Kubernetes' programs")
}

// given returns the value that `make e2e-k8s` puts into a variable of the environment. Without one it skips the
// test.
func given(t *testing.T, variable, what string) string {
	t.Helper()
	value := os.Getenv(variable)
	if value == "" {
		t.Skipf("%s is not set to %s, as `make e2e-k8s` does", variable, what)
	}
	return value
}

// start starts an API server on the tests' etcd, which admits pods without their service account: none runs.
func start(t *testing.T) *cluster {
	t.Helper()
	return startAt(t, "127.0.0.1", "--endpoint-reconciler-type=none", "--disable-admission-plugins=ServiceAccount")
}

// startAt starts an API server on the tests' etcd, at an address and with additional flags.
func startAt(t *testing.T, host string, flags ...string) *cluster {
	t.Helper()
	bin := programs(t)
	free, err := installation.Ports(1)
	if err != nil {
		t.Fatal(err)
	}
	dir, port := t.TempDir(), strconv.Itoa(free[0])
	c := &cluster{url: "https://" + net.JoinHostPort(host, port), kubeconfig: dir + "/kubeconfig",
		certificate: dir + "/apiserver.crt", accounts: dir + "/accounts.pem"}
	write(t, dir+"/tokens.csv", admin+`,admin,admin,"system:masters"`+"\n")
	write(t, c.accounts, privateKey(t))
	server := run(t, child.Spec{Name: "kube-apiserver", Path: bin + "/kube-apiserver", Log: dir + "/log", Args: append([]string{
		"--etcd-servers=http://" + storetest.Shared(t).Endpoint, "--etcd-prefix=/registry-" + port,
		"--bind-address=" + host, "--secure-port=" + port, "--cert-dir=" + dir, "--advertise-address=" + host,
		"--service-cluster-ip-range=10.0.0.0/24", "--authorization-mode=RBAC", "--token-auth-file=" + dir + "/tokens.csv",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + c.accounts,
		"--service-account-signing-key-file=" + c.accounts}, flags...)})
	c.wait(t, server, c.certificate)
	write(t, c.kubeconfig, fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: it, cluster: {server: "%s", certificate-authority: %s}}]
users: [{name: me, user: {token: %s}}]
contexts: [{name: it, context: {cluster: it, user: me}}]
current-context: it
`, c.url, c.certificate, admin))
	return c
}

// run starts a process, which ends with the test. A test that fails shows the end of its log.
func run(t *testing.T, spec child.Spec) *child.Process {
	t.Helper()
	group := child.NewGroup()
	t.Cleanup(func() {
		group.Close()
		if t.Failed() {
			t.Logf("the last lines of %s:\n%s", spec.Name, child.Tail(spec.Log, 30))
		}
	})
	p, err := group.Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// wait returns when the server is ready. The certificate that it makes for itself is its own CA.
func (c *cluster) wait(t *testing.T, server *child.Process, certificate string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := server.Ready(ctx, func(context.Context) error {
		ca, err := os.ReadFile(certificate)
		if err != nil {
			return err
		}
		if c.client, err = kubernetes.Trusting(ca); err != nil {
			return err
		}
		if said := c.call(t, admin, http.MethodGet, "/readyz", nil); said.code != http.StatusOK {
			return fmt.Errorf("/readyz: %d %s", said.code, said.text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// retry calls f until it gives nil.
func retry(t *testing.T, patience time.Duration, f func() error) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-deadline.C:
			t.Fatalf("after %s: %v", patience, err)
		case <-again.C:
		}
	}
}

// answer is an answer of the API server; a code of 0 is a connection that failed.
type answer struct {
	code     int
	text     string
	warnings []string
}

// call asks the API server as the owner of the token.
func (c *cluster) call(t *testing.T, token, method, path string, body any) answer {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, c.url+path, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/strategic-merge-patch+json")
	}
	response, err := c.client.Do(request)
	if err != nil {
		return answer{text: err.Error()}
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response.StatusCode, string(raw), response.Header.Values("Warning")}
}

// create posts an object as an admin.
func (c *cluster) create(t *testing.T, path string, object any) {
	t.Helper()
	if said := c.call(t, admin, http.MethodPost, path, object); said.code != http.StatusCreated {
		t.Fatalf("POST %s: %d %s", path, said.code, said.text)
	}
}

// get reads the object or list at a path as an admin.
func (c *cluster) get(t *testing.T, path string, into any) {
	t.Helper()
	said := c.call(t, admin, http.MethodGet, path, nil)
	if said.code != http.StatusOK {
		t.Fatalf("GET %s: %d %s", path, said.code, said.text)
	}
	if err := json.Unmarshal([]byte(said.text), into); err != nil {
		t.Fatal(err)
	}
}

// namespace makes a namespace that admits restricted pods only, and warns of objects that would make other
// pods.
func (c *cluster) namespace(t *testing.T, name string) {
	t.Helper()
	const level = "pod-security.kubernetes.io/"
	c.create(t, "/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": name,
		"labels": map[string]string{level + "enforce": "restricted", level + "warn": "restricted"}}})
}

// tokenOf is a token of a service account in the namespace titrate.
func (c *cluster) tokenOf(t *testing.T, account string) string {
	t.Helper()
	said := c.call(t, admin, http.MethodPost, "/api/v1/namespaces/titrate/serviceaccounts/"+account+"/token",
		map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": map[string]any{}})
	var token struct{ Status struct{ Token string } }
	if err := json.Unmarshal([]byte(said.text), &token); err != nil || token.Status.Token == "" {
		t.Fatalf("token: %d %s %v", said.code, said.text, err)
	}
	return token.Status.Token
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func privateKey(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
}
