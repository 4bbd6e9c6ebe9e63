package cli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/titrate/titrate/services/quota"
	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/storetest"
)

func TestNobodyListens(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	for _, args := range [][]string{{"get"}, {"why", "acme"}, {"delete", "pools/api"}, {"apply", "-f", "testdata/demo.yaml"}} {
		fails(t, address, exitFailed, "", []string{address, "connection refused", "titrate dev", "--server"}, args...)
	}
}

// A server that accepts and says nothing must not hold a person for long.
func TestNobodyAnswers(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	address := listener.Addr().String()
	fails(t, address, exitFailed, "", []string{address, "no answer within 100ms"}, "get", "--timeout", "100ms")
}

func TestCoordinatorWithoutEtcd(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	etcd, err := store.Dial(store.Access{Endpoints: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	quota.New(store.Open(etcd, ""), nil).Register(server)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Stop(); _ = etcd.Close() })
	fails(t, listener.Addr().String(), exitFailed, "", []string{"store unavailable", "etcd"}, "get", "pools")
}

// pki is a CA and a certificate for 127.0.0.1 in PEM files.
func pki(t *testing.T) (ca, cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "titrate test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	cert = write("cert.pem", "CERTIFICATE", der)
	return cert, cert, write("key.pem", "PRIVATE KEY", encoded)
}

func TestTLS(t *testing.T) {
	ca, cert, key := pki(t)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	pemBytes, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	roots.AppendCertsFromPEM(pemBytes)
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair},
		ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert})))
	quota.New(storetest.Open(t), nil).Register(server)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	address := listener.Addr().String()

	must(t, address, "", "get", "-o", "yaml", "--tls-ca", ca, "--tls-cert", cert, "--tls-key", key)
	fails(t, address, exitFailed, "", []string{"cannot reach", "TLS"}, "get")
	otherCA, _, _ := pki(t)
	fails(t, address, exitFailed, "", []string{"x509", "--tls-ca"}, "get", "--tls-ca", otherCA)
	fails(t, serveAPI(t), exitFailed, "", []string{"without TLS"}, "get", "--tls-ca", ca)
	fails(t, address, exitUsage, "", []string{"contradicts"}, "get", "--insecure", "--tls-ca", ca)
}
