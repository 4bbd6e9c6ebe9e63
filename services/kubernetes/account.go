package kubernetes

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// serviceAccount is the directory of a pod's service account.
const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"

// InCluster is the pod's own cluster and namespace, with the rights of its service account.
func InCluster() (*Cluster, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, errors.New("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: this is no pod")
	}
	c := &Cluster{Server: "https://" + net.JoinHostPort(host, port), Token: accountToken}
	if _, err := c.Token(); err != nil {
		return nil, err
	}
	var err error
	if c.Namespace, err = accountPart("namespace"); err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(filepath.Join(serviceAccount, "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("CA of the API server: %w", err)
	}
	c.Client, err = Trusting(ca)
	return c, err
}

// accountToken is the token of the pod's service account, as it is now.
func accountToken() (string, error) { return accountPart("token") }

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
