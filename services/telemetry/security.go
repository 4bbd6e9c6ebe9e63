package telemetry

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// Security is the TLS material of a process, and whether it may do without.
//
// As a server: Cert and Key make it TLS; CA makes it mutual, and only clients
// with a certificate that the CA signed get in. As a client: CA (or Cert) makes
// it TLS, CA is who may sign the server (default: the system's roots), Cert and
// Key is what the client shows.
type Security struct {
	Cert, Key, CA string // PEM files
	// Insecure permits a port without TLS beyond loopback.
	Insecure bool
}

// Flags adds --tls-cert, --tls-key, --tls-ca and --insecure.
func (s *Security) Flags(fs *pflag.FlagSet) {
	s.ClientFlags(fs)
	fs.BoolVar(&s.Insecure, "insecure", false, "allow ports beyond loopback without TLS")
}

// ClientFlags adds the TLS flags only, for a process that opens no port.
func (s *Security) ClientFlags(fs *pflag.FlagSet) {
	fs.StringVar(&s.Cert, "tls-cert", "", "PEM file with this process's certificate")
	fs.StringVar(&s.Key, "tls-key", "", "PEM file with the key of --tls-cert")
	fs.StringVar(&s.CA, "tls-ca", "", "PEM file with the CA that the other side's certificate must be signed by; on a server it demands client certificates")
}

// check refuses half a pair and a server CA without a certificate.
func (s Security) check() error {
	if (s.Cert == "") != (s.Key == "") {
		return errors.New("--tls-cert and --tls-key belong together: give both or neither")
	}
	return nil
}

// ServerTLS is the configuration of a server: nil without a certificate.
// Client certificates are demanded when a CA is given.
func (s Security) ServerTLS() (*tls.Config, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if s.Cert == "" {
		return nil, nil
	}
	if _, err := s.pair(); err != nil {
		return nil, err
	}
	config := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.pair() },
	}
	if s.CA != "" {
		pool, err := s.roots()
		if err != nil {
			return nil, err
		}
		config.ClientCAs, config.ClientAuth = pool, tls.RequireAndVerifyClientCert
	}
	return config, nil
}

// ClientTLS is the configuration of a client: nil without a CA and a certificate.
func (s Security) ClientTLS() (*tls.Config, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if s.Cert == "" && s.CA == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.CA != "" {
		pool, err := s.roots()
		if err != nil {
			return nil, err
		}
		config.RootCAs = pool
	}
	if s.Cert != "" {
		if _, err := s.pair(); err != nil {
			return nil, err
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return s.pair() }
	}
	return config, nil
}

// ServerCredentials are ServerTLS for gRPC; plaintext without a certificate.
func (s Security) ServerCredentials() (credentials.TransportCredentials, error) {
	return transport(s.ServerTLS())
}

// ClientCredentials are ClientTLS for gRPC; plaintext without TLS files.
func (s Security) ClientCredentials() (credentials.TransportCredentials, error) {
	return transport(s.ClientTLS())
}

func transport(config *tls.Config, err error) (credentials.TransportCredentials, error) {
	if err != nil {
		return nil, err
	}
	if config == nil {
		return insecure.NewCredentials(), nil
	}
	return credentials.NewTLS(config), nil
}

// pair reads the certificate and its key.
func (s Security) pair() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(s.Cert, s.Key)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert %s and --tls-key %s: %w", s.Cert, s.Key, err)
	}
	return &pair, nil
}

// roots reads the CA.
func (s Security) roots() (*x509.CertPool, error) {
	pem, err := os.ReadFile(s.CA)
	if err != nil {
		return nil, fmt.Errorf("--tls-ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--tls-ca %s: no PEM certificate in it", s.CA)
	}
	return pool, nil
}
