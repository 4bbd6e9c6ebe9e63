package envoytest

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/titrate/titrate/control/config"
)

// seen counts what an upstream has received, by path and host.
type seen struct {
	mu    sync.Mutex
	count map[string]int
}

func (s *seen) handler(answer http.HandlerFunc) http.HandlerFunc {
	s.count = map[string]int{}
	return func(w http.ResponseWriter, r *http.Request) {
		host := "main"
		if strings.Contains(r.Host, "-shadow") {
			host = "mirror"
		}
		s.mu.Lock()
		s.count[host+r.URL.Path]++
		s.mu.Unlock()
		answer(w, r)
	}
}

func (s *seen) of(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count[what]
}

// withRoutePolicy gives the example's last route and the one of /search a policy.
func withRoutePolicy(policy string) edit {
	return edit{"route: { cluster: api }", "route: { cluster: api, " + policy + " }"}
}

// One request of a client is charged once, also if Envoy retries it, mirrors it, or follows a redirect. The
// client has a burst of three.
func TestChargedOnce(t *testing.T) {
	t.Parallel()
	const burst = 3
	fails := func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusBadGateway) }
	moves := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			w.Header().Set("location", "http://"+r.Host+"/there")
			w.WriteHeader(http.StatusFound)
		}
	}
	cases := map[string]struct {
		policy string
		answer http.HandlerFunc
		status int
		want   map[string]int // at the upstream, for each request
	}{
		"retries": {"retry_policy: { retry_on: 5xx, num_retries: 2 }", fails, http.StatusBadGateway,
			map[string]int{"main/": 3}},
		"mirror": {"request_mirror_policies: [{ cluster: api }]", func(http.ResponseWriter, *http.Request) {},
			http.StatusOK, map[string]int{"main/": 1, "mirror/": 1}},
		"redirects": {"internal_redirect_policy: { max_internal_redirects: 1 }", moves, http.StatusOK,
			map[string]int{"main/": 1, "main/there": 1}},
	}
	for what, c := range cases {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			if what == "redirects" {
				needRedirects(t)
			}
			e, a := linked(t, setup(1, config.Queue{}, limited("acme", 0.001, burst)), withRoutePolicy(c.policy))
			var s seen
			e.upstream.Config.Handler = s.handler(c.answer)
			for i := range burst + 2 {
				want := c.status
				if i >= burst {
					want = http.StatusTooManyRequests
				}
				if got := e.get("/", "x-tenant", "acme", "x-client", "alice"); got.status != want {
					t.Errorf("request %d: %d, want %d", i+1, got.status, want)
				}
			}
			for path, n := range c.want {
				e.eventually(path, func() bool { return s.of(path) >= burst*n })
				if got := s.of(path); got != burst*n {
					t.Errorf("%s: %d arrived of %d admitted, want %d", path, got, burst, burst*n)
				}
			}
			e.eventually("the report", func() bool { return a.reported("acme").ClientRejected == 2 })
			if served := a.reported("acme").Served; served != burst {
				t.Errorf("%v reported as served, want %d", served, burst)
			}
			e.alive()
		})
	}
}

// A request that has waited is redirected without another wait.
func TestHeldThenRedirected(t *testing.T) {
	t.Parallel()
	b := startBacklog(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			w.Header().Set("location", "http://"+r.Host+"/there")
			w.WriteHeader(http.StatusFound)
		}
	}, withRoutePolicy("internal_redirect_policy: { max_internal_redirects: 1 }"))
	done := make(chan answer, 1)
	go func() {
		a, _ := b.do(context.Background(), http.MethodGet, "/", nil, "x-tenant", "acme")
		done <- a
	}()
	b.waitHeld(1)
	b.release()
	if a := <-done; a.status != http.StatusOK {
		t.Errorf("the redirected request: %d", a.status)
	}
	b.checkDrained(2)
}

// second is a Titrate filter behind the example's, which takes its tenant from
// another header.
var second = edit{`                  cost: { literal: 1 }
          - name: envoy.filters.http.router`, `                  cost: { literal: 1 }
          - name: second
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter
              dynamic_module_config: { name: titrate, do_not_close: true }
              filter_name: titrate
              filter_config:
                "@type": type.googleapis.com/google.protobuf.Struct
                value: { tenant: { header: x-group }, client: { header: x-client }, pool: { literal: api } }
          - name: envoy.filters.http.router`}

// A request that is redirected costs one at each of two filters, whether the filters
// are of one tenant or of two. Each tenant's client has as much as three requests take.
func TestRedirectedThroughTwoFilters(t *testing.T) {
	t.Parallel()
	needRedirects(t)
	moves := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			w.Header().Set("location", "http://"+r.Host+"/there")
			w.WriteHeader(http.StatusFound)
		}
	}
	for what, c := range map[string]struct {
		group string
		burst float64
	}{"of two tenants": {"group", 3}, "of one tenant": {"acme", 6}} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			e, a := linked(t, setup(1, config.Queue{}, limited("acme", 0.001, c.burst),
				limited("group", 0.001, c.burst)),
				withRoutePolicy("internal_redirect_policy: { max_internal_redirects: 1 }"), second)
			e.upstream.Config.Handler = http.HandlerFunc(moves)
			for i, want := range []int{200, 200, 200, 429} {
				got := e.get("/", "x-tenant", "acme", "x-group", c.group, "x-client", "alice")
				if got.status != want {
					t.Errorf("request %d: %d, want %d", i+1, got.status, want)
				}
			}
			e.eventually("the reports", func() bool {
				return a.reported("acme").Served == c.burst &&
					(c.group == "acme" || a.reported(c.group).Served == c.burst)
			})
			e.alive()
		})
	}
}

// If the second route of a redirected request has the filter disabled, the outcome that was kept for it is not
// used for another client. That holds even for a client that forges the header.
func TestNoOutcomeOfAnotherStream(t *testing.T) {
	t.Parallel()
	one := launch{example: quickstart, concurrency: 1, edits: []edit{
		// Loopback may write x-envoy-… headers.
		{"stat_prefix: ingress", "stat_prefix: ingress\n          use_remote_address: true\n" +
			"          internal_address_config: { cidr_ranges: [{ address_prefix: 127.0.0.0, prefix_len: 8 }] }"},
		withRoutePolicy("internal_redirect_policy: { max_internal_redirects: 1 }"),
		{"      - match: { prefix: / }\n", `      - match: { path: /there }
                route: { cluster: api }
                typed_per_filter_config:
                  titrate:
                    "@type": type.googleapis.com/envoy.config.route.v3.FilterConfig
                    disabled: true
              - match: { prefix: / }
`}}}
	e, _ := one.linked(t, setup(1, config.Queue{}, limited("acme", 0.001, 1)))
	e.upstream.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" && r.Header.Get("x-client") == "alice" {
			w.Header().Set("location", "http://"+r.Host+"/there")
			w.WriteHeader(http.StatusFound)
		}
	})
	mallory := e.dialling("127.0.0.2") // by a connection of her own
	if a := mallory.get("/", "x-tenant", "acme", "x-client", "mallory"); a.status != 200 {
		t.Fatalf("the first of its burst: %d", a.status)
	}
	if a := e.get("/", "x-tenant", "acme", "x-client", "alice"); a.status != 200 {
		t.Fatalf("the redirected request: %d", a.status)
	}
	forged := headers("x-tenant", "acme", "x-client", "mallory", "x-envoy-original-url", "http://x/")
	if a := mallory.get("/", forged...); a.status != 429 {
		t.Errorf("a request that says it was redirected: %d, want 429", a.status)
	}
}

// A client that forges the header of a redirect is charged as usual.
func TestNoRedirectByHeader(t *testing.T) {
	t.Parallel()
	e, _ := linked(t, setup(1, config.Queue{}, limited("acme", 0.001, 1)))
	for i, want := range []int{200, 429, 429} {
		a := e.get("/", "x-tenant", "acme", "x-client", "alice", "x-envoy-original-url", "http://x/")
		if a.status != want {
			t.Errorf("request %d: %d, want %d", i+1, a.status, want)
		}
	}
}
