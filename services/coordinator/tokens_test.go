package coordinator_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/titrate/titrate/envoy-filter/certtest"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/access"
	"github.com/titrate/titrate/services/coordinator"
	"github.com/titrate/titrate/services/telemetry"
)

// Callers with tokens and JWTs come over TLS without a certificate, to the admin API alone.
// The audit log names them; a key that is replaced in its file counts without a restart.
func TestTokensOverTLS(t *testing.T) {
	keys, tokens := filepath.Join(t.TempDir(), "keys.json"), filepath.Join(t.TempDir(), "tokens.yaml")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	one, two := newIssuer(t, "one"), newIssuer(t, "second")
	write(keys, one.set)
	write(tokens, fmt.Sprintf("tokens: [{name: ci, sha256: %x, role: editor, tenants: [acme], ceiling: {burst: 20}}]",
		sha256.Sum256([]byte("s"))))
	g := startGuarded(t, func(c *coordinator.Config) {
		c.Tokens = tokens
		c.JWT = access.JWT{Keys: keys, Issuer: "https://login", Audience: "titrate"}
	})
	g.apply(pool("api", 100), tenant("acme", 1), tenant("bolt", 1))
	trust := telemetry.Security{CA: certtest.Bundle(t, g.ca)}
	anonymous, err := trust.ClientCredentials()
	if err != nil {
		t.Fatal(err)
	}
	api := quotav1.NewQuotaServiceClient(g.dial(g.c.Address(), anonymous))
	change := func(token, of, id string) codes.Code {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
		r := limit(of)
		r.GetLimit().Name = "tenants/" + of + "/limits/" + id
		_, err := api.Apply(ctx, &quotav1.ApplyRequest{Resources: []*quotav1.Resource{r}})
		return status.Code(err)
	}
	first, second := one.token(t, "alice", "acme"), two.token(t, "bob", "bolt")
	for _, c := range []struct {
		token, of string
		want      codes.Code
	}{
		{"s", "acme", codes.OK}, {"s", "bolt", codes.PermissionDenied}, {"wrong", "acme", codes.Unauthenticated},
		{first, "acme", codes.OK}, {first, "bolt", codes.PermissionDenied}, {second, "bolt", codes.Unauthenticated},
	} {
		if got := change(c.token, c.of, "by-"+c.token[:1]); got != c.want {
			t.Errorf("%.8s changes %s: %v, want %v", c.token, c.of, got, c.want)
		}
	}
	over := limit("acme")
	over.GetLimit().Burst = 21
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer s")
	_, err = api.CreateLimit(ctx, &quotav1.CreateLimitRequest{Parent: "tenants/acme", Limit: over.GetLimit()})
	if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "burst 21 is above 20") {
		t.Errorf("above the ceiling: %v", err)
	}
	write(keys, two.set)
	if got := change(second, "bolt", "by-bob"); got != codes.OK {
		t.Errorf("of the new key: %v", got)
	}
	if got := change(first, "acme", "again"); got != codes.Unauthenticated {
		t.Errorf("of the key that is gone: %v", got)
	}
	g.audited("token:ci", "created", "tenants/acme/limits/by-s", "", `"rate":"10/s"`)
	g.audited("jwt:bob", "created", "tenants/bolt/limits/by-bob", "", `"rate":"10/s"`)
	if _, err := api.ListPools(t.Context(), &quotav1.ListPoolsRequest{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without credentials: %v", err)
	}
	if _, err := g.connected(g.dial(g.c.AgentAddress(), anonymous), "a1"); status.Code(err) != codes.Unavailable {
		t.Errorf("the agents' port without a certificate: %v", err)
	}
	g.open("a1", g.credentials(g.ca, "spiffe://x/agent/a1"))
}

// issuer makes JWTs with one key.
type issuer struct {
	signer jose.Signer
	set    string // its key set
}

func newIssuer(t *testing.T, id string) issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: id}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: id}}})
	if err != nil {
		t.Fatal(err)
	}
	return issuer{signer, string(set)}
}

// token makes an editor of a tenant.
func (i issuer) token(t *testing.T, subject, tenant string) string {
	t.Helper()
	token, err := jwt.Signed(i.signer).Claims(map[string]any{"iss": "https://login", "aud": "titrate", "sub": subject,
		"exp": time.Now().Add(time.Hour).Unix(), "titrate_role": "editor", "titrate_tenants": tenant}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// No token is taken on a port where a listener on the way could read it; on a separate port tokens are enough for the
// admin API.
func TestTokensNeedTLS(t *testing.T) {
	ca := certtest.New(t)
	cert, key := ca.Issue(t)
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("tokens: []"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		set  func(*coordinator.Config)
		want string
	}{
		{func(c *coordinator.Config) { c.Security.Insecure = true }, "could read tokens"},
		{func(c *coordinator.Config) { c.Security.Cert, c.Security.Key = cert, key }, "--tls-ca"},
		{func(c *coordinator.Config) {
			c.Security.Cert, c.Security.Key, c.ListenAgents = cert, key, "127.0.0.1:0"
		}, ""},
		{func(c *coordinator.Config) { c.Listen, c.Advertise = "127.0.0.1:0", "" }, ""},
		{func(c *coordinator.Config) { c.Listen, c.Tokens = "127.0.0.1:0", tokens+"x" }, "--tokens: "},
		{func(c *coordinator.Config) { c.JWT.Issuer = "x" }, "give --jwks"},
	} {
		config := coordinator.Config{EtcdEndpoints: []string{"127.0.0.1:1"}, Listen: "0.0.0.0:0", Admin: "127.0.0.1:0",
			Advertise: "x:1", AccessConfig: coordinator.AccessConfig{Tokens: tokens}, Log: slog.New(slog.DiscardHandler)}
		c.set(&config)
		o, err := config.Complete(t.Context())
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v", c.want, err)
		}
		if err == nil {
			ctx, stop := context.WithCancel(t.Context())
			stop()
			_ = o.Run(ctx)
		}
	}
}
