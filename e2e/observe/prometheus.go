package main

import (
	"fmt"
	"strings"
)

// interval is the time between two scrapes, and between two evaluations of the alerts. A real
// Prometheus takes 15 s or more; this one should show something soon.
const interval = "2s"

// scrapes is Prometheus' configuration. Targets are called by their names, not by their ports.
func (s *system) scrapes() string {
	var b strings.Builder
	fmt.Fprintf(&b, "global: {scrape_interval: %s, evaluation_interval: %s}\nrule_files: [%q]\nscrape_configs:\n",
		interval, interval, s.Rules)
	job := func(name, how string, targets ...string) {
		fmt.Fprintf(&b, "  - job_name: %s\n%s    static_configs:\n", name, how)
		for i, target := range targets {
			instance := name
			if len(targets) > 1 {
				instance = gateway(i)
			}
			fmt.Fprintf(&b, "      - {targets: [%q], labels: {instance: %s}}\n", target, instance)
		}
	}
	withTLS := func(name string) string {
		return fmt.Sprintf("    scheme: https\n    tls_config: {ca_file: %q, server_name: %s}\n",
			secret(s.Rig, "admin", "ca.crt"), name)
	}
	var agents, envoys []string
	for _, g := range s.Gateways {
		agents, envoys = append(agents, host(g.AgentWeb)), append(envoys, host(g.AdminURL()))
	}
	job("coordinator", withTLS(coordinatorName), host(s.Coordinators[0].Web))
	job("agents", withTLS(agentsName), agents...)
	job("gateways", "    metrics_path: /stats/prometheus\n", envoys...)
	job("etcd", "", host(s.Etcd.Probe))
	return b.String()
}

// host returns the host:port of a URL.
func host(of string) string {
	_, rest, _ := strings.Cut(of, "://")
	at, _, _ := strings.Cut(rest, "/")
	return at
}

// manual returns instructions for the running installation.
func (s *system) manual() string {
	var b strings.Builder
	at := "http://" + s.prometheus
	fmt.Fprintf(&b, "\nready. Prometheus: %s\n  targets %[1]s/targets   alerts %[1]s/alerts   graphs %[1]s/graph\n\n"+
		"It scrapes:\n", at)
	fmt.Fprintf(&b, "  coordinator  %s/metrics\n", s.Coordinators[0].Web)
	for _, g := range s.Gateways {
		fmt.Fprintf(&b, "  %-11s  agent %s/metrics   Envoy %s/stats/prometheus   requests %s\n",
			g.Name, g.AgentWeb, g.AdminURL(), g.URL())
	}
	fmt.Fprintf(&b, `
The dashboards are %s/charts/titrate/files/dashboards/*.json. In a Grafana of yours: a data source of
type Prometheus at the address above, then Dashboards, New, Import. (Grafana itself is in no package that
this could install; docker compose --profile observe up has one.)

The command line, as an admin:
  export TITRATE_SERVER=%s
  bin/titrate top %s

The load has clients acme-1 … dart-4; bolt and dart ask for more than their shares, core is
refused by a limit, acme would be by one in SHADOW.
Ctrl-C stops everything and leaves nothing behind.
`, s.Root, s.API(), strings.Join(tls(s.Rig, "admin"), " "))
	return b.String()
}
