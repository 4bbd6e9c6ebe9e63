package envoytest

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
)

// step is one request of a scenario and the status of its response. The limits of
// scenarios hardly refill, so a burst of n admits n.
type step struct {
	what   string
	ask    string   // "GET /path" or "/path"
	header []string // pairs
	status int
	from   string // the address that the client dials from, unless via says otherwise
}

// scenario runs an example's configuration: limits, then steps in their order.
type scenario struct {
	example string
	tenants []config.Tenant
	edits   []edit
	steps   []step
	via     func(e *envoy, from string) *envoy
}

// tenant is one with limits.
func tenant(name string, limits ...config.Limit) config.Tenant {
	return config.Tenant{Name: name, Weight: 1, Limits: limits}
}

// by is a limit that admits so many by an identity ("": the client).
func by(identity string, burst float64, classes ...string) config.Limit {
	return config.Limit{Name: "by-" + identity + strings.Join(classes, "-"), Rate: 0.001, Burst: burst,
		Identity: identity, Classes: classes}
}

// run runs the scenario in an Envoy.
func (s *scenario) run(t *testing.T, concurrency int) {
	t.Helper()
	if s.via == nil {
		s.via = (*envoy).dialling
	}
	l := launch{example: s.example, concurrency: concurrency, edits: s.edits}
	e, _ := l.linked(t, setup(1, config.Queue{}, s.tenants...))
	for i, step := range s.steps {
		method, path, both := strings.Cut(step.ask, " ")
		if !both {
			method, path = http.MethodGet, step.ask
		}
		a, err := s.via(e, step.from).do(context.Background(), method, path, nil, step.header...)
		if err != nil {
			t.Fatalf("step %d, %s: %v", i, step.what, err)
		}
		if a.status != step.status {
			t.Errorf("step %d, %s: %s %v: status %d, want %d\n%s", i, step.what, step.ask, step.header, a.status,
				step.status, a.body)
		}
	}
	e.alive()
}

// headers are pairs.
func headers(pairs ...string) []string { return pairs }

func TestIdentityCookie(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 5000)
	s := scenario{
		example: "identity-cookie.yaml",
		tenants: []config.Tenant{
			tenant("acme", by("", 1)), tenant("keys", by("api-key", 1)), tenant("sessions", by("session", 1)),
			tenant("both", by("", 2), by("api-key", 3)),
		},
		steps: []step{
			{"a cookie", "/", headers("cookie", "session=alice"), 200, ""},
			{"the same among others", "/", headers("cookie", `theme=dark; session="alice"; session=bob`), 429, ""},
			{"the same on a line of its own", "/",
				headers("cookie", "theme=dark", "+cookie", "session=alice"), 429, ""},
			{"the same in crumbs of HTTP/2", "/",
				headers("cookie", "theme=dark; session=alice; lang=en"), 429, "HTTP/2"},
			{"another", "/", headers("cookie", "session=bob", "x-client", "alice"), 200, ""},
			{"another in HTTP/2", "/", headers("cookie", "theme=dark; session=dave"), 200, "HTTP/2"},
			{"the header, where there is no cookie", "/", headers("x-client", "carol"), 200, ""},
			{"the default", "/", nil, 200, ""},
			{"the default is one client", "/", headers("cookie", "other=1"), 429, ""},
			{"an empty cookie is none", "/", headers("cookie", "session="), 429, ""},
			{"a header with the cookie's value is another client", "/", headers("x-client", "alice"), 200, ""},
			{"a cookie with the default's value too", "/", headers("cookie", "session=anonymous"), 200, ""},
			{"and one with a name of a header's value", "/",
				headers("cookie", "session=header.x-client:carol"), 200, ""},
			{"a long value", "/", headers("x-client", long), 200, ""},
			{"the same long value", "/", headers("x-client", long), 429, ""},
			{"one that differs at its end", "/", headers("x-client", long+"y"), 200, ""},
			{"binary bytes", "/", headers("x-client", "\x80\xff\xfe"), 200, ""},
			{"other binary bytes", "/", headers("x-client", "\x80\xff\xfd"), 200, ""},
			{"a parameter", "/?a=1&api_key=abc", headers("x-tenant", "keys"), 200, ""},
			{"the same otherwise encoded", "/?api%5fkey=a%62c&api_key=new", headers("x-tenant", "keys"), 429, ""},
			{"the header instead", "/?x=api_key", headers("x-tenant", "keys", "x-api-key", "abc"), 429, ""},
			{"another parameter", "/?api_key=a%2", headers("x-tenant", "keys"), 200, ""},
			{"a cookie for an identity", "/", headers("x-tenant", "sessions", "cookie", "session=alice"), 200, ""},
			{"nobody in particular", "/", headers("x-tenant", "sessions"), 200, ""},
			{"nobody in particular again", "/", headers("x-tenant", "sessions", "x-client", "x"), 429, ""},
			{"two limits: the first client", "/?api_key=k", headers("x-tenant", "both", "x-client", "a"), 200, ""},
			{"its second", "/?api_key=k", headers("x-tenant", "both", "x-client", "a"), 200, ""},
			{"its third, refused and charged to neither", "/?api_key=k",
				headers("x-tenant", "both", "x-client", "a"), 429, ""},
			{"so the key has one left for another client", "/?api_key=k",
				headers("x-tenant", "both", "x-client", "b"), 200, ""},
			{"and then none", "/?api_key=k", headers("x-tenant", "both", "x-client", "b"), 429, ""},
			{"but the client has, with another key", "/?api_key=l",
				headers("x-tenant", "both", "x-client", "b"), 200, ""},
		},
	}
	s.via = func(e *envoy, from string) *envoy {
		if from != "HTTP/2" {
			return e
		}
		two := *e
		two.client = &http.Client{Transport: &http.Transport{Protocols: new(http.Protocols), DisableKeepAlives: true},
			Timeout: 20 * time.Second}
		two.client.Transport.(*http.Transport).Protocols.SetUnencryptedHTTP2(true)
		return &two
	}
	s.run(t, 1)
}

func TestClasses(t *testing.T) {
	t.Parallel()
	s := scenario{
		example: "classes.yaml",
		tenants: []config.Tenant{
			tenant("acme", by("", 9), by("", 1, "writes"), by("", 1, "search", "export")),
		},
		steps: []step{
			{"a write", "POST /", nil, 200, ""},
			{"a second one", "DELETE /", nil, 429, ""},
			{"which is not counted against all", "/", nil, 200, ""},
			{"a search", "/search?q=1", nil, 200, ""},
			{"no search, by its method", "POST /search", nil, 429, ""},
			{"an export, of the same limit", "/v1/export", nil, 429, ""},
			{"no export, by its path", "/v1/exports", nil, 200, ""},
			{"an export by what it accepts", "/", headers("accept", "text/html, text/csv"), 429, ""},
			{"the same on a line of its own", "/", headers("x-other", "1", "accept", "text/html", "+accept",
				"text/csv"), 429, ""},
			{"not one from inside", "/", headers("accept", "text/csv", "x-internal", "1"), 200, ""},
			{"a search in disguise", "/x/../search", nil, 429, ""},
		},
	}
	for i := range s.steps {
		s.steps[i].header = append(s.steps[i].header, "x-tenant", "acme", "x-client", "alice")
	}
	s.run(t, 2)
}

func TestOverrides(t *testing.T) {
	t.Parallel()
	at := func(host string, more ...string) []string { return append(more, "host", host) }
	s := scenario{
		example: "overrides.yaml",
		edits:   withoutVirtualHost(t),
		tenants: []config.Tenant{
			tenant("shop", by("", 13), by("user", 2, "writes")), tenant("acme", by("place", 1)),
		},
		steps: []step{
			{"the filter's tenant and pool", "/", at("x.example", "x-tenant", "acme"), 200, ""},
			{"by its route's name", "/", at("x.example", "x-tenant", "acme"), 429, ""},
			{"another cluster is another pool, unknown, but the limits hold", "/batch",
				at("x.example", "x-tenant", "acme"),
				200, ""},
			{"by that route's name", "/batch", at("x.example", "x-tenant", "acme"), 429, ""},
			{"the virtual host's tenant", "/", at("shop.example", "x-tenant", "acme"), 200, ""},
			{"the route's cost, of 13 there are 12 left", "/search", at("shop.example"), 200, ""},
			{"10 more are too many", "/search", at("shop.example", "x-cost", "1"), 429, ""},
			{"the filter's class and identity", "POST /", at("shop.example", "x-user", "u"), 200, ""},
			{"the route's: GET writes, the user is in the query", "/legacy?user=u", at("shop.example", "x-user", "v"),
				200, ""},
			{"all used up", "/legacy", at("shop.example"), 429, ""},
			{"and yet another client has all", "/legacy?user=u", at("shop.example", "x-client", "c"), 429, ""},
			{"of another user", "/legacy?user=w", at("shop.example", "x-client", "c"), 200, ""},
			{"never limited", "/healthz", at("shop.example"), 200, ""},
		},
	}
	s.run(t, 2)
}
