package rls

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/titrate/titrate/lab/installation"
	"github.com/titrate/titrate/lab/installation/child"
	"github.com/titrate/titrate/services/rls"
)

const perClient = `
domain: shop
descriptors:
  - key: client
    rate_limit: {unit: day, requests_per_unit: 5, name: per-client}
  - key: client
    value: vip
    rate_limit: {unlimited: true}
  - key: remote
    descriptors:
      - key: path
        value: /search*
        rate_limit: {unit: day, requests_per_unit: 2}
`

// envoyConfig is an Envoy without our module: its own rate limit filter asks our service.
const envoyConfig = `
admin: {address: {socket_address: {address: 127.0.0.1, port_value: ADMIN}}}
static_resources:
  listeners:
    - address: {socket_address: {address: 127.0.0.1, port_value: FRONT}}
      filter_chains:
        - filters:
            - name: hcm
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: front
                route_config:
                  virtual_hosts:
                    - name: all
                      domains: ["*"]
                      rate_limits:
                        - actions: [{request_headers: {header_name: x-client, descriptor_key: client}}]
                        - actions:
                            - generic_key: {descriptor_key: remote, descriptor_value: "yes"}
                            - request_headers: {header_name: ":path", descriptor_key: path}
                      routes: [{match: {prefix: /}, route: {cluster: upstream}}]
                http_filters:
                  - name: ratelimit
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
                      domain: shop
                      timeout: 10s
                      enable_x_ratelimit_headers: DRAFT_VERSION_03
                      rate_limit_service: {transport_api_version: V3, grpc_service: {envoy_grpc: {cluster_name: rls}}}
                  - name: router
                    typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
  clusters:
    - name: upstream
      type: STATIC
      load_assignment:
        cluster_name: upstream
        endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: UPSTREAM}}}}]}]
    - name: rls
      type: STATIC
      typed_extension_protocol_options:
        envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
          "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
          explicit_http_config: {http2_protocol_options: {}}
      load_assignment:
        cluster_name: rls
        endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: RLS}}}}]}]
`

// TestBehindEnvoysFilter asks our service through the filter that Envoy has.
func TestBehindEnvoysFilter(t *testing.T) {
	program := binary(t, "ENVOY_BIN", "run make envoy")
	address, stop := ours(t, map[string]string{"shop.yaml": perClient}, rls.Options{})
	front := envoy(t, program, address)
	for i := range 7 {
		code, header := get(t, front+"/", "bob")
		want := http.StatusOK
		if i >= 5 {
			want = http.StatusTooManyRequests
		}
		if code != want {
			t.Errorf("request %d: %d, want %d", i, code, want)
		}
		if limit := header.Get("X-Ratelimit-Limit"); limit != `5, 5;w=86400;name="per-client"` {
			t.Errorf("request %d: limit %s", i, limit)
		}
		if left := header.Get("X-Ratelimit-Remaining"); left != fmt.Sprint(max(0, 4-i)) {
			t.Errorf("request %d: remaining %s", i, left)
		}
	}
	for range 7 {
		if code, _ := get(t, front+"/", "vip"); code != http.StatusOK {
			t.Errorf("unlimited: %d", code)
		}
	}
	for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
		if code, _ := get(t, front+"/search?q=1", "vip"); code != want {
			t.Errorf("search %d: %d, want %d", i, code, want)
		}
	}
	stop()
	if code, _ := get(t, front+"/", "bob"); code != http.StatusOK {
		t.Errorf("without the service: %d, want Envoy to let the request pass", code)
	}
}

// envoy starts Envoy in front of a service and returns its URL.
func envoy(t *testing.T, program, service string) string {
	t.Helper()
	ports, err := installation.Ports(2)
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(service, ":")
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	upstream, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("ADMIN", fmt.Sprint(ports[0]), "FRONT", fmt.Sprint(ports[1]), "port_value: RLS",
		"port_value: "+port, "port_value: UPSTREAM", "port_value: "+upstream.Port()).Replace(envoyConfig)
	dir := t.TempDir()
	config := filepath.Join(dir, "envoy.yaml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := group(t).Start(child.Spec{Name: "envoy", Path: program, Log: filepath.Join(dir, "log"),
		Args: []string{"-c", config, "--concurrency", "1", "--log-level", "warn", "--use-dynamic-base-id"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := p.Ready(ctx, func(ctx context.Context) error {
		_, err := installation.Get(ctx, http.DefaultClient, "http://"+installation.Address(ports[0])+"/ready")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return "http://" + installation.Address(ports[1])
}

func get(t *testing.T, at, name string) (code int, header http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Client", name)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Header
}
