package telemetry

import (
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/spf13/pflag"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// Security is the TLS material of a process, and whether it may do without.
//
// As a server: Cert and Key make it TLS; CA makes it mutual, and only clients with a certificate that the CA signed get
// in. As a client: CA (or Cert) makes it TLS, CA is who may sign the server (default: the system's roots), Cert and Key
// are the client's certificate. Files that change are read again without a restart.
type Security struct {
	Cert, Key, CA string // PEM files
	// Insecure permits a port without TLS beyond loopback.
	Insecure bool
	// Optional lets clients in that show no certificate although there is a CA: they are known
	// by something else, such as a token. A certificate that is shown must be of the CA.
	Optional bool
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
	fs.StringVar(&s.CA, "tls-ca", "",
		"PEM file with the CA that the other side's certificate must be signed by; on a server it demands client "+
			"certificates")
}

// check refuses half a pair and a server CA without a certificate.
func (s Security) check() error {
	if (s.Cert == "") != (s.Key == "") {
		return errors.New("--tls-cert and --tls-key belong together: give both or neither")
	}
	return nil
}

// Given reports whether there are TLS files at all.
func (s Security) Given() bool { return s.Cert != "" || s.Key != "" || s.CA != "" }

// ServerTLS is the configuration of a server: nil without a certificate. Client certificates are demanded when a CA is
// given. Each handshake uses what the files hold at that moment.
func (s Security) ServerTLS() (*tls.Config, error) {
	f, err := s.open()
	if err != nil || s.Cert == "" {
		return nil, err
	}
	config := f.server()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return f.server(), nil }
	return config, nil
}

// ServerCredentials are ServerTLS for gRPC; plaintext without a certificate.
func (s Security) ServerCredentials() (credentials.TransportCredentials, error) {
	config, err := s.ServerTLS()
	if err != nil {
		return nil, err
	}
	if config == nil {
		return insecure.NewCredentials(), nil
	}
	return credentials.NewTLS(config), nil
}

// ClientCredentials returns the credentials of a gRPC client; plaintext without TLS files. Each handshake uses what the
// files hold at that moment.
func (s Security) ClientCredentials() (credentials.TransportCredentials, error) {
	if c, err := s.TLSCredentials(); c != nil || err != nil {
		return c, err
	}
	return insecure.NewCredentials(), nil
}

// TLSCredentials are ClientCredentials, but nil without TLS files.
func (s Security) TLSCredentials() (credentials.TransportCredentials, error) {
	f, err := s.open()
	if err != nil || !s.Given() {
		return nil, err
	}
	return newClientCredentials(f), nil
}

// pair reads the certificate and its key.
func (s Security) pair() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(s.Cert, s.Key)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert %s and --tls-key %s: %w", s.Cert, s.Key, err)
	}
	return &pair, nil
}
