package envoytest

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/titrate/titrate/control/config"
)

// routes is a file of routes that Envoy watches. Each of its routes has the filter's override.
type routes struct {
	t       *testing.T
	file    string
	version int
}

func (r *routes) put(override string) {
	r.t.Helper()
	r.version++
	text := fmt.Sprintf(`version_info: "%d"
resources:
- "@type": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
  name: all
  virtual_hosts:
  - name: all
    domains: ["*"]
    routes:
    - match: { prefix: / }
      route: { cluster: api, internal_redirect_policy: {} }
      typed_per_filter_config:
        titrate:
          "@type": type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilterPerRoute
          dynamic_module_config: { name: titrate, do_not_close: true }
          filter_name: titrate
          filter_config: { "@type": type.googleapis.com/google.protobuf.Struct, value: { %s } }
`, r.version, override)
	if err := os.WriteFile(r.file+".new", []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(r.file+".new", r.file); err != nil {
		r.t.Fatal(err)
	}
}

// watched makes Envoy read its routes from the file.
func (r *routes) watched() []edit {
	r.t.Helper()
	found := regexp.MustCompile(`(?s)          route_config:\n.*?(          http_filters:)`).FindString(example(r.t))
	if found == "" {
		r.t.Fatal("the example's routes are not where they were")
	}
	return []edit{
		{found, "          rds: { route_config_name: all, config_source: { path_config_source: { path: " + r.file +
			" } } }\n          http_filters:"},
		{"static_resources:", "node: { id: test, cluster: test }\nstatic_resources:"},
	}
}

// updates returns Envoy's number of route updates with this outcome, "success" or "rejected".
func (e *envoy) updates(what string) int {
	_, body := e.tryAdmin("/stats?filter=rds.all.update_" + what)
	_, n, _ := strings.Cut(body, ": ")
	count, _ := strconv.Atoi(strings.TrimSpace(n))
	return count
}

// Routes are replaced under load: nothing fails, each override is in force when
// Envoy has it, and a wrong one leaves the one before.
func TestRoutesReplacedUnderLoad(t *testing.T) {
	t.Parallel()
	needEnvoy(t)
	r := &routes{t: t, file: filepath.Join(t.TempDir(), "routes.yaml")}
	r.put("cost: { literal: 1 }")
	e, _ := linked(t, setup(1, config.Queue{}, limited("acme", 1e5, 1e5), limited("tight", 0.001, 10)), r.watched()...)
	stop := hammer(e, 8, "acme")
	for i := range 30 {
		r.put(fmt.Sprintf("cost: { literal: %d }", 1+i%3))
		e.eventually("the new routes", func() bool { return e.updates("success") >= i+2 })
	}
	r.put("cost: { literal: 5 }")
	e.eventually("the cost of 5", func() bool { return e.updates("success") >= 32 })
	r.put("cots: { literal: 1 }")
	e.eventually("the refusal", func() bool { return e.updates("rejected") >= 1 })
	e.logged("field cots is unknown")
	for i, want := range []int{200, 200, 429} {
		if a := e.get("/", "x-tenant", "tight"); a.status != want {
			t.Errorf("request %d of cost 5 with a burst of 10: %d, want %d", i+1, a.status, want)
		}
	}
	r.put("enabled: false")
	e.eventually("no limit", func() bool { return e.get("/", "x-tenant", "tight").status == 200 })
	t.Logf("%d answered over %d versions of the routes", stop(), r.version)
	e.eventually("nothing left", func() bool { return e.metric(active) == 0 })
	e.alive()
}

// A request is redirected after its route has been replaced. Its cost is still read as the first route says, although
// that route is gone by then and its memory is in use again.
func TestRedirectedFromAReplacedRoute(t *testing.T) {
	t.Parallel()
	needRedirects(t)
	r := &routes{t: t, file: filepath.Join(t.TempDir(), "routes.yaml")}
	r.put(`costs: { output: { response_cost: { usage: OUTPUT, estimate: { first: 20 } } } },
            response_usage: { format: JSON_POINTER, output: /of-the-first-route }`)
	e, _ := launch{example: quickstart, concurrency: 1, edits: append(r.watched(), metered("OPENAI"))}.linked(t,
		setup(1, config.Queue{}, counting("acme", 1e5), limited("bolt", 1e5, 1e5)))
	arrived, move, there, finish := make(chan bool), make(chan bool), make(chan bool), make(chan bool)
	e.upstream.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			arrived <- true
			<-move
			w.Header().Set("location", "http://"+r.Host+"/there")
			w.WriteHeader(http.StatusFound)
		case "/there":
			there <- true
			<-finish
			fmt.Fprint(w, `{"of-the-first-route":7,"usage":{"completion_tokens":1000}}`)
		}
	})
	done := make(chan answer, 1)
	go func() {
		a, _ := e.do(t.Context(), http.MethodGet, "/moved", nil, "x-tenant", "acme")
		done <- a
	}()
	<-arrived
	r.put("enabled: true")
	e.eventually("the new routes", func() bool { return e.updates("success") >= 2 })
	use := func() { // memory, on the worker and on the main thread
		for i := range 20 {
			r.put(fmt.Sprintf("pool: { literal: api }, response_usage: { format: JSON_POINTER, output: /unlike-the-first-%d }", i))
			e.eventually("the next routes", func() bool { return e.updates("success") >= r.version })
			for range many(t.Context(), e, 20, "x-tenant", "bolt", "x-padding", strings.Repeat("p", i*16)) {
			}
		}
	}
	use()
	close(move)
	<-there
	use()
	close(finish)
	if a := <-done; a.status != http.StatusOK {
		t.Errorf("the redirected request: %d", a.status)
	}
	e.spends("acme", -1, -1, 7)
	e.alive()
}

// What is held while the listeners drain is answered.
func TestDrainWhileHeld(t *testing.T) {
	t.Parallel()
	b := startBacklog(t, echo)
	const n = 3
	done := make(chan int, n)
	for range n {
		go func() {
			a, _ := b.do(context.Background(), http.MethodPost, "/", strings.NewReader("body"), "x-tenant", "acme")
			done <- a.status
		}()
	}
	b.waitHeld(n)
	resp, err := http.Post(b.admin+"/drain_listeners", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	b.eventually("the listener to stop",
		func() bool { return b.metric("envoy_listener_manager_listener_stopped{}") >= 1 })
	b.release()
	for range n {
		if status := <-done; status != http.StatusOK {
			t.Errorf("a request held over a drain: %d", status)
		}
	}
	b.checkDrained(n)
}

// An upstream that hangs up, before the answer or within it, leaves nothing behind.
func TestUpstreamResets(t *testing.T) {
	t.Parallel()
	e, _ := linked(t, setup(1, patient, capped("acme", 500)))
	e.upstream.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/within" {
			w.Header().Set("content-length", "100000")
			_, _ = w.Write(make([]byte, 1000))
			_ = http.NewResponseController(w).Flush()
		}
		panic(http.ErrAbortHandler)
	})
	done := make(chan answer)
	const n = 100
	for i := range n {
		go func() {
			path := []string{"/before", "/within"}[i%2]
			a, _ := e.do(context.Background(), http.MethodGet, path, nil, "x-tenant", "acme")
			done <- a
		}()
	}
	for range n {
		if a := <-done; a.status != 0 && a.status != http.StatusOK && a.status != http.StatusServiceUnavailable {
			t.Errorf("a reset request: %+v", a)
		}
	}
	e.eventually("all charged, nothing left", func() bool {
		return e.metric(outcome("api", "admitted")) == n && e.metric("titrate_held{}") == 0 && e.metric(active) == 0
	})
	e.alive()
}
