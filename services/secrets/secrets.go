package secrets

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
)

// Names of the parts of a secret: those of a certificate are Kubernetes' own.
const (
	caPart, certPart, keyPart = "ca.crt", "tls.crt", "tls.key"
	gossipPart                = "gossip.key"
)

// gossipBytes is the length of a gossip key: AES-256.
const gossipBytes = 32

// Certificate is one of a set: the secret that it is put into, and the DNS names and IP addresses that it is for.
type Certificate struct {
	Secret string
	Names  []string
}

// Wanted is a set of certificates of one CA, and secrets with a gossip key each.
type Wanted struct {
	Certificates []Certificate
	GossipKeys   []string
}

// Secret is one named secret: parts by name.
type Secret struct {
	Name  string
	Parts map[string][]byte
}

// Place is a store of secrets.
type Place interface {
	// Has reports whether the secret is there with all of the parts.
	Has(ctx context.Context, name string, parts ...string) (bool, error)
	// Put creates or replaces the secret.
	Put(ctx context.Context, s Secret) error
}

// Make puts what is missing, and returns the names of the secrets that it made and of the secrets that it left as they
// were.
func Make(ctx context.Context, in Place, w Wanted) (made, kept []string, err error) {
	if len(w.Certificates)+len(w.GossipKeys) == 0 {
		return nil, nil, errors.New("nothing to make: no certificate and no gossip key is named")
	}
	set, err := missing(ctx, in, w)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range set {
		if err := in.Put(ctx, s); err != nil {
			return made, nil, fmt.Errorf("secret %s: %w", s.Name, err)
		}
		made = append(made, s.Name)
	}
	for _, name := range w.names() {
		if !contains(set, name) {
			kept = append(kept, name)
		}
	}
	return made, kept, nil
}

// missing are the secrets to put: all certificates if one is missing, and each gossip key that is.
func missing(ctx context.Context, in Place, w Wanted) ([]Secret, error) {
	whole := true
	for _, c := range w.Certificates {
		has, err := in.Has(ctx, c.Secret, caPart, certPart, keyPart)
		if err != nil {
			return nil, fmt.Errorf("secret %s: %w", c.Secret, err)
		}
		whole = whole && has
	}
	var set []Secret
	if !whole {
		var err error
		if set, err = issue(w.Certificates); err != nil {
			return nil, err
		}
	}
	for _, name := range w.GossipKeys {
		has, err := in.Has(ctx, name, gossipPart)
		if err != nil {
			return nil, fmt.Errorf("secret %s: %w", name, err)
		}
		if !has {
			set = append(set, Secret{name, map[string][]byte{gossipPart: gossipKey()}})
		}
	}
	return set, nil
}

// gossipKey is a new key as agents read it: in base64.
func gossipKey() []byte {
	key := make([]byte, gossipBytes)
	_, _ = rand.Read(key) // never fails
	return []byte(base64.StdEncoding.EncodeToString(key))
}

func (w Wanted) names() (all []string) {
	for _, c := range w.Certificates {
		all = append(all, c.Secret)
	}
	return append(all, w.GossipKeys...)
}

func contains(set []Secret, name string) bool {
	for _, s := range set {
		if s.Name == name {
			return true
		}
	}
	return false
}
