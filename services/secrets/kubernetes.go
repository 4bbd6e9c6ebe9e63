package secrets

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// serviceAccount is where a pod finds its account.
const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"

// maxAnswer bounds what is read of an answer: a secret has 1 MiB at most, in base64.
const maxAnswer = 4 << 20

// keepPolicy makes Helm leave a secret alone that it once made itself.
const keepPolicy = "helm.sh/resource-policy"

// Kubernetes is a namespace of a cluster. It speaks the few calls that it needs itself: get
// and server-side apply of secrets.
type Kubernetes struct {
	Server    string // URL of the API server
	Namespace string
	Token     string
	Labels    map[string]string // of the secrets
	Client    *http.Client
}

// InCluster is the pod's own namespace, with the rights of its service account.
func InCluster(labels map[string]string) (*Kubernetes, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, errors.New("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: this is no pod")
	}
	k := &Kubernetes{Server: "https://" + net.JoinHostPort(host, port), Labels: labels}
	var err error
	if k.Token, err = Token(); err != nil {
		return nil, err
	}
	if k.Namespace, err = accountPart("namespace"); err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(filepath.Join(serviceAccount, caPart))
	if err != nil {
		return nil, fmt.Errorf("CA of the API server: %w", err)
	}
	k.Client, err = Trusting(ca)
	return k, err
}

// Token is the token of the pod's service account, as it is now: Kubernetes renews it.
func Token() (string, error) { return accountPart("token") }

func accountPart(part string) (string, error) {
	text, err := os.ReadFile(filepath.Join(serviceAccount, part))
	if err != nil {
		return "", fmt.Errorf("the pod has no service account token: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// Trusting is a client of servers whose certificate one of the PEM's CAs has signed.
func Trusting(ca []byte) (*http.Client, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New("CA of the API server: no certificate in it")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	return &http.Client{Timeout: 10 * time.Second, Transport: transport}, nil
}

// object is a Secret as the API has it.
type object struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   metadata          `json:"metadata"`
	Type       string            `json:"type,omitempty"`
	Data       map[string][]byte `json:"data,omitempty"` // base64 in JSON
}

type metadata struct {
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Has reports whether the secret has the parts. One that Helm made, as the chart once did, is
// marked to be kept.
func (k *Kubernetes) Has(ctx context.Context, name string, parts ...string) (bool, error) {
	raw, status, err := k.call(ctx, http.MethodGet, name, "", nil)
	if status == http.StatusNotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var there object
	if err := json.Unmarshal(raw, &there); err != nil {
		return false, fmt.Errorf("answer of the API server: %w", err)
	}
	for _, part := range parts {
		if len(there.Data[part]) == 0 {
			return false, nil
		}
	}
	if there.Metadata.Annotations[keepPolicy] == "keep" {
		return true, nil
	}
	mark := map[string]any{"metadata": map[string]any{"annotations": map[string]string{keepPolicy: "keep"}}}
	_, _, err = k.call(ctx, http.MethodPatch, name, "application/merge-patch+json", mark)
	return true, err
}

// Put applies the secret, whoever had it before.
func (k *Kubernetes) Put(ctx context.Context, s Secret) error {
	o := object{APIVersion: "v1", Kind: "Secret", Data: s.Parts, Type: "Opaque",
		Metadata: metadata{Name: s.Name, Labels: k.Labels, Annotations: map[string]string{keepPolicy: "keep"}}}
	if _, is := s.Parts[certPart]; is {
		o.Type = "kubernetes.io/tls"
	}
	_, _, err := k.call(ctx, http.MethodPatch, s.Name, "application/apply-patch+yaml", o) // JSON is YAML
	return err
}

// call asks the API server about one secret. An answer other than 2xx is an error.
func (k *Kubernetes) call(ctx context.Context, method, name, contentType string, body any) ([]byte, int, error) {
	at := fmt.Sprintf("%s/api/v1/namespaces/%s/secrets/%s", k.Server, url.PathEscape(k.Namespace), url.PathEscape(name))
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, 0, err
		}
		content = bytes.NewReader(text)
		at += "?fieldManager=titrate"
	}
	if contentType == "application/apply-patch+yaml" {
		at += "&force=true"
	}
	request, err := http.NewRequestWithContext(ctx, method, at, content)
	if err != nil {
		return nil, 0, err
	}
	request.Header.Set("Authorization", "Bearer "+k.Token)
	request.Header.Set("Accept", "application/json")
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	return k.do(request)
}

func (k *Kubernetes) do(request *http.Request) ([]byte, int, error) {
	response, err := k.Client.Do(request)
	if err != nil {
		return nil, 0, err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, response.StatusCode, err
	}
	if response.StatusCode/100 != 2 {
		var said struct{ Message string }
		_ = json.Unmarshal(raw, &said) // a proxy's answer is no JSON
		return nil, response.StatusCode, fmt.Errorf("%s: %s %s", request.Method, response.Status, said.Message)
	}
	return raw, response.StatusCode, nil
}
