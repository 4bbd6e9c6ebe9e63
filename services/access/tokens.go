package access

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"
)

// Token is one bearer token of a token file:
//
//	tokens:
//	  - name: ci-acme
//	    sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
//	    role: editor
//	    tenants: [acme]
//	    expires: 2027-06-30
//
// The file has the SHA-256 of the token in hexadecimal, never the token. A token must be
// random, of 128 bits at least: a reader of the file could guess a password.
type Token struct {
	Name    string   `yaml:"name"`
	SHA256  string   `yaml:"sha256"`
	Role    Role     `yaml:"role"`    // tenant-viewer, viewer, editor or admin
	Tenants []string `yaml:"tenants"` // of an editor or a tenant-viewer
	Ceiling *Ceiling `yaml:"ceiling"` // of an editor
	// TakeOver is as in Grant.
	TakeOver bool      `yaml:"takeOver"`
	Expires  time.Time `yaml:"expires"` // a date or a time; absent = never

	digest [sha256.Size]byte
}

// ReadTokens reads a token file. Unknown fields, names and tokens that are there twice, and
// roles that no token can have are errors.
func ReadTokens(path string) ([]Token, error) { return fromFile(path, parseTokens) }

func parseTokens(text []byte) ([]Token, error) {
	var file struct {
		Tokens []Token `yaml:"tokens"`
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil {
		return nil, err
	}
	names, digests := map[string]bool{}, map[[sha256.Size]byte]bool{}
	for i := range file.Tokens {
		t := &file.Tokens[i]
		err := t.check()
		if err == nil && (names[t.Name] || digests[t.digest]) {
			err = fmt.Errorf("name %q or its sha256 is there twice: want each once", t.Name)
		}
		if err != nil {
			return nil, fmt.Errorf("tokens[%d]: %w", i, err)
		}
		names[t.Name], digests[t.digest] = true, true
	}
	return file.Tokens, nil
}

// check reports what is wrong with a token, and reads its digest. It repeats no value of
// sha256: the token itself may stand there by mistake.
func (t *Token) check() error {
	digest, err := hex.DecodeString(t.SHA256)
	switch {
	case t.Name == "":
		return errors.New("name is missing: the history and the audit log call the caller token:NAME")
	case err != nil || len(digest) != sha256.Size:
		return fmt.Errorf("%s: sha256 is not 64 hexadecimal digits: want the SHA-256 of the token", t.Name)
	case !slices.Contains([]Role{TenantViewer, Viewer, Editor, Admin}, t.Role):
		return fmt.Errorf("%s: role %q: want tenant-viewer, viewer, editor or admin", t.Name, t.Role)
	}
	t.digest = [sha256.Size]byte(digest)
	if err := checkTenants(t.Role, t.Tenants, t.Ceiling, t.TakeOver); err != nil {
		return fmt.Errorf("%s: %w", t.Name, err)
	}
	return nil
}

// find returns the entry of a token, nil if there is none. It takes as long whichever it is.
func find(tokens []Token, token string) (found *Token) {
	digest := sha256.Sum256([]byte(token))
	for i := range tokens {
		if subtle.ConstantTimeCompare(tokens[i].digest[:], digest[:]) == 1 {
			found = &tokens[i]
		}
	}
	return found
}

// caller returns the Caller of the token.
func (t *Token) caller(now time.Time) (*Caller, error) {
	if !t.Expires.IsZero() && !now.Before(t.Expires) {
		return nil, fmt.Errorf("token %s has expired at %s", t.Name, t.Expires.Format(time.RFC3339))
	}
	return &Caller{Name: "token:" + t.Name, By: ByToken, Expires: t.Expires,
		own: []Grant{{Role: t.Role, Tenants: t.Tenants, Ceiling: t.Ceiling, TakeOver: t.TakeOver}}}, nil
}
