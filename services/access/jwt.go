package access

import (
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// JWT says which JWTs are good.
type JWT struct {
	Keys     string // file with a JWK set of public keys; "" = no JWT is good
	Issuer   string // that iss must be
	Audience string // that aud must have
	// Claims are the names of the claims for subject, role and tenants. Default sub, titrate_role, titrate_tenants.
	Claims map[string]string
}

// JWTClaims are the names of claims that are used where JWT.Claims has no other.
var JWTClaims = map[string]string{"subject": "sub", "role": "titrate_role", "tenants": "titrate_tenants"}

const (
	// leeway bounds the difference between the clocks of issuer and coordinator. Longer takes a token for longer after
	// its end.
	leeway = time.Minute
	// leastRSA is the length of the shortest RSA key that is taken, bits.
	leastRSA = 2048
)

// algorithms are the accepted signatures: with a public key. "none" and signatures with a shared secret are refused.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512,
	jose.ES256, jose.ES384, jose.ES512, jose.EdDSA}

// Check reports what is wrong with the settings.
func (j *JWT) Check() error {
	switch {
	case j.Keys == "" && (j.Issuer != "" || j.Audience != "" || len(j.Claims) > 0):
		return errors.New("--jwt-issuer, --jwt-audience and --jwt-claims are about JWTs: give --jwks, too")
	case j.Keys != "" && (j.Issuer == "" || j.Audience == ""):
		return errors.New("--jwks needs --jwt-issuer and --jwt-audience: without them a token that was made for " +
			"somebody else would be good here")
	}
	for name, claim := range j.Claims {
		if JWTClaims[name] == "" || claim == "" {
			return fmt.Errorf("--jwt-claims %s=%s: want NAME=CLAIM with NAME one of %s", name, claim,
				strings.Join(slices.Sorted(maps.Keys(JWTClaims)), ", "))
		}
	}
	return nil
}

// jwts takes JWTs.
type jwts struct {
	of     JWT
	claims map[string]string
	keys   *reread[[]jose.JSONWebKey]
}

func openJWTs(of JWT, log *slog.Logger) (*jwts, error) {
	j := &jwts{of: of, claims: maps.Clone(JWTClaims)}
	maps.Copy(j.claims, of.Claims)
	var err error
	j.keys, err = open("the key set (--jwks)", of.Keys, log, parseKeys)
	return j, err
}

// parseKeys reads the keys of a JWK set that signatures can be checked with.
func parseKeys(text []byte) (keys []jose.JSONWebKey, err error) {
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("want a JWK set, {\"keys\": […]}: %w", err)
	}
	for i, key := range set.Keys {
		short, isRSA := key.Key.(*rsa.PublicKey)
		switch {
		case !key.IsPublic() || !key.Valid():
			return nil, fmt.Errorf("keys[%d]: a private or shared key: want public keys only", i)
		case isRSA && short.N.BitLen() < leastRSA:
			return nil, fmt.Errorf("keys[%d]: an RSA key of %d bits: want %d at least", i, short.N.BitLen(), leastRSA)
		}
		if key.Use == "" || key.Use == "sig" {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("no key for signatures in it")
	}
	return keys, nil
}

// caller returns the Caller that a JWT names. An error says why the JWT is not good.
func (j *jwts) caller(token string, now time.Time) (*Caller, error) {
	parsed, err := jwt.ParseSigned(token, algorithms)
	if err != nil {
		return nil, fmt.Errorf("the token is neither one of --tokens nor a JWT with a good algorithm: %w", err)
	}
	var claims jwt.Claims
	var all map[string]any
	if err := j.verify(parsed, &claims, &all); err != nil {
		return nil, err
	}
	if err := j.valid(&claims, now); err != nil {
		return nil, err
	}
	subject, _ := all[j.claims["subject"]].(string)
	if subject == "" {
		return nil, fmt.Errorf("the JWT's claim %s is missing: want the name of its owner", j.claims["subject"])
	}
	c := &Caller{Name: "jwt:" + subject, By: ByJWT, Expires: claims.Expiry.Time(), subject: subject}
	c.own, c.lacks = j.grants(all)
	return c, nil
}

// verify reads the claims of a JWT whose signature is of one of the keys.
func (j *jwts) verify(t *jwt.JSONWebToken, claims *jwt.Claims, all *map[string]any) error {
	header := t.Headers[0]
	for _, key := range j.keys.current() {
		if header.KeyID != "" && header.KeyID != key.KeyID || key.Algorithm != "" && key.Algorithm != header.Algorithm {
			continue
		}
		if err := t.Claims(key.Key, claims, all); !errors.Is(err, jose.ErrCryptoFailure) {
			return err // nil, or what is wrong with a JWT of this key
		}
	}
	return fmt.Errorf("the JWT's signature (key id %q, %s) is of no key in --jwks", header.KeyID, header.Algorithm)
}

// valid holds the claims to issuer, audience and time.
func (j *jwts) valid(c *jwt.Claims, now time.Time) error {
	if c.Expiry == nil {
		return errors.New("the JWT has no claim exp: want a JWT with an end")
	}
	err := c.ValidateWithLeeway(jwt.Expected{Issuer: j.of.Issuer, AnyAudience: jwt.Audience{j.of.Audience}, Time: now},
		leeway)
	switch {
	case errors.Is(err, jwt.ErrInvalidIssuer):
		return fmt.Errorf("the JWT's iss is %q: want %q", c.Issuer, j.of.Issuer)
	case errors.Is(err, jwt.ErrInvalidAudience):
		return fmt.Errorf("the JWT's aud is %q: want %q", []string(c.Audience), j.of.Audience)
	case errors.Is(err, jwt.ErrExpired):
		return fmt.Errorf("the JWT has expired at %s", c.Expiry.Time().UTC().Format(time.RFC3339))
	case errors.Is(err, jwt.ErrNotValidYet):
		return fmt.Errorf("the JWT is not good before %s", c.NotBefore.Time().UTC().Format(time.RFC3339))
	}
	return err
}

// grants are the roles that the claims give. lacks says why there are none.
func (j *jwts) grants(all map[string]any) (out []Grant, lacks string) {
	role, tenants := j.claims["role"], texts(all[j.claims["tenants"]])
	roles := texts(all[role])
	one := slices.DeleteFunc(slices.Clone(tenants), notTenant)
	for _, r := range []Role{TenantViewer, Viewer, Editor, Admin} {
		switch {
		case !slices.Contains(roles, string(r)):
		case r == Viewer, r == Admin:
			out = append(out, Grant{Role: r})
		case r == TenantViewer && len(one) > 0:
			out = append(out, Grant{Role: r, Tenants: one})
		case r == Editor && len(tenants) > 0:
			out = append(out, Grant{Role: r, Tenants: tenants})
		default:
			lacks = fmt.Sprintf("; its claim %s has %s, and %s names no tenant", role, r, j.claims["tenants"])
		}
	}
	if out == nil && lacks == "" {
		lacks = fmt.Sprintf("; its claim %s has none of tenant-viewer, viewer, editor, admin", role)
	}
	return out, lacks
}

// texts are the words of a claim: of a list of texts, or of one text.
func texts(claim any) (out []string) {
	switch claim := claim.(type) {
	case string:
		return strings.Fields(claim)
	case []any:
		for _, one := range claim {
			if text, is := one.(string); is {
				out = append(out, text)
			}
		}
	}
	return out
}
