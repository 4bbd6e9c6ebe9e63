package secrets_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/titrate/titrate/services/secrets"
)

var wanted = secrets.Wanted{
	Certificates: []secrets.Certificate{
		{Secret: "server", Names: []string{"coordinator", "*.coordinator.ns.svc", "127.0.0.1"}},
		{Secret: "client", Names: []string{"agents.demo"}},
	},
	GossipKeys: []string{"gossip"},
}

func read(t *testing.T, path ...string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func leaf(t *testing.T, dir, secret string) (*x509.Certificate, *x509.CertPool) {
	t.Helper()
	pair, err := tls.X509KeyPair(read(t, dir, secret, "tls.crt"), read(t, dir, secret, "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(read(t, dir, secret, "ca.crt")) {
		t.Fatalf("%s: no CA", secret)
	}
	return pair.Leaf, roots
}

// All certificates of a set are of one CA, for their names, for servers and clients.
func TestOneCA(t *testing.T) {
	dir := t.TempDir()
	made, kept, err := secrets.Make(t.Context(), secrets.Files(dir), wanted)
	if err != nil || len(made) != 3 || kept != nil {
		t.Fatalf("made %v, kept %v: %v", made, kept, err)
	}
	_, roots := leaf(t, dir, "client")
	server, _ := leaf(t, dir, "server")
	for _, name := range []string{"coordinator", "c-0.coordinator.ns.svc", "127.0.0.1"} {
		for _, use := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
			o := x509.VerifyOptions{Roots: roots, DNSName: name, KeyUsages: []x509.ExtKeyUsage{use}}
			if _, err := server.Verify(o); err != nil {
				t.Errorf("%s, use %d: %v", name, use, err)
			}
		}
	}
	key, err := base64.StdEncoding.DecodeString(string(read(t, dir, "gossip", "gossip.key")))
	if err != nil || len(key) != 32 {
		t.Errorf("gossip key of %d bytes: %v", len(key), err)
	}
}

// What is there stays. If one certificate is missing all are made again: its CA's key is gone.
func TestKeptOrAllAnew(t *testing.T) {
	dir := t.TempDir()
	run := func() (made, kept []string) {
		made, kept, err := secrets.Make(t.Context(), secrets.Files(dir), wanted)
		if err != nil {
			t.Fatal(err)
		}
		return made, kept
	}
	run()
	before := read(t, dir, "server", "tls.crt")
	if made, kept := run(); made != nil || len(kept) != 3 ||
		string(read(t, dir, "server", "tls.crt")) != string(before) {
		t.Errorf("made %v again, kept %v", made, kept)
	}
	gossip := read(t, dir, "gossip", "gossip.key")
	if err := os.Remove(filepath.Join(dir, "client", "tls.key")); err != nil {
		t.Fatal(err)
	}
	if made, kept := run(); !slices.Equal(made, []string{"server", "client"}) ||
		!slices.Equal(kept, []string{"gossip"}) {
		t.Errorf("made %v, kept %v", made, kept)
	}
	_, roots := leaf(t, dir, "client")
	server, _ := leaf(t, dir, "server")
	if _, err := server.Verify(x509.VerifyOptions{Roots: roots}); err != nil {
		t.Errorf("the two are of different CAs: %v", err)
	}
	if string(read(t, dir, "gossip", "gossip.key")) != string(gossip) {
		t.Error("the gossip key is another one")
	}
}

func TestNothingWanted(t *testing.T) {
	if _, _, err := secrets.Make(t.Context(), secrets.Files(t.TempDir()), secrets.Wanted{}); err == nil {
		t.Error("no error")
	}
	nameless := secrets.Wanted{Certificates: []secrets.Certificate{{Secret: "x"}}}
	_, _, err := secrets.Make(t.Context(), secrets.Files(t.TempDir()), nameless)
	if err == nil || !strings.Contains(err.Error(), "secret x") {
		t.Errorf("error %v does not name the secret", err)
	}
}
