package store_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"os"
	"testing"

	"google.golang.org/grpc/credentials"

	"github.com/titrate/titrate/envoy-filter/certtest"
	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/storetest"
)

// secured puts TLS in front of etcd and returns its address.
func secured(t *testing.T, etcd string, pair tls.Certificate) string {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0",
		&tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", etcd)
			if err != nil {
				from.Close()
				continue
			}
			go func() { _, _ = io.Copy(to, from); to.Close() }()
			go func() { _, _ = io.Copy(from, to); from.Close() }()
		}
	}()
	return l.Addr().String()
}

// Credentials hold for addresses without a scheme and with https; http means none.
func TestEtcdOverTLS(t *testing.T) {
	ca := certtest.New(t)
	pair, err := tls.LoadX509KeyPair(ca.Issue(t))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(certtest.Bundle(t, ca))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	plain := storetest.Shared(t).Endpoint
	tlsAt := secured(t, plain, pair)
	for endpoint, fine := range map[string]bool{tlsAt: true, "https://" + tlsAt: true, "http://" + plain: true,
		"http://" + tlsAt: false} {
		client, err := store.Dial(store.Access{Endpoints: []string{endpoint},
			TLS: credentials.NewTLS(&tls.Config{RootCAs: roots})})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Open(client, storetest.Prefix(t)).Snapshot(t.Context()); (err == nil) != fine {
			t.Errorf("%s: %v", endpoint, err)
		}
		client.Close()
	}
}
