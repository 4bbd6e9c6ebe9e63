package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/titrate/titrate/e2e/metrics"
)

const root = "../../.."

// written are the files that the program writes.
func written(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "charts/titrate/files/dashboards/*.json"))
	if err != nil || len(files) != len(all()) {
		t.Fatalf("%d files for %d dashboards: %v", len(files), len(all()), err)
	}
	return append(files, filepath.Join(root, "docs/observe.md"))
}

// The files and the document are as the program writes them.
func TestUpToDate(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"docs", "charts/titrate/files/dashboards"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	doc, err := os.ReadFile(filepath.Join(root, "docs/observe.md"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "docs/observe.md"), doc, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(dir); err != nil {
		t.Fatal(err)
	}
	for _, file := range written(t) {
		name, _ := filepath.Rel(root, file)
		want, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != string(want) {
			t.Errorf("%s is not what the program writes: `make generate` and commit (%v)", name, err)
		}
	}
}

// Each panel has an explanation and a unit, and a title that no other panel has.
func TestPanelsAreExplained(t *testing.T) {
	for _, d := range all() {
		titles := map[string]bool{}
		for _, r := range d.rows {
			for _, p := range r.panels {
				if p.help == "" || p.unit.words == "" || len(p.queries) == 0 || titles[p.title] {
					t.Errorf("%s, panel %q: has no meaning, unit or query, or the title of another", d.name, p.title)
				}
				titles[p.title] = true
			}
		}
	}
}

// No two panels lie on each other, and none beyond the grid.
func TestLayout(t *testing.T) {
	for _, d := range all() {
		taken := map[string]int{}
		for _, b := range d.grafana().Panels {
			for x := b.At.X; x < b.At.X+b.At.W; x++ {
				for y := b.At.Y; y < b.At.Y+b.At.H; y++ {
					at := fmt.Sprint(x, " ", y)
					if taken[at] != 0 || x >= columns {
						t.Fatalf("%s: panel %d lies on panel %d, or beyond the grid", d.name, b.ID, taken[at])
					}
					taken[at] = b.ID
				}
			}
		}
	}
}

var (
	// foreign are metrics that are not Titrate's own: Prometheus' alerts, and metrics of its client.
	foreign = []string{"ALERTS", "process_cpu_seconds_total", "process_resident_memory_bytes"}
	// everywhere are labels of every series: labels that Prometheus adds, and labels that some clusters add.
	everywhere = []string{"__name__", "instance", "job", "namespace"}

	selected = regexp.MustCompile(`([\w:]*)\{([^}]*)\}`)
	matcher  = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)\s*"`)
	listed   = regexp.MustCompile(`\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)`)
	label    = regexp.MustCompile(`\w+`)
	legend   = regexp.MustCompile(`\{\{(\w+)\}\}`)
)

// labelsOf are the labels that a query and its legend name.
func labelsOf(q metrics.Query) []string {
	var names []string
	for _, s := range selected.FindAllStringSubmatch(q.Expr, -1) {
		for _, m := range matcher.FindAllStringSubmatch(s[2], -1) {
			names = append(names, m[1])
		}
	}
	for _, l := range listed.FindAllStringSubmatch(q.Expr, -1) {
		names = append(names, label.FindAllString(l[1], -1)...)
	}
	for _, l := range legend.FindAllStringSubmatch(q.Legend, -1) {
		names = append(names, l[1])
	}
	return names
}

// Each query is about metrics that exist, with labels that they have.
func TestQueriesUseWhatExists(t *testing.T) {
	documented, err := metrics.Documented(root)
	if err != nil {
		t.Fatal(err)
	}
	queries, err := metrics.Queries(root)
	if err != nil {
		t.Fatal(err)
	}
	rules, err := metrics.Rules(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, q := range rules {
		if m := documented[name]; m.Kind != "recorded" || !sameLabels(m.Labels, q) {
			t.Errorf("docs/metrics.md has the recorded series %s with the labels %v, the rule is %s", name, m.Labels, q.Expr)
		}
		queries = append(queries, q)
	}
	for name, m := range documented {
		if _, is := rules[name]; !is && m.Kind == "recorded" {
			t.Errorf("docs/metrics.md has %s, which no rule records", name)
		}
	}
	for _, q := range queries {
		used, err := q.Metrics(documented)
		if err != nil {
			t.Error(err)
			continue
		}
		labels := slices.Clone(everywhere)
		for _, m := range used {
			labels = append(labels, m.Labels...)
			if m.Kind == "histogram" {
				labels = append(labels, "le")
			}
		}
		for _, s := range selected.FindAllStringSubmatch(q.Expr, -1) {
			if s[1] != "" && !strings.HasPrefix(s[1], "titrate_") && !strings.HasPrefix(s[1], "titrate:") && !slices.Contains(foreign, s[1]) {
				t.Errorf("%s: unknown metric %s", q.Where(), s[1])
			}
			if s[1] == "ALERTS" {
				labels = append(labels, "alertname", "alertstate")
			}
		}
		for _, name := range labelsOf(q) {
			if !slices.Contains(labels, name) {
				t.Errorf("%s: none of its metrics has the label %s: %s", q.Where(), name, q.Expr)
			}
		}
	}
}

// sameLabels reports whether a rule's expression keeps the labels, and namespace.
func sameLabels(labels []string, q metrics.Query) bool {
	kept := map[string]bool{}
	for _, by := range listed.FindAllStringSubmatch(q.Expr, -1) {
		for _, name := range label.FindAllString(by[1], -1) {
			kept[name] = name != "le"
		}
	}
	for _, name := range append([]string{"namespace"}, labels...) {
		if !kept[name] {
			return false
		}
		delete(kept, name)
	}
	delete(kept, "le")
	return len(kept) == 0
}

// Prometheus' own tool reads each query, as the expression of a rule. It is part of Debian's
// package prometheus.
func TestQueriesParse(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not in PATH: tools/sh/need.sh promtool installs Debian's package prometheus")
	}
	queries, err := metrics.Queries(root)
	if err != nil {
		t.Fatal(err)
	}
	type rule struct{ Record, Expr string }
	var rules []rule
	for i, q := range queries {
		rules = append(rules, rule{fmt.Sprintf("panel:query_%d", i), q.Concrete("1m")})
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboards", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), promtool, "check", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("promtool check rules: %v\n%s", err, out)
	}
}
