package envoytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/envoy-filter/certtest"
)

func TestIdentityAddress(t *testing.T) {
	t.Parallel()
	needPeer(t)
	const home, neighbour, abroad = "127.0.0.1", "127.0.0.2", "127.0.1.1"
	who := func(tenant, forwarded string) []string {
		return headers("x-tenant", tenant, "x-user", "u", "x-forwarded-for", forwarded)
	}
	s := scenario{
		example: "identity-address.yaml",
		edits:   []edit{{"tenant: { literal: acme }", "tenant: { header: x-tenant }"}},
		tenants: []config.Tenant{
			tenant("peer", by("address", 1)), tenant("network", by("network", 1)),
			tenant("forwarded", by("forwarded", 1)), tenant("envoy", by("envoy", 1)),
			tenant("both", by("address", 2), by("", 3)),
		},
		steps: []step{
			{"an address", "/", who("peer", "192.0.2.1"), 200, home},
			{"the same, whatever it says", "/", who("peer", "192.0.2.2"), 429, home},
			{"another one", "/", who("peer", "192.0.2.1"), 200, neighbour},
			{"a network", "/", who("network", ""), 200, home},
			{"the same network", "/", who("network", ""), 429, neighbour},
			{"another network", "/", who("network", ""), 200, abroad},
			{"what a trusted proxy has written", "/", who("forwarded", "198.51.100.1, 192.0.2.1"), 200, home},
			{"the same behind another lie", "/", who("forwarded", "198.51.100.2,192.0.2.1:1234"), 429, home},
			{"the same on lines of their own", "/", headers("x-tenant", "forwarded", "x-forwarded-for", "198.51.100.3",
				"+x-forwarded-for", "192.0.2.1"), 429, home},
			{"another client", "/", who("forwarded", "192.0.2.1, 192.0.2.2"), 200, home},
			{"without a proxy the peer counts", "/", who("forwarded", ""), 200, home},
			{"and when the proxy writes no address", "/", who("forwarded", "192.0.2.77, unknown"), 429, home},
			{"a network of IPv6", "/", who("forwarded", "2001:db8:1:2::5"), 200, home},
			{"the same network", "/", who("forwarded", "[2001:db8:1:2:ffff::9]:443"), 429, home},
			{"the next one", "/", who("forwarded", "2001:db8:1:3::5"), 200, home},
			{"IPv4 in IPv6", "/", who("forwarded", "::ffff:192.0.2.1"), 429, home},
			{"Envoy's word", "/", who("envoy", "192.0.2.1"), 200, home},
			{"which here is the peer", "/", who("envoy", "192.0.2.2"), 429, home},
			{"two limits: a user at home", "/", who("both", ""), 200, home},
			{"again", "/", who("both", ""), 200, home},
			{"too much for the address", "/", who("both", ""), 429, home},
			{"but the user has one left elsewhere", "/", who("both", ""), 200, abroad},
			{"and then none", "/", who("both", ""), 429, abroad},
			{"while the address has one for others", "/", headers("x-tenant", "both", "x-user", "v"), 200, abroad},
		},
	}
	s.run(t, 2)
}

// Peers by IPv6, on a listener for both.
func TestIdentityAddressIPv6(t *testing.T) {
	t.Parallel()
	needPeer(t)
	if l, err := net.Listen("tcp", "[::1]:0"); err != nil {
		t.Skip("this machine has no IPv6: ", err)
	} else {
		l.Close()
	}
	s := scenario{
		example: "identity-address.yaml",
		edits: []edit{{"tenant: { literal: acme }", "tenant: { header: x-tenant }"},
			{"- name: ingress\n    address:\n      socket_address: { address: 127.0.0.1, port_value: 0 }",
				"- name: ingress\n    address:\n" +
					"      socket_address: { address: '::', ipv4_compat: true, port_value: 0 }"}},
		tenants: []config.Tenant{tenant("peer", by("address", 1)), tenant("network", by("network", 1))},
		via: func(e *envoy, from string) *envoy {
			if from != "::1" {
				return e.dialling(from)
			}
			six := *e
			six.front = strings.Replace(e.front, "127.0.0.1", "[::1]", 1)
			return &six
		},
		steps: []step{
			{"IPv6", "/", headers("x-tenant", "peer"), 200, "::1"},
			{"again", "/", headers("x-tenant", "peer"), 429, "::1"},
			{"IPv4 on the same socket", "/", headers("x-tenant", "peer"), 200, "127.0.0.1"},
			{"again", "/", headers("x-tenant", "peer"), 429, "127.0.0.1"},
			{"another address of IPv4", "/", headers("x-tenant", "peer"), 200, "127.0.0.2"},
			{"a network of IPv4", "/", headers("x-tenant", "network"), 200, "127.0.0.1"},
			{"which has the prefix of IPv4", "/", headers("x-tenant", "network"), 200, "127.0.1.1"},
		},
	}
	s.run(t, 1)
}

// A client can forge its address if the connection manager has its defaults and the source
// is `from: ENVOY`, as the example warns; the peer's address it cannot.
func TestForgedAddress(t *testing.T) {
	t.Parallel()
	needPeer(t)
	s := scenario{
		example: "identity-address.yaml",
		edits: []edit{{"use_remote_address: true", "use_remote_address: false"},
			{"tenant: { literal: acme }", "tenant: { header: x-tenant }"}},
		tenants: []config.Tenant{tenant("peer", by("address", 1)), tenant("envoy", by("envoy", 1))},
		steps: []step{
			{"the peer", "/", headers("x-tenant", "peer", "x-forwarded-for", "192.0.2.1"), 200, "127.0.0.1"},
			{"the same peer", "/", headers("x-tenant", "peer", "x-forwarded-for", "192.0.2.2"), 429, "127.0.0.1"},
			{"a claim", "/", headers("x-tenant", "envoy", "x-forwarded-for", "192.0.2.1"), 200, "127.0.0.1"},
			{"another claim", "/", headers("x-tenant", "envoy", "x-forwarded-for", "192.0.2.2"), 200, "127.0.0.1"},
		},
	}
	s.run(t, 1)
}

// issuer signs tokens with ES256.
type issuer struct {
	t   *testing.T
	key *ecdsa.PrivateKey
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

var b64 = base64.RawURLEncoding

// keys are the edits that make the issuer's key the example's.
func (i issuer) keys() []edit {
	point, err := i.key.PublicKey.Bytes() // 4, x, y
	if err != nil {
		i.t.Fatal(err)
	}
	return []edit{
		{"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", b64.EncodeToString(point[1:33])},
		{"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0", b64.EncodeToString(point[33:])},
	}
}

// token is an Authorization header with claims.
func (i issuer) token(claims map[string]any) []string {
	i.t.Helper()
	claims["iss"], claims["aud"], claims["exp"] = "https://issuer.example", "gateway", time.Now().Add(time.Hour).Unix()
	body, err := json.Marshal(claims)
	if err != nil {
		i.t.Fatal(err)
	}
	signed := b64.EncodeToString([]byte(`{"alg":"ES256","typ":"JWT"}`)) + "." + b64.EncodeToString(body)
	digest := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, i.key, digest[:])
	if err != nil {
		i.t.Fatal(err)
	}
	signature := append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	return headers("authorization", "Bearer "+signed+"."+b64.EncodeToString(signature))
}

// The plan that a token names decides the numbers of a limit with plans. No header does.
func TestPlanOfAToken(t *testing.T) {
	t.Parallel()
	us := issuer{t, newKey(t)}
	who := func(sub, plan string, more ...string) []string {
		return append(us.token(map[string]any{"sub": sub, "plan": plan, "org": map[string]any{"name": "acme"}}), more...)
	}
	each := by("", 1)
	each.Precision, each.Plans = config.Local, map[string]config.RateBurst{"gold": {Rate: .001, Burst: 3}}
	s := scenario{
		example: "identity-jwt.yaml",
		edits:   us.keys(),
		tenants: []config.Tenant{tenant("acme", each)},
		steps: []step{
			{"no plan", "/", us.token(map[string]any{"sub": "a", "org": map[string]any{"name": "acme"}}), 200, ""},
			{"a plan that the limit does not have", "/", who("a", "silver"), 429, ""},
			{"a header is no plan", "/", who("a", "", headers("plan", "gold", "titrate.plan", "gold")...), 429, ""},
			{"the token is another one now", "/", who("a", "gold"), 200, ""},
			{"of three", "/", who("a", "gold"), 200, ""},
			{"the last one", "/", who("a", "gold"), 200, ""},
			{"too many", "/", who("a", "gold"), 429, ""},
			{"the first bucket is as it was", "/", who("a", ""), 429, ""},
			{"another client", "/", who("b", "gold"), 200, ""},
		},
	}
	s.run(t, 2)
}

// The rate that a token states decides the numbers of a limit with requested_rate, within its bounds. No header does.
func TestRateOfAToken(t *testing.T) {
	t.Parallel()
	us := issuer{t, newKey(t)}
	who := func(sub string, rate any, more ...string) []string {
		return append(us.token(map[string]any{"sub": sub, "rate": rate, "org": map[string]any{"name": "acme"}}), more...)
	}
	each := by("", 1)
	each.Precision, each.RequestedRate = config.Local, config.RateBounds{Least: each.Rate, Most: 4 * each.Rate, Per: 1 / each.Rate}
	s := scenario{
		example: "identity-jwt.yaml",
		edits:   us.keys(),
		tenants: []config.Tenant{tenant("acme", each)},
		steps: []step{
			{"no rate", "/", us.token(map[string]any{"sub": "a", "org": map[string]any{"name": "acme"}}), 200, ""},
			{"the limit's own", "/", us.token(map[string]any{"sub": "a", "org": map[string]any{"name": "acme"}}), 429, ""},
			{"a header states no rate", "/", who("a", "", headers("rate", "4", "titrate.rate", "4")...), 429, ""},
			{"a number", "/", who("b", 2), 200, ""},
			{"of two", "/", who("b", 2), 200, ""},
			{"too many", "/", who("b", 2), 429, ""},
			{"another number, and half a bucket is no whole one", "/", who("b", 4), 429, ""},
			{"beyond the bounds", "/", who("c", 1e6), 200, ""},
			{"of four", "/", who("c", "9999/s"), 200, ""},
			{"the third", "/", who("c", 4), 200, ""},
			{"the last one", "/", who("c", 1000000000), 200, ""},
			{"too many", "/", who("c", 1e6), 429, ""},
			{"no rate", "/", who("d", "much"), 200, ""},
			{"so the limit's own", "/", who("d", "much"), 429, ""},
		},
	}
	s.run(t, 2)
}

func TestIdentityJWT(t *testing.T) {
	t.Parallel()
	us, them := issuer{t, newKey(t)}, issuer{t, newKey(t)}
	who := func(sub, org string) []string {
		return us.token(map[string]any{"sub": sub, "org": map[string]any{"name": org}})
	}
	s := scenario{
		example: "identity-jwt.yaml",
		edits:   us.keys(),
		tenants: []config.Tenant{tenant("acme", by("", 1)), tenant("lanes", by("lane", 2)), tenant("-", by("", 1))},
		steps: []step{
			{"no token", "/", nil, 401, ""},
			{"somebody else's signature", "/", them.token(map[string]any{"sub": "alice"}), 401, ""},
			{"a subject", "/", who("alice", "acme"), 200, ""},
			{"the same subject", "/", who("alice", "acme"), 429, ""},
			{"another one", "/", who("bob", "acme"), 200, ""},
			{"of another organisation", "/", who("alice", "lanes"), 200, ""},
			{"whose limit is by metadata", "/", who("bob", "lanes"), 200, ""},
			{"the same for all", "/", who("carol", "lanes"), 429, ""},
			{"without an organisation", "/", us.token(map[string]any{"sub": "alice"}), 200, ""},
			{"without a subject either", "/", us.token(map[string]any{}), 200, ""},
			{"all of those are one", "/", us.token(map[string]any{}), 429, ""},
		},
	}
	s.run(t, 2)
}

// With a token as the first source and a cookie as the second, a cookie's client cannot have the name of a
// token's client, and vice versa.
func TestACookieIsNoToken(t *testing.T) {
	t.Parallel()
	us := issuer{t, newKey(t)}
	alice := us.token(map[string]any{"sub": "alice", "org": map[string]any{"name": "acme"}})
	s := scenario{
		example: "identity-jwt.yaml",
		edits: append(us.keys(),
			edit{"requires: { provider_name: issuer }",
				"requires: { requires_any: { requirements: [{ provider_name: issuer }, { allow_missing: {} }] } }"},
			edit{"tenant: { filter_state: titrate.org }", "tenant: { literal: acme }"},
			edit{"client: { filter_state: titrate.sub }",
				"client: [{ filter_state: titrate.sub }, { cookie: session }]"}),
		tenants: []config.Tenant{{Name: "acme", Weight: 1,
			Limits: []config.Limit{{Name: "per-client", Rate: 0.001, Burst: 1,
				Overrides: map[string]config.RateBurst{"cookie.session:guest": {Rate: 0.001, Burst: 2}}}}}},
		steps: []step{
			{"a cookie with Alice's name", "/", headers("cookie", "session=alice"), 200, ""},
			{"again", "/", headers("cookie", "session=alice"), 429, ""},
			{"and one that names its prefix", "/", headers("cookie", "session=filter_state.titrate.sub:alice"), 200,
				""},
			{"Alice has all of hers", "/", alice, 200, ""},
			{"and then none", "/", alice, 429, ""},
			{"a subject like a cookie's name", "/", us.token(map[string]any{"sub": "cookie.session:bob"}), 200, ""},
			{"leaves that cookie its own", "/", headers("cookie", "session=bob"), 200, ""},
			{"an override knows a cookie by its name", "/", headers("cookie", "session=guest"), 200, ""},
			{"which may burst two", "/", headers("cookie", "session=guest"), 200, ""},
			{"and no more", "/", headers("cookie", "session=guest"), 429, ""},
		},
	}
	s.run(t, 2)
}

func TestIdentityMTLS(t *testing.T) {
	t.Parallel()
	ca := certtest.New(t)
	bundle := certtest.Bundle(t, ca)
	roots := x509.NewCertPool()
	pemCA, err := os.ReadFile(bundle)
	if err != nil || !roots.AppendCertsFromPEM(pemCA) {
		t.Fatal(err)
	}
	certificate := func(name string, ids ...string) tls.Certificate {
		t.Helper()
		subject := pkix.Name{CommonName: name, Organization: []string{"example"}}
		c, err := tls.LoadX509KeyPair(ca.IssueTo(t, subject, ids...))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	certificates := map[string]tls.Certificate{
		"cart":       certificate("cart", "spiffe://example.org/cart"),
		"cart again": certificate("cart", "spiffe://example.org/cart"),
		"shop":       certificate("shop", "spiffe://example.org/shop"),
		"subject a":  certificate("a", "spiffe://example.org/1", "subjects"),
		"subject A":  certificate("a", "spiffe://example.org/2", "subjects"),
		"digest":     certificate("b", "digests"),
		"digest two": certificate("b", "digests"),
	}
	own, key := ca.Issue(t, "gateway.example")
	s := scenario{
		example: "identity-mtls.yaml",
		edits: []edit{
			{"/etc/envoy/server.pem", own},
			{"/etc/envoy/server-key.pem", key},
			{"/etc/envoy/clients-ca.pem", bundle},
		},
		tenants: []config.Tenant{
			tenant("acme", by("", 1)), tenant("subjects", by("subject", 1)), tenant("digests", by("certificate", 1)),
		},
		via: func(e *envoy, from string) *envoy {
			other := *e
			other.front = strings.Replace(e.front, "http:", "https:", 1)
			other.client = &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
				DisableKeepAlives: true,
				TLSClientConfig:   &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{certificates[from]}},
			}}
			return &other
		},
		steps: []step{
			{"a workload", "/", nil, 200, "cart"},
			{"its next certificate", "/", nil, 429, "cart again"},
			{"another workload", "/", nil, 200, "shop"},
			{"a subject", "/", nil, 200, "subject a"},
			{"the same subject with another name", "/", nil, 429, "subject A"},
			{"a certificate", "/", nil, 200, "digest"},
			{"the same again", "/", nil, 429, "digest"},
			{"another one of the same subject", "/", nil, 200, "digest two"},
		},
	}
	s.run(t, 1)
}
