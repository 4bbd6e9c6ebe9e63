package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"text/template"
	"time"
)

// The variants, in the order of the table; the first is the base of all ratios.
const (
	plain   = "no filter"
	native  = "local_ratelimit"
	titrate = "titrate"
)

var variants = []string{plain, native, titrate}

// gateway is one Envoy of one variant.
type gateway struct {
	variant, url string
	port         int
	cmd          *exec.Cmd
	log          *bytes.Buffer
}

// startEnvoy starts an Envoy with one worker that sends every request to the upstream, or answers
// it itself if that is 0.
func startEnvoy(ctx context.Context, o options, dir, variant string, upstream int) (*gateway, error) {
	port, admin, err := twoPorts()
	if err != nil {
		return nil, err
	}
	module, err := filepath.Abs(o.module)
	if err != nil {
		return nil, err
	}
	var config bytes.Buffer
	err = bootstrap.Execute(&config, map[string]any{
		"Port": port, "Admin": admin, "Upstream": upstream, "Native": variant == native, "Titrate": variant == titrate,
		"Socket": filepath.Join(dir, "agent.sock"), "Tenant": tenant, "Pool": pool,
	})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, strings.ReplaceAll(variant, " ", "-")+".yaml")
	if err := os.WriteFile(file, config.Bytes(), 0o600); err != nil {
		return nil, err
	}
	g := &gateway{variant: variant, port: port, url: fmt.Sprintf("http://127.0.0.1:%d/", port), log: &bytes.Buffer{}}
	g.cmd = exec.Command(o.envoy, "-c", file, "--concurrency", "1", "--use-dynamic-base-id", "--log-level", "warning", "--drain-time-s", "1")
	g.cmd.Env = append(os.Environ(), "ENVOY_DYNAMIC_MODULES_SEARCH_PATH="+filepath.Dir(module))
	g.cmd.Stdout, g.cmd.Stderr = g.log, g.log
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := g.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w; set ENVOY_BIN or run `make envoy`", o.envoy, err)
	}
	return g, g.await(ctx)
}

func (g *gateway) await(ctx context.Context) error {
	deadline := time.Now().Add(20 * time.Second)
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.url, nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			resp.Body.Close()
			return nil
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			_ = g.stop()
			return fmt.Errorf("envoy (%s) does not answer: %w\n%s", g.variant, err, g.log)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (g *gateway) stop() error {
	if g.cmd.Process == nil {
		return nil
	}
	_ = g.cmd.Process.Signal(syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		_ = g.cmd.Wait() // its status after SIGTERM tells nothing
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-time.After(5 * time.Second):
		_ = g.cmd.Process.Kill()
		return fmt.Errorf("envoy (%s) did not stop within 5 s of SIGTERM", g.variant)
	}
}

var (
	completed = regexp.MustCompile(`(?m)^\s*(\d+) requests in ([0-9.]+)s`)
	refused   = regexp.MustCompile(`Non-2xx or 3xx responses: (\d+)`)
	broken    = regexp.MustCompile(`Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)`)
)

// load runs wrk for d and takes the Envoy's CPU time over it.
func (g *gateway) load(ctx context.Context, connections int, d time.Duration, script string) (sample, error) {
	before, err := cpuTime(g.cmd.Process.Pid)
	if err != nil {
		return sample{}, err
	}
	out, err := exec.CommandContext(ctx, "wrk", "-t1", "-c", strconv.Itoa(connections), "-d", fmt.Sprintf("%ds", int(d.Seconds())), "-s", script, g.url).CombinedOutput()
	if err != nil {
		return sample{}, fmt.Errorf("wrk: %w (Debian package wrk): %s", err, out)
	}
	after, err := cpuTime(g.cmd.Process.Pid)
	if err != nil {
		return sample{}, err
	}
	m := completed.FindSubmatch(out)
	if m == nil {
		return sample{}, fmt.Errorf("wrk printed no result:\n%s", out)
	}
	n, _ := strconv.ParseFloat(string(m[1]), 64)
	seconds, _ := strconv.ParseFloat(string(m[2]), 64)
	s := sample{Requests: n / seconds, CPUMicros: float64((after - before).Microseconds()) / n}
	for _, found := range [][][]byte{refused.FindSubmatch(out), broken.FindSubmatch(out)} {
		for i := 1; i < len(found); i++ {
			k, _ := strconv.Atoi(string(found[i]))
			s.Errors += k
		}
	}
	return s, nil
}

// cpuTime is a process's user and system time so far.
func cpuTime(pid int) (time.Duration, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// Fields 14 and 15, counted from after the command's closing parenthesis; in ticks of 10 ms.
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond, nil
}

func twoPorts() (int, int, error) {
	var ports [2]int
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, 0, err
		}
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports[0], ports[1], nil
}

// wrkScript asks with n client keys in turn.
func wrkScript(n int) string {
	return fmt.Sprintf(`local requests, i = {}, 0
function init()
  for k = 1, %d do
    requests[k] = wrk.format("GET", "/", {["x-tenant"] = %q, ["x-client"] = "client-" .. k})
  end
end
function request()
  i = i %% #requests + 1
  return requests[i]
end
`, n, tenant)
}

var bootstrap = template.Must(template.New("envoy.yaml").Parse(`
admin: {address: {socket_address: {address: 127.0.0.1, port_value: {{.Admin}}}}}
{{- if .Titrate}}
bootstrap_extensions:
  - name: envoy.bootstrap.dynamic_modules
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.bootstrap.dynamic_modules.v3.DynamicModuleBootstrapExtension
      dynamic_module_config: {name: titrate, do_not_close: true}
      extension_name: titrate
      extension_config:
        "@type": type.googleapis.com/google.protobuf.Struct
        value: {agent_socket: {{.Socket}}, replica: bench, concurrency: 1}
{{- end}}
static_resources:
  listeners:
    - address: {socket_address: {address: 127.0.0.1, port_value: {{.Port}}}}
      filter_chains:
        - filters:
            - name: hcm
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: bench
                codec_type: HTTP1
                route_config:
                  virtual_hosts:
                    - name: all
                      domains: ["*"]
                      routes: [{match: {prefix: /}, {{if .Upstream}}route: {cluster: upstream}{{else}}direct_response: {status: 200, body: {inline_string: ok}}{{end}}}]
                http_filters:
{{- if .Native}}
                  - name: local_ratelimit
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit
                      stat_prefix: bench
                      token_bucket: {max_tokens: 4000000000, tokens_per_fill: 4000000000, fill_interval: 1s}
                      filter_enabled: {default_value: {numerator: 100}}
                      filter_enforced: {default_value: {numerator: 100}}
{{- end}}
{{- if .Titrate}}
                  - name: titrate
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter
                      dynamic_module_config: {name: titrate, do_not_close: true}
                      filter_name: titrate
                      filter_config:
                        "@type": type.googleapis.com/google.protobuf.Struct
                        value: {tenant: {header: x-tenant}, client: {header: x-client}, pool: {literal: {{.Pool}}}}
{{- end}}
                  - name: router
                    typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
{{- if .Upstream}}
  clusters:
    - name: upstream
      type: STATIC
      load_assignment:
        cluster_name: upstream
        endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: {{.Upstream}}}}}}]}]
{{- end}}
`))
