package secrets

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// Certificates are valid for ten years: nothing renews them but deleting their secrets. They begin an hour ago, for
// clocks that are behind.
const (
	validity = 10 * 365 * 24 * time.Hour
	backdate = time.Hour
)

// issue makes a CA and a certificate each, for servers and clients. The CA's key is dropped.
func issue(certificates []Certificate) ([]Secret, error) {
	caKey, err := newKey()
	if err != nil {
		return nil, err
	}
	ca := template("titrate-ca")
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign
	ca.ExtKeyUsage = nil
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return nil, fmt.Errorf("CA: %w", err)
	}
	set := make([]Secret, len(certificates))
	for i, c := range certificates {
		if len(c.Names) == 0 {
			return nil, fmt.Errorf("certificate of secret %s: it has no name", c.Secret)
		}
		leaf := template(c.Names[0])
		for _, name := range c.Names {
			if ip := net.ParseIP(name); ip != nil {
				leaf.IPAddresses = append(leaf.IPAddresses, ip)
			} else {
				leaf.DNSNames = append(leaf.DNSNames, name)
			}
		}
		if set[i], err = signed(c.Secret, leaf, ca, caDER, caKey); err != nil {
			return nil, fmt.Errorf("certificate of secret %s: %w", c.Secret, err)
		}
	}
	return set, nil
}

// signed makes a key and its certificate.
func signed(name string, leaf, ca *x509.Certificate, caDER []byte, caKey *ecdsa.PrivateKey) (Secret, error) {
	key, err := newKey()
	if err != nil {
		return Secret{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), caKey)
	if err != nil {
		return Secret{}, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Secret{}, err
	}
	return Secret{name, map[string][]byte{
		caPart:   inPEM("CERTIFICATE", caDER),
		certPart: inPEM("CERTIFICATE", der),
		keyPart:  inPEM("PRIVATE KEY", private),
	}}, nil
}

func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// template returns the common fields of all certificates.
func template(name string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)) // never fails
	now := time.Now()
	if len(name) > 64 { // the most that a common name may have
		name = name[:64]
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-backdate),
		NotAfter:     now.Add(validity),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
}

func inPEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
