package rlqs

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/e2e/bench/rig"
	"github.com/titrate/titrate/lab/installation"
	"github.com/titrate/titrate/lab/installation/child"
)

// clients is the number of clients of TestCost, in turn.
const clients = 1000

const script = `
local n = 0
request = function()
  n = (n + 1) %% %d
  return wrk.format("GET", "/", {["x-tenant"] = "acme", ["x-client"] = "c" .. n})
end
`

// TestCost measures the CPU time per proxied request of Envoy and its agent, with --rls and with --rlqs, over that
// without a limit, in so many rounds as COST_ROUNDS says. All requests are admitted.
func TestCost(t *testing.T) {
	rounds, _ := strconv.Atoi(os.Getenv("COST_ROUNDS"))
	if rounds == 0 {
		t.Skip("COST_ROUNDS is not set: it is a measurement")
	}
	w := newWorld(t, 1, 1)
	w.must(w.in.Apply(t.Context(), "{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/acme/limits/each, "+
		"spec: {rate: 100000/s, burst: 100000, precision: LOCAL}}\n---\n"+
		"{apiVersion: titrate.dev/v1alpha1, kind: Pool, name: pools/api, spec: {capacity: 10000000}}"))
	program := w.in.Rig.File("cost.lua")
	w.must(os.WriteFile(program, fmt.Appendf(nil, script, clients), 0o600))
	rls := w.serveRLS()
	variants := []struct {
		name string
		url  string
		cpu  rig.CPU
	}{
		{"no limit", w.variant("plain", w.envoys[0], cut).url, nil},
		{"--rls", w.variant("rls", w.envoys[0], func(s string) string { return asking(s, rls.port) }).url,
			rig.CPU{rls.Process()}},
		{"--rlqs", w.envoys[0].url, rig.CPU{w.agents[0].Process(), w.envoys[0].Process()}},
	}
	variants[0].cpu = append(variants[0].cpu, w.envoys[2].Process())
	variants[1].cpu = append(variants[1].cpu, w.envoys[3].Process())
	ratios := make([][]float64, len(variants))
	for round := range rounds + 1 { // the first warms up
		cost, agents := make([]float64, len(variants)), make([]float64, len(variants))
		for i := range variants {
			v := &variants[(i+round)%len(variants)]
			before, agent := w.used(v.cpu), w.used(v.cpu[:len(v.cpu)-1])
			n := w.wrk(program, v.url)
			at := (i + round) % len(variants)
			cost[at] = float64((w.used(v.cpu) - before).Microseconds()) / n
			agents[at] = float64((w.used(v.cpu[:len(v.cpu)-1]) - agent).Microseconds()) / n
		}
		t.Logf("µs per request: %.1f, of that the agent %.1f", cost, agents)
		for i := range cost {
			if round > 0 {
				ratios[i] = append(ratios[i], cost[i]/cost[0])
			}
		}
	}
	for i, v := range variants {
		slices.Sort(ratios[i])
		t.Logf("%s: %.2f [%.2f, %.2f]", v.name, ratios[i][len(ratios[i])/2], ratios[i][0], ratios[i][len(ratios[i])-1])
	}
}

// used is the time that processes have used so far.
func (w *world) used(all rig.CPU) time.Duration {
	w.t.Helper()
	used, err := all.Of()
	w.must(err)
	return used
}

// cut leaves the quota filter out of a configuration.
func cut(config string) string {
	before, rest, _ := strings.Cut(config, "                  - name: envoy.filters.http.rate_limit_quota\n")
	_, after, _ := strings.Cut(rest, "                  - name: envoy.filters.http.router\n")
	return before + "                  - name: envoy.filters.http.router\n" + after
}

// asking replaces the quota filter by the filter that asks for each request.
func asking(config string, port int) string {
	config = strings.Replace(cut(config), "                  - name: envoy.filters.http.router\n",
		`                  - name: ratelimit
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
                      domain: titrate
                      timeout: 10s
                      rate_limit_service: {transport_api_version: V3, grpc_service: {envoy_grpc: {cluster_name: titrate}}}
                  - name: envoy.filters.http.router
`, 1)
	config = strings.Replace(config, "{name: all, domains", `{rate_limits: [{actions: [{request_headers: {header_name: `+
		`x-tenant, descriptor_key: tenant}}, {request_headers: {header_name: x-client, descriptor_key: client}}, `+
		`{generic_key: {descriptor_key: pool, descriptor_value: api}}]}], name: all, domains`, 1)
	return regexp.MustCompile(`(?s)(cluster_name: titrate\n.*port_value: )\d+`).ReplaceAllString(config,
		fmt.Sprint("${1}", port))
}

type service struct {
	*installation.Server
	port int
}

// serveRLS starts an agent with --rls.
func (w *world) serveRLS() service {
	w.t.Helper()
	ports, err := installation.Ports(3)
	w.must(err)
	a := w.in.Agent("agent-rls", w.in.API(), installation.Address(ports[1]), []string{installation.Address(ports[0])},
		"--rls", installation.Address(ports[2]))
	w.must(a.Start(w.t.Context()))
	return service{a, ports[2]}
}

// variant starts an Envoy whose configuration is another one's, changed.
func (w *world) variant(name string, of *envoy, change func(string) string) *envoy {
	w.t.Helper()
	ports, err := installation.Ports(2)
	w.must(err)
	text, err := os.ReadFile(w.in.Rig.File(of.Name + ".yaml"))
	w.must(err)
	front := installation.Port(strings.Trim(strings.TrimPrefix(of.url, "http://"), "/"))
	admin := installation.Port(strings.TrimSuffix(strings.TrimPrefix(of.Probe, "http://"), "/ready"))
	config := strings.NewReplacer(fmt.Sprint("port_value: ", admin), fmt.Sprint("port_value: ", ports[0]),
		fmt.Sprint("port_value: ", front), fmt.Sprint("port_value: ", ports[1])).Replace(string(text))
	path := w.in.Rig.File(name + ".yaml")
	w.must(os.WriteFile(path, []byte(change(config)), 0o600))
	e := &envoy{url: "http://" + installation.Address(ports[1]) + "/"}
	e.Server = w.in.Rig.Server(child.Spec{Name: name, Path: of.Path,
		Args: []string{"-c", path, "--concurrency", "1", "--log-level", "warn", "--use-dynamic-base-id"}},
		"http://"+installation.Address(ports[0])+"/ready")
	w.must(e.Start(w.t.Context()))
	w.envoys = append(w.envoys, e)
	return e
}

// wrk sends a closed load for some seconds, and returns how many requests were admitted: all of them.
func (w *world) wrk(program, url string) float64 {
	w.t.Helper()
	out, err := exec.CommandContext(w.t.Context(), "wrk", "-t1", "-c16", "-d6s", "-s", program, url).CombinedOutput()
	w.must(err)
	m := regexp.MustCompile(`(\d+) requests in`).FindSubmatch(out)
	if m == nil || strings.Contains(string(out), "Non-2xx") {
		w.t.Fatalf("wrk: %s", out)
	}
	n, err := strconv.ParseFloat(string(m[1]), 64)
	w.must(err)
	return n
}
