package repository

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/titrate/titrate/e2e/metrics"
)

var (
	alertName  = regexp.MustCompile(`(?m)^ +- alert: (\w+)$`)
	metricName = regexp.MustCompile(`\btitrate[_:][\w:]+`)
	exprTest   = regexp.MustCompile(`(?m)^ +- expr: (?:round\()?(titrate:[\w:]+)`)
	alertTest  = regexp.MustCompile(`(?m)^ +alertname: (\w+)\n +exp_alerts:\n +- exp_labels:`)
)

// Each alert has a runbook that begins with a command and a test that fires it, each recorded series has
// a test, and both are about metrics that exist.
func TestAlerts(t *testing.T) {
	read := func(parts ...string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(append([]string{root(t)}, parts...)...))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	alerts, tests := read("charts", "titrate", "files", "rules.yaml"),
		read("deploy", "prometheus", "rules_test.yaml")
	runbooks := read("docs", "runbooks.md")
	documented, err := metrics.Documented(root(t))
	if err != nil {
		t.Fatal(err)
	}
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
	fired := map[string]bool{}
	for _, found := range alertTest.FindAllStringSubmatch(tests, -1) {
		fired[found[1]] = true
	}
	for _, found := range names {
		if !fired[found[1]] {
			t.Errorf("rules_test.yaml does not fire alert %s", found[1])
		}
		delete(fired, found[1])
	}
	if len(fired) > 0 {
		t.Errorf("rules_test.yaml fires alerts that do not exist: %v", fired)
	}
	for _, name := range metricName.FindAllString(alerts, -1) {
		if _, known := documented[metrics.Base(name, documented)]; !known {
			t.Errorf("a rule uses %s, which docs/metrics.md does not have", name)
		}
	}
	recorded, err := metrics.Rules(root(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range exprTest.FindAllStringSubmatch(tests, -1) {
		delete(recorded, found[1])
	}
	for name := range recorded {
		t.Errorf("rules_test.yaml does not test the recorded series %s", name)
	}
}

// Prometheus' own tool reads the rules, fires each alert, computes each recorded series, and reads the
// configuration of the Prometheus of docker-compose.yml. It is part of the package prometheus of Debian.
func TestAlertsFire(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not in PATH: tools/sh/need.sh promtool installs Debian's package prometheus")
	}
	for _, args := range [][]string{{"check", "rules", "../../charts/titrate/files/rules.yaml"},
		{"test", "rules", "rules_test.yaml"}, {"check", "config", "compose.yaml"}} {
		c := exec.CommandContext(t.Context(), promtool, args...)
		c.Dir = filepath.Join(root(t), "deploy", "prometheus")
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}
