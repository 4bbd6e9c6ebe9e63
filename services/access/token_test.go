package access

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
)

const (
	issuer   = "https://login.example.org"
	audience = "titrate"
)

// signer signs JWTs with one key.
type signer struct {
	private any
	alg     jose.SignatureAlgorithm
	id      string
}

func newSigner(t *testing.T, id string) signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return signer{key, jose.ES256, id}
}

// sign makes a JWT that is good but for the claims given.
func (s signer) sign(t *testing.T, claims map[string]any) string {
	t.Helper()
	all := map[string]any{"iss": issuer, "aud": audience, "sub": "alice", "exp": time.Now().Add(time.Hour).Unix()}
	for name, value := range claims {
		if all[name] = value; value == nil {
			delete(all, name)
		}
	}
	with, err := jose.NewSigner(jose.SigningKey{Algorithm: s.alg, Key: jose.JSONWebKey{Key: s.private, KeyID: s.id}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(with).Claims(all).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// keySet is the text of a JWK set of public keys.
func keySet(t *testing.T, signers ...signer) string {
	t.Helper()
	var set jose.JSONWebKeySet
	for _, s := range signers {
		public := s.private.(crypto.Signer).Public()
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: public, KeyID: s.id, Algorithm: string(s.alg), Use: "sig"})
	}
	text, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// entry is a line of a token file.
func entry(name, token, rest string) string {
	digest := sha256.Sum256([]byte(token))
	return fmt.Sprintf("  - {name: %s, sha256: %s, %s}\n", name, hex.EncodeToString(digest[:]), rest)
}

// tokenTest is a guard that knows certificates, tokens and JWTs.
type tokenTest struct {
	*Guard
	signer       signer
	tokens, keys string // files
	log          *bytes.Buffer
}

const tokenPolicy = policy + `  - {subject: "team-acme-*", role: editor, tenants: [acme]}
`

func withTokens(t *testing.T) *tokenTest {
	t.Helper()
	dir := t.TempDir()
	out := &tokenTest{signer: newSigner(t, "one"), tokens: filepath.Join(dir, "tokens.yaml"),
		keys: filepath.Join(dir, "keys.json"), log: &bytes.Buffer{}}
	write(t, filepath.Join(dir, "policy.yaml"), tokenPolicy)
	write(t, out.tokens, "tokens:\n"+entry("reader", "secret-viewer", "role: viewer")+
		entry("ci-acme", "secret-editor", "role: editor, tenants: [acme]")+
		entry("ops", "secret-admin", "role: admin")+
		entry("old", "secret-old", "role: admin, expires: 2020-01-01"))
	write(t, out.keys, keySet(t, out.signer))
	var err error
	out.Guard, err = Open(Settings{Policy: filepath.Join(dir, "policy.yaml"), Tokens: out.tokens,
		JWT: JWT{Keys: out.keys, Issuer: issuer, Audience: audience}, Log: slog.New(slog.NewTextHandler(out.log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// sends adds a token to a call.
func sends(ctx context.Context, token string) context.Context {
	return metadata.NewIncomingContext(ctx, metadata.Pairs("authorization", "Bearer "+token))
}

// roleCase is a caller with a role, by one kind of credential.
type roleCase struct {
	ctx  context.Context
	name string
	role Role
}

// callers are each role by each kind of credential.
func (g *tokenTest) callers(t *testing.T) (out []roleCase) {
	certificates := map[Role]string{Agent: "spiffe://x/agent/a1", Viewer: "spiffe://x/viewer",
		Editor: "spiffe://x/acme", Admin: "ops.example.com"}
	for role, id := range certificates {
		out = append(out, roleCase{caller(id), id, role})
	}
	tokens := map[Role]string{Viewer: "reader", Editor: "ci-acme", Admin: "ops"}
	for role, name := range tokens {
		ctx := sends(context.Background(), "secret-"+string(role))
		out = append(out, roleCase{ctx, "token:" + name, role},
			// A token counts and the certificate sent with it does not.
			roleCase{sends(caller("ops.example.com"), "secret-"+string(role)), "token:" + name, role})
		claims := map[string]any{"sub": string(role), "titrate_role": string(role)}
		if role == Editor {
			claims["titrate_tenants"] = []string{"acme"}
		}
		out = append(out, roleCase{sends(context.Background(), g.signer.sign(t, claims)), "jwt:" + string(role), role})
	}
	byPolicy := g.signer.sign(t, map[string]any{"sub": "team-acme-7"})
	return append(out, roleCase{sends(context.Background(), byPolicy), "jwt:team-acme-7", Editor})
}

// Each method is for the same roles whatever the caller is known by.
func TestEachMethodForEachRoleByEachCredential(t *testing.T) {
	g := withTokens(t)
	may := map[Role][]Role{known: {Agent, Viewer, Editor, Admin}, Viewer: {Viewer, Editor, Admin},
		Editor: {Editor, Admin}, Admin: {Admin}, Agent: {Agent}}
	methods := []string{"/titrate.control.v1alpha1.ControlService/Connect",
		"/titrate.quota.v1alpha1.AccessService/GetAccess"}
	for name := range quotaRules {
		methods = append(methods, "/titrate.quota.v1alpha1.QuotaService/"+name)
	}
	for _, c := range g.callers(t) {
		for _, method := range methods {
			got, err := g.admit(c.ctx, method, about("tenants/acme/limits/l"))
			switch want := slices.Contains(may[need(method)], c.role); {
			case want && (err != nil || got.Name != c.name):
				t.Errorf("%s by %s: %v, %v", method, c.name, got, err)
			case !want && (status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), c.name)):
				t.Errorf("%s by %s: %v", method, c.name, err)
			}
		}
		const apply = "/titrate.quota.v1alpha1.QuotaService/Apply"
		if _, err := g.admit(c.ctx, apply, about("tenants/bolt")); (err == nil) != (c.role == Admin) {
			t.Errorf("another tenant by %s: %v", c.name, err)
		}
	}
	if g.Refused()[byRole] == 0 {
		t.Error("refusals are not counted")
	}
}

// What is not a good token is refused with the reason, also with a good certificate.
func TestTokensThatAreNotGood(t *testing.T) {
	g := withTokens(t)
	g.refusals.sometimes.Interval = time.Hour
	admin := map[string]any{"titrate_role": "admin"}
	with := func(name string, value any) string {
		return g.signer.sign(t, map[string]any{"titrate_role": "admin", name: value})
	}
	stranger, shared := newSigner(t, "one"), signer{make([]byte, 32), jose.HS256, "one"}
	unsigned := "eyJhbGciOiJub25lIn0." + strings.Split(g.signer.sign(t, admin), ".")[1] + "."
	good := g.signer.sign(t, admin)
	if _, err := g.authenticate(sends(context.Background(), good)); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct{ token, reason string }{
		"wrong":             {"secret-wrong", "neither one of --tokens nor a JWT"},
		"expired token":     {"secret-old", "token old has expired at 2020-01-01"},
		"expired JWT":       {with("exp", time.Now().Add(-2*time.Minute).Unix()), "expired at"},
		"without end":       {with("exp", nil), "no claim exp"},
		"not yet":           {with("nbf", time.Now().Add(time.Hour).Unix()), "not good before"},
		"issued in future":  {with("iat", time.Now().Add(time.Hour).Unix()), "issued in the future"},
		"another issuer":    {with("iss", "https://evil"), `iss is "https://evil": want "` + issuer},
		"another audience":  {with("aud", "other"), `want "titrate"`},
		"without a subject": {with("sub", nil), "claim sub is missing"},
		"another key":       {stranger.sign(t, admin), "is of no key in --jwks"},
		"shared secret":     {shared.sign(t, admin), "neither one of --tokens nor a JWT"},
		"alg none":          {unsigned, "neither one of --tokens nor a JWT"},
		"changed":           {good[:len(good)-6] + "AAAAAA", "is of no key in --jwks"},
	} {
		before := g.Refused()[byToken]
		_, err := g.admit(sends(caller("ops.example.com"), c.token), quotaService+"GetPool", nothing)
		if status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: %v, want %q", what, err, c.reason)
		}
		if g.Refused()[byToken] != before+1 {
			t.Errorf("%s: not counted", what)
		}
		if strings.Contains(err.Error()+g.log.String(), c.token) {
			t.Errorf("%s: the token is written out", what)
		}
	}
	if n := strings.Count(g.log.String(), "who calls is not known"); n != 1 {
		t.Errorf("%d lines in the log, want 1 in each interval: anybody could fill it", n)
	}
}

// An authorization that is not one bearer token is refused, and so is a call with nothing.
func TestAuthorization(t *testing.T) {
	g := withTokens(t)
	for _, c := range []struct {
		sent   metadata.MD
		reason string
	}{
		{metadata.Pairs("authorization", "Basic b3BzOng="), "not \"Bearer TOKEN\""},
		{metadata.Pairs("authorization", "Bearer "), "not \"Bearer TOKEN\""},
		{metadata.Pairs("authorization", "Bearer secret-admin", "authorization", "Bearer secret-editor"), "more than one"},
		{metadata.MD{}, "no credentials"},
	} {
		ctx := metadata.NewIncomingContext(peer.NewContext(t.Context(), &peer.Peer{Addr: &net.TCPAddr{}}), c.sent)
		_, err := g.admit(ctx, quotaService+"GetPool", nothing)
		if status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%v: %v", c.sent, err)
		}
	}
	if g.Refused()[byNothing] != 1 {
		t.Error("a call without credentials is not counted")
	}
	plain, _ := guard(t)
	_, err := plain.admit(sends(caller("ops.example.com"), "x"), quotaService+"GetPool", nothing)
	if status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), "takes no tokens") {
		t.Errorf("a token where none is taken: %v", err)
	}
}

// Tokens and keys that are replaced in their files count at once; a file that cannot be read changes nothing and is
// reported.
func TestTokensAndKeysAreReadAgain(t *testing.T) {
	g := withTokens(t)
	may := func(token string) bool {
		_, err := g.authenticate(sends(context.Background(), token))
		return err == nil
	}
	next := newSigner(t, "two-2026")
	before, after := g.signer.sign(t, nil), next.sign(t, nil)
	if !may(before) || may(after) || !may("secret-admin") {
		t.Fatal("before anything changes")
	}
	write(t, g.keys, keySet(t, g.signer, next))
	if !may(before) || !may(after) {
		t.Error("while both keys are in the file")
	}
	write(t, g.keys, keySet(t, next))
	write(t, g.tokens, "tokens:\n"+entry("newer", "secret-newer-token", "role: admin"))
	if may(before) || !may(after) || may("secret-admin") || !may("secret-newer-token") {
		t.Error("after the rotation")
	}
	if err := g.Trouble(); err != nil {
		t.Error(err)
	}
	write(t, g.keys, "{}")
	if err := os.Remove(g.tokens); err != nil {
		t.Fatal(err)
	}
	if !may(after) || !may("secret-newer-token") {
		t.Error("a file that cannot be read takes away what it had")
	}
	if err := g.Trouble(); err == nil || !strings.Contains(err.Error(), "--jwks") ||
		!strings.Contains(err.Error(), "--tokens") {
		t.Errorf("trouble: %v", err)
	}
	write(t, g.keys, keySet(t, next))
	write(t, g.tokens, "tokens: []")
	if may("secret-newer-token") || !may(after) || g.Trouble() != nil {
		t.Errorf("after both are right again: %v", g.Trouble())
	}
}

// Roles and tenants are in the claims that the settings name.
func TestClaims(t *testing.T) {
	j := &jwts{claims: map[string]string{"subject": "email", "role": "roles", "tenants": "teams"}}
	for _, c := range []struct {
		all   map[string]any
		want  []Grant
		lacks string
	}{
		{map[string]any{"roles": "viewer"}, []Grant{{Role: Viewer}}, ""},
		{map[string]any{"roles": []any{"x", "admin", "viewer", 7}}, []Grant{{Role: Viewer}, {Role: Admin}}, ""},
		{map[string]any{"roles": "editor", "teams": "acme bolt"},
			[]Grant{{Role: Editor, Tenants: []string{"acme", "bolt"}}}, ""},
		{map[string]any{"roles": "tenant-viewer", "teams": "acme"},
			[]Grant{{Role: TenantViewer, Tenants: []string{"acme"}}}, ""},
		{map[string]any{"roles": "editor"}, nil, "teams names no tenant"},
		{map[string]any{"roles": "tenant-viewer", "teams": ""}, nil, "teams names no tenant"},
		{map[string]any{"roles": "tenant-viewer", "teams": []any{"*", "", "-", "acme/limits", "tenants/acme"}}, nil,
			"teams names no tenant"},
		{map[string]any{"roles": "tenant-viewer", "teams": "* acme -"},
			[]Grant{{Role: TenantViewer, Tenants: []string{"acme"}}}, ""},
		{map[string]any{"roles": "agent"}, nil, "has none of tenant-viewer, viewer, editor, admin"},
		{map[string]any{"titrate_role": "admin"}, nil, "has none of tenant-viewer, viewer, editor, admin"},
	} {
		got, lacks := j.grants(c.all)
		if fmt.Sprint(got) != fmt.Sprint(c.want) || !strings.Contains(lacks, c.lacks) || (lacks == "") != (c.lacks == "") {
			t.Errorf("%v: %v, %q", c.all, got, lacks)
		}
	}
}

// Files and settings that would let in more than is meant are refused.
func TestFilesAndSettingsThatAreWrong(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, wrong := range []string{
		"tokens: [{name: a, sha256: short, role: viewer}]", "tokens:\n" + entry("a", "x", "role: agent"),
		"tokens:\n" + entry("a", "x", `role: tenant-viewer, tenants: ["*"]`),
		"tokens:\n" + entry("a", "x", `role: tenant-viewer, tenants: [acme, "-"]`),
		"tokens:\n" + entry("a", "x", "role: editor"), "tokens:\n" + entry("''", "x", "role: viewer"),
		"tokens:\n" + entry("a", "x", "role: viewer, tenants: [b]"), "tokens:\n" + entry("a", "x", "role: viewer, id: b"),
		"tokens:\n" + entry("a", "x", "role: viewer") + entry("a", "y", "role: viewer"),
		"tokens:\n" + entry("a", "x", "role: viewer") + entry("b", "x", "role: viewer"),
	} {
		write(t, path, wrong)
		if _, err := ReadTokens(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", wrong, err)
		}
	}
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	private, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: newSigner(t, "").private}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []string{"{}", "[", string(private), `{"keys":[{"kty":"oct","k":"AAAA"}]}`,
		keySet(t, signer{short, jose.RS256, ""})} {
		write(t, path, wrong)
		if _, err := fromFile(path, parseKeys); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", wrong, err)
		}
	}
	for _, j := range []JWT{{Issuer: "x"}, {Keys: "x"}, {Keys: "x", Issuer: "x"},
		{Keys: "x", Issuer: "x", Audience: "x", Claims: map[string]string{"rule": "x"}}} {
		if j.Check() == nil {
			t.Errorf("%+v passes", j)
		}
	}
	write(t, path, "grants: [{subject: a, role: agent}]")
	if _, err := Read(path); err == nil {
		t.Error("a JWT makes an agent")
	}
}

// GetAccess answers as the guard would decide.
func TestGetAccess(t *testing.T) {
	g := withTokens(t)
	s := NewServer(g.Guard)
	ask := func(ctx context.Context, verb, name string) (*quotav1.GetAccessResponse, error) {
		r := &quotav1.GetAccessRequest{Verb: verb, Resource: name}
		info := &grpc.UnaryServerInfo{FullMethod: "/titrate.quota.v1alpha1.AccessService/GetAccess"}
		out, err := g.Unary(ctx, r, info, func(ctx context.Context, r any) (any, error) {
			return s.GetAccess(ctx, r.(*quotav1.GetAccessRequest))
		})
		got, _ := out.(*quotav1.GetAccessResponse)
		return got, err
	}
	for _, c := range g.callers(t) {
		for verb, method := range verbs {
			for _, name := range []string{"tenants/acme/limits/l", "tenants/bolt", "pools/api"} {
				_, err := g.admit(c.ctx, quotaService+method, about(name))
				got, why := ask(c.ctx, verb, name)
				if why != nil || got.GetAllowed() != (err == nil) || got.GetAllowed() != (got.GetReason() == "") {
					t.Errorf("%s: can %s %s: %v, %v; doing it: %v", c.name, verb, name, got, why, err)
				}
			}
		}
		got, err := ask(c.ctx, "connect", "")
		if err != nil || got.GetAllowed() != (c.role == Agent) {
			t.Errorf("%s: can connect: %v, %v", c.name, got, err)
		}
		if got, err = ask(c.ctx, "", ""); err != nil || got.GetCaller() != c.name || got.GetGrants()[0].GetRole() !=
			string(c.role) {
			t.Errorf("%s: %v, %v", c.name, got, err)
		}
	}
	for _, wrong := range [][2]string{{"eat", ""}, {"apply", ""}, {"apply", "acme"}} {
		if _, err := ask(caller("ops.example.com"), wrong[0], wrong[1]); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v: %v", wrong, err)
		}
	}
	open, err := NewServer(nil).GetAccess(t.Context(), &quotav1.GetAccessRequest{Verb: "rollback"})
	if err != nil || !open.GetAllowed() || open.GetCredential() != "" {
		t.Errorf("without a guard: %v, %v", open, err)
	}
}

// Where agents show no certificates, any client that can connect may be one; the API wants a token.
func TestAgentsWithoutCertificates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	write(t, path, "tokens:\n"+entry("ops", "secret-admin", "role: admin"))
	g, err := Open(Settings{Tokens: path, AgentsUnknown: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	info := &grpc.StreamServerInfo{FullMethod: "/titrate.control.v1alpha1.ControlService/Connect"}
	err = g.Stream(nil, &incoming{ctx: context.Background(), agent: "a1"}, info, func(_ any, s grpc.ServerStream) error {
		g.review()
		if err := s.RecvMsg(&controlv1.ConnectRequest{}); err != nil {
			return err
		}
		return s.Context().Err()
	})
	if err != nil {
		t.Error(err)
	}
	if g.check(context.Background(), quotaService+"GetPool", nil) == nil {
		t.Error("the API is open, too")
	}
}

// No text is a good JWT unless a key has signed it, and no text makes a panic.
func FuzzJWT(f *testing.F) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public()}}})
	if err != nil {
		f.Fatal(err)
	}
	path := filepath.Join(f.TempDir(), "keys")
	if err := os.WriteFile(path, keys, 0o600); err != nil {
		f.Fatal(err)
	}
	j, err := openJWTs(JWT{Keys: path, Issuer: issuer, Audience: audience}, slog.New(slog.DiscardHandler))
	if err != nil {
		f.Fatal(err)
	}
	f.Add("eyJhbGciOiJub25lIn0.e30.")
	f.Add("eyJhbGciOiJFUzI1NiJ9.e30.AAAA")
	f.Fuzz(func(t *testing.T, token string) {
		if c, err := j.caller(token, time.Now()); err == nil {
			t.Errorf("%q makes %s", token, c.Name)
		}
	})
}
