package main

import (
	"fmt"
	"strings"
)

// interval is the time between two scrapes, and between two evaluations of the alerts. A real
// Prometheus takes 15 s or more; this one should show something soon.
const interval = "2s"

// scrapes is Prometheus' configuration. Targets are called by their names, not by their ports.
func (in *installation) scrapes() string {
	var b strings.Builder
	fmt.Fprintf(&b, "global: {scrape_interval: %s, evaluation_interval: %s}\nrule_files: [%q]\nscrape_configs:\n",
		interval, interval, in.Rules)
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
			in.secret("admin", "ca.crt"), name)
	}
	job("coordinator", withTLS(coordinatorName), in.coordinatorWeb)
	job("agents", withTLS(agentsName), in.agentWebs...)
	job("gateways", "    metrics_path: /stats/prometheus\n", in.admins...)
	job("etcd", "", in.etcd)
	return b.String()
}

// manual returns instructions for the running installation.
func (in *installation) manual() string {
	var b strings.Builder
	at := "http://" + in.prometheus
	fmt.Fprintf(&b, "\nready. Prometheus: %s\n  targets %[1]s/targets   alerts %[1]s/alerts   graphs %[1]s/graph\n\n"+
		"It scrapes:\n", at)
	fmt.Fprintf(&b, "  coordinator  https://%s/metrics\n", in.coordinatorWeb)
	for i := range gateways {
		fmt.Fprintf(&b, "  %-11s  agent https://%s/metrics   Envoy http://%s/stats/prometheus   requests http://%s/\n",
			gateway(i), in.agentWebs[i], in.admins[i], in.fronts[i])
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
`, in.Root, in.api, strings.Join(in.tls("admin"), " "))
	return b.String()
}
