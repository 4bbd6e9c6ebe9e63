// Package certtest makes certificate authorities and certificates for tests of all
// modules, as the PEM files that an operator would have. They are valid for an hour.
//
//	ca := certtest.New(t)
//	cert, key := ca.Issue(t, "spiffe://example.org/titrate/agent/gw-1")
//	bundle := certtest.Bundle(t, ca)
//
// Client trusts a bundle; Move and Trust replace files by files of another authority.
package certtest

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
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Lifetime is the lifetime of the certificates.
const Lifetime = time.Hour

// Authority signs certificates.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// New makes an authority.
func New(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{key: newKey(t)}
	template := &x509.Certificate{SerialNumber: serial(t), Subject: pkix.Name{CommonName: "a test's CA"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-Lifetime), NotAfter: time.Now().Add(Lifetime)}
	a.certificate = a.sign(t, template, template, a.key)
	return a
}

// Issue makes a certificate for 127.0.0.1 with the identities, which are URIs and DNS
// names. It returns the files of the certificate and of its key.
func (a *Authority) Issue(t testing.TB, ids ...string) (cert, key string) {
	t.Helper()
	return a.IssueUntil(t, time.Now().Add(Lifetime), ids...)
}

// IssueUntil makes a certificate that expires at a given time.
func (a *Authority) IssueUntil(t testing.TB, expiry time.Time, ids ...string) (cert, key string) {
	t.Helper()
	return a.issue(t, pkix.Name{CommonName: "a test"}, expiry, ids)
}

// IssueTo makes a certificate with a given subject.
func (a *Authority) IssueTo(t testing.TB, subject pkix.Name, ids ...string) (cert, key string) {
	t.Helper()
	return a.issue(t, subject, time.Now().Add(Lifetime), ids)
}

func (a *Authority) issue(t testing.TB, subject pkix.Name, expiry time.Time, ids []string) (cert, key string) {
	t.Helper()
	template := &x509.Certificate{SerialNumber: serial(t), Subject: subject,
		NotBefore: time.Now().Add(-Lifetime), NotAfter: expiry, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	for _, id := range ids {
		if !strings.Contains(id, "://") {
			template.DNSNames = append(template.DNSNames, id)
			continue
		}
		u, err := url.Parse(id)
		if err != nil {
			t.Fatal(err)
		}
		template.URIs = append(template.URIs, u)
	}
	private := newKey(t)
	leaf := a.sign(t, template, a.certificate, private)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	write(t, cert, block("CERTIFICATE", leaf.Raw))
	write(t, key, block("PRIVATE KEY", der))
	return cert, key
}

// Bundle writes the authorities' certificates to a new file.
func Bundle(t testing.TB, of ...*Authority) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.crt")
	Trust(t, path, of...)
	return path
}

// Trust replaces the bundle at path by the authorities' bundle.
func Trust(t testing.TB, path string, of ...*Authority) {
	t.Helper()
	var text []byte
	for _, a := range of {
		text = append(text, block("CERTIFICATE", a.certificate.Raw)...)
	}
	write(t, path, text)
}

// Client is the configuration of a client that trusts the bundle at ca and shows a certificate; an empty cert:
// none.
func Client(t testing.TB, ca, cert, key string) *tls.Config {
	t.Helper()
	text, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(text)
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}

// Move replaces a file by another one.
func Move(t testing.TB, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func (a *Authority) sign(t testing.TB, template, parent *x509.Certificate, of *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &of.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func serial(t testing.TB) *big.Int {
	t.Helper()
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// write replaces a file at once, as a rotation does.
func write(t testing.TB, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		t.Fatal(err)
	}
	Move(t, path+".new", path)
}
