package envoytest

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/titrate/titrate/control/config"
)

// An Envoy in front that retries 429 does not retry a refusal by a limit: it has x-envoy-ratelimited. With
// the header switched off it does.
func TestRefusalIsNotRetriedInFront(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]int64{"x-envoy-ratelimited": 1, "": 4} {
		e, _ := launch{example: quickstart, concurrency: 1, edits: []edit{{"cost: { literal: 1 }",
			"cost: { literal: 1 }\n                  limited_header: \"" + header + "\""}}}.linked(t,
			setup(1, config.Queue{}, limited("acme", 0.01, 1)))
		if a := e.get("/", "x-tenant", "acme"); a.status != 200 || a.header.Get("x-envoy-ratelimited") != "" {
			t.Fatalf("the first request: %+v", a)
		}
		front := start(t, edit{"route: { cluster: api }",
			"route: { cluster: api, retry_policy: { retry_on: retriable-status-codes, retriable_status_codes: [429], " +
				"num_retries: 3 } }"})
		var asked atomic.Int64
		to, err := url.Parse(e.front)
		if err != nil {
			t.Fatal(err)
		}
		proxy := httputil.NewSingleHostReverseProxy(to)
		front.upstream.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			proxy.ServeHTTP(w, r)
		})
		if a := front.get("/", "x-tenant", "acme"); a.status != http.StatusTooManyRequests {
			t.Errorf("header %q: status %d", header, a.status)
		}
		if asked.Load() != want {
			t.Errorf("header %q: asked %d times, want %d", header, asked.Load(), want)
		}
	}
}

// An access log filter by response-code details logs refusals alone: a module cannot set Envoy's flag RL.
func TestAccessLogOfRefusalsAlone(t *testing.T) {
	t.Parallel()
	e, _ := launch{example: quickstart, concurrency: 1, edits: []edit{{"          stat_prefix: ingress\n",
		`          stat_prefix: ingress
          access_log:
          - name: envoy.access_loggers.stdout
            filter:
              extension_filter:
                name: envoy.access_loggers.extension_filters.cel
                typed_config:
                  "@type": type.googleapis.com/envoy.extensions.access_loggers.filters.cel.v3.ExpressionFilter
                  expression: response.code_details.startsWith("titrate_")
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.access_loggers.stream.v3.StdoutAccessLog
              log_format: { text_format_source: { inline_string: "details %RESPONSE_CODE_DETAILS%\n" } }
`}}}.linked(t, setup(1, config.Queue{}, limited("acme", 0.01, 1)))
	e.get("/", "x-tenant", "acme")
	e.get("/", "x-tenant", "acme")
	e.logged("details titrate_client_limit")
	if strings.Contains(e.log.String(), "details via_upstream") {
		t.Errorf("an admitted request is logged:\n%s", e.log)
	}
}
