package telemetry

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
)

// files are the TLS files of a Security as they were read last. They are read again
// at each handshake, so that a rotation needs no restart; while they cannot be read,
// what was read before stays in use and Trouble says so. Safe for concurrent use.
type files struct {
	of Security

	mu    sync.Mutex
	pair  *tls.Certificate // nil without a certificate
	roots *x509.CertPool   // nil without a CA
	text  []byte           // that roots were read from
}

// open reads the files for the first time. Then everything must be right.
func (s Security) open() (*files, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	f := &files{of: s}
	return f, f.read()
}

// read reads the files again.
func (f *files) read() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []error
	if f.of.Cert != "" {
		if pair, err := f.of.pair(); err == nil {
			f.pair = pair
		} else {
			all = append(all, err)
		}
	}
	if f.of.CA != "" {
		all = append(all, f.readRoots())
	}
	return errors.Join(all...)
}

// readRoots reads the CA again; an unchanged one stays the same pool.
func (f *files) readRoots() error {
	text, err := os.ReadFile(f.of.CA)
	if err != nil {
		return fmt.Errorf("--tls-ca: %w", err)
	}
	if bytes.Equal(text, f.text) {
		return nil
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return fmt.Errorf("--tls-ca %s: no PEM certificate in it", f.of.CA)
	}
	f.roots, f.text = roots, text
	return nil
}

// current returns what the files hold now, or held last.
func (f *files) current() (*tls.Certificate, *x509.CertPool) {
	_ = f.read() // Trouble says what is wrong
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pair, f.roots
}

// server is the configuration for one handshake of a server.
func (f *files) server() *tls.Config {
	pair, roots := f.current()
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		Certificates: []tls.Certificate{*pair}}
	if roots != nil {
		config.ClientCAs, config.ClientAuth = roots, tls.RequireAndVerifyClientCert
		if f.of.Optional {
			config.ClientAuth = tls.VerifyClientCertIfGiven
		}
		// A resumed session would not be held to a CA that was changed meanwhile.
		config.SessionTicketsDisabled = true
	}
	return config
}

// client is the configuration for one handshake of a client.
func (f *files) client() *tls.Config {
	pair, roots := f.current()
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	if pair != nil {
		config.Certificates = []tls.Certificate{*pair}
	}
	return config
}

// clientCredentials make each handshake of a gRPC client with the files of that moment.
type clientCredentials struct {
	*files
	credentials.TransportCredentials // for what is not about a handshake
}

func newClientCredentials(f *files) credentials.TransportCredentials {
	return &clientCredentials{f, credentials.NewTLS(f.client())}
}

// ClientHandshake implements credentials.TransportCredentials.
func (c *clientCredentials) ClientHandshake(ctx context.Context, authority string,
	conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return credentials.NewTLS(c.client()).ClientHandshake(ctx, authority, conn)
}

// Clone implements credentials.TransportCredentials.
func (c *clientCredentials) Clone() credentials.TransportCredentials {
	return &clientCredentials{c.files, c.TransportCredentials.Clone()}
}

// Trouble says what is wrong with the files now. They cannot be read or do not fit, so that the contents read before
// stay in use, or a certificate has expired. nil if all is well, or without files.
func (s Security) Trouble() error {
	f, err := s.open()
	if err != nil {
		return fmt.Errorf("%w; what was read before stays in use", err)
	}
	if f.pair != nil && time.Now().After(f.pair.Leaf.NotAfter) {
		return fmt.Errorf("--tls-cert %s expired at %s", s.Cert, f.pair.Leaf.NotAfter.Format(time.RFC3339))
	}
	return nil
}

// soonDays and soonPart say when a certificate is about to expire. Then less than so many days are left of it, and less
// than so much of its lifetime, so that one of a day is not always about to.
const (
	soonDays = 14
	soonPart = .2
)

// Validity is the time for which certificates are good.
type Validity struct {
	File        string // the flag and the file that it is of
	From, Until time.Time
}

// Soon returns that the certificates expire soon, or have expired; nil if they do not.
func (v Validity) Soon(now time.Time) error {
	left, part := v.Until.Sub(now), soonPart*v.Until.Sub(v.From).Seconds()
	if v.File == "" || left >= soonDays*24*time.Hour || left.Seconds() >= part {
		return nil
	}
	return fmt.Errorf("%s expires at %s", v.File, v.Until.Format(time.RFC3339))
}

// Validity returns the validity of the certificate, with the certificates that came with it, or of the CA: whichever
// ends first. Of several certificates in the file of the CA the last to end counts: it is to replace the others. The
// zero value without files.
func (s Security) Validity() (Validity, error) {
	f, err := s.open()
	if err != nil {
		return Validity{}, err
	}
	var first Validity
	if f.pair != nil {
		for _, der := range f.pair.Certificate {
			c, err := x509.ParseCertificate(der)
			if err == nil && (first.File == "" || c.NotAfter.Before(first.Until)) {
				first = Validity{"--tls-cert " + s.Cert, c.NotBefore, c.NotAfter}
			}
		}
	}
	var last Validity
	for block, rest := pem.Decode(f.text); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && c.NotAfter.After(last.Until) {
			last = Validity{"--tls-ca " + s.CA, c.NotBefore, c.NotAfter}
		}
	}
	if first.File == "" || last.File != "" && last.Until.Before(first.Until) {
		first = last
	}
	return first, nil
}

// Soon is [Validity.Soon] of the files now; nil if they cannot be read, which Trouble says.
func (s Security) Soon() error {
	v, err := s.Validity()
	if err != nil {
		return nil
	}
	return v.Soon(time.Now())
}

// Clients returns the CA that signs clients' certificates, as it is now: the same pool
// until its file changes. nil without a CA.
func (s Security) Clients() (func() *x509.CertPool, error) {
	if s.CA == "" {
		return nil, nil
	}
	f, err := Security{CA: s.CA}.open()
	if err != nil {
		return nil, err
	}
	return func() *x509.CertPool {
		_, roots := f.current()
		return roots
	}, nil
}
