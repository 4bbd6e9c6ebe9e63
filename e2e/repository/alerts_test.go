package repository

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	alertName  = regexp.MustCompile(`(?m)^ +- alert: (\w+)$`)
	metricName = regexp.MustCompile(`titrate_[a-z_]+`)
	alertTest  = regexp.MustCompile(`(?m)^ +alertname: (\w+)$`)
)

// Each alert has a runbook that begins with a command and a test that fires it, and is about
// metrics that exist.
func TestAlerts(t *testing.T) {
	read := func(parts ...string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(append([]string{root(t)}, parts...)...))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	alerts, tests := read("charts", "titrate", "files", "alerts.yaml"),
		read("deploy", "prometheus", "alerts_test.yaml")
	runbooks, metrics := read("docs", "runbooks.md"), read("docs", "metrics.md")
	names := alertName.FindAllStringSubmatch(alerts, -1)
	if len(names) < 10 {
		t.Fatalf("%d alerts found", len(names))
	}
	for _, found := range names {
		name := found[1]
		if !strings.Contains(runbooks, "\n## "+name+"\n\n```\n") {
			t.Errorf("docs/runbooks.md has no section %s that begins with a command", name)
		}
		if !strings.Contains(alerts, "docs/runbooks.md#"+strings.ToLower(name)+"\n") {
			t.Errorf("alert %s has no runbook_url", name)
		}
	}
	if fired := alertTest.FindAllString(tests, -1); len(fired) != len(names) {
		t.Errorf("alerts_test.yaml fires %d of %d alerts", len(fired), len(names))
	}
	for _, name := range metricName.FindAllString(alerts, -1) {
		if !strings.Contains(metrics, "`"+name+"`") {
			t.Errorf("an alert uses %s, which docs/metrics.md does not have", name)
		}
	}
}

// Prometheus' own tool reads the rules, fires each alert, and reads the configuration of the
// Prometheus of docker-compose.yml. It is part of the package prometheus of Debian.
func TestAlertsFire(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not in PATH: tools/sh/need.sh promtool installs Debian's package prometheus")
	}
	for _, args := range [][]string{{"check", "rules", "../../charts/titrate/files/alerts.yaml"},
		{"test", "rules", "alerts_test.yaml"}, {"check", "config", "compose.yaml"}} {
		c := exec.CommandContext(t.Context(), promtool, args...)
		c.Dir = filepath.Join(root(t), "deploy", "prometheus")
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}
