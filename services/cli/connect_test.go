package cli

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/titrate/titrate/envoy-filter/certtest"
	"github.com/titrate/titrate/services/command"
	"github.com/titrate/titrate/services/quota"
	"github.com/titrate/titrate/services/quota/quotatest"
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
	for _, args := range [][]string{{"get"}, {"why", "acme"}, {"delete", "pools/api"},
		{"apply", "-f", "testdata/demo.yaml"}} {
		fails(t, address, command.ExitFailed, "", []string{address, "connection refused", "titrate-lab dev", "--server"},
			args...)
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
	fails(t, address, command.ExitFailed, "", []string{address, "no answer within 100ms"}, "get", "--timeout", "100ms")
}

func TestCoordinatorWithoutEtcd(t *testing.T) {
	etcd, err := store.Dial(store.Access{Endpoints: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = etcd.Close() })
	address := quotatest.Serve(t, quota.New(store.Open(etcd, ""), nil))
	fails(t, address, command.ExitFailed, "", []string{"store unavailable", "etcd"}, "get", "pools")
}

// serveTLS serves the API with a certificate, to callers that show one of the CA, and returns the address.
func serveTLS(t *testing.T, cert, key, ca string) string {
	t.Helper()
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
	return listener.Addr().String()
}

// A coordinator with TLS: what is wrong with a certificate, whose it is, and what would be right.
func TestTLS(t *testing.T) {
	authority := certtest.New(t)
	ca := certtest.Bundle(t, authority)
	cert, key := authority.Issue(t)
	address := serveTLS(t, cert, key, ca)
	must(t, address, "", "get", "-o", "yaml", "--tls-ca", ca, "--tls-cert", cert, "--tls-key", key)
	fails(t, address, command.ExitFailed, "", []string{"cannot reach", "TLS"}, "get")
	otherCA := certtest.Bundle(t, certtest.New(t))
	fails(t, address, command.ExitFailed, "", []string{"x509", "--tls-ca"}, "get", "--tls-ca", otherCA)
	fails(t, serveAPI(t), command.ExitFailed, "", []string{"without TLS"}, "get", "--tls-ca", ca)
	fails(t, address, command.ExitFailed, "", []string{address,
		"signed by the CA in its own --tls-ca: give --tls-cert"},
		"get", "--tls-ca", ca)
	ended := time.Now().Add(-time.Minute)
	oldCert, oldKey := authority.IssueUntil(t, ended)
	fails(t, address, command.ExitFailed, "", []string{address, "--tls-cert " + oldCert + " expired at " +
		ended.UTC().Format(time.RFC3339), "good now"}, "get", "--tls-ca", ca, "--tls-cert", oldCert, "--tls-key",
		oldKey)
	lapsed, keyOfLapsed := authority.IssueUntil(t, ended)
	fails(t, serveTLS(t, lapsed, keyOfLapsed, ca), command.ExitFailed, "", []string{"has expired",
		"the coordinator's own certificate",
		"--tls-cert"}, "get", "--tls-ca", ca, "--tls-cert", cert, "--tls-key", key)
	ofOther, keyOfOther := certtest.New(t).Issue(t)
	fails(t, address, command.ExitFailed, "", []string{address,
		"signed by the CA in its own --tls-ca: give --tls-cert"},
		"get", "--tls-ca", ca, "--tls-cert", ofOther, "--tls-key", keyOfOther)
	fails(t, address, command.ExitUsage, "", []string{"contradicts"}, "get", "--insecure", "--tls-ca", ca)
}
