package envoytest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// spans are the spans that Envoy's Zipkin tracer has sent, each as its tags.
type spans struct {
	mu  sync.Mutex
	all []map[string]string
}

// ServeHTTP takes spans as JSON.
func (s *spans) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var list []struct{ Tags map[string]string }
	if err := json.NewDecoder(r.Body).Decode(&list); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range list {
		s.all = append(s.all, one.Tags)
	}
	w.WriteHeader(http.StatusAccepted)
}

// of is the first span with a status, nil if there is none.
func (s *spans) of(status string) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, tags := range s.all {
		if tags["http.status_code"] == status {
			return tags
		}
	}
	return nil
}

// Envoy's own span of a request has the decision about the request, and no text that the client chose. The span
// of a request that was admitted at once has no such tags.
func TestSpansOfDecisions(t *testing.T) {
	t.Parallel()
	got := &spans{}
	server := httptest.NewServer(got)
	t.Cleanup(server.Close)
	host, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
	e, _ := linked(t, setup(1, patient, limited("acme", 0.5, 1)),
		edit{"          stat_prefix: ingress\n", `          stat_prefix: ingress
          tracing:
            provider:
              name: envoy.tracers.zipkin
              typed_config:
                "@type": type.googleapis.com/envoy.config.trace.v3.ZipkinConfig
                collector_cluster: collector
                collector_endpoint: /api/v2/spans
                collector_endpoint_version: HTTP_JSON
`},
		edit{"\n  clusters:\n", fmt.Sprintf(`
  clusters:
  - name: collector
    type: STATIC
    connect_timeout: 1s
    load_assignment:
      cluster_name: collector
      endpoints:
      - lb_endpoints:
        - endpoint:
            address:
              socket_address: { address: %s, port_value: %s }
`, host, port)},
		edit{"    static_layer:\n", "    static_layer:\n      tracing.zipkin.min_flush_spans: 1\n"})
	e.get("/", "x-tenant", "acme", "x-client", "alice")
	if a := e.get("/", "x-tenant", "acme", "x-client", "alice"); a.status != http.StatusTooManyRequests {
		t.Fatalf("%+v", a)
	}
	e.eventually("two spans", func() bool { return got.of("200") != nil && got.of("429") != nil })
	refused := got.of("429")
	for tag, want := range map[string]string{"titrate.outcome": "rejected", "titrate.reason": "client_limit",
		"titrate.limit": "per-client", "titrate.wait_ms": "0"} {
		if refused[tag] != want {
			t.Errorf("%s is %q, want %q: %v", tag, refused[tag], want, refused)
		}
	}
	for tag, value := range refused {
		if strings.HasPrefix(tag, "titrate.") && strings.Contains(value, "alice") {
			t.Errorf("%s has the name of a client: %s", tag, value)
		}
	}
	for tag := range got.of("200") {
		if strings.HasPrefix(tag, "titrate.") {
			t.Errorf("the span of an admitted request has %s", tag)
		}
	}
}
