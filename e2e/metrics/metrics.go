// Package metrics reads the repository's texts about metrics: the metrics of docs/metrics.md, and the queries
// of the dashboards. Tests compare them with each other and with a running system.
package metrics

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Metric is a row of docs/metrics.md: a metric, or a series that a recording rule makes.
type Metric struct {
	Name, Kind string
	Labels     []string
	// Conditional: a sound installation with traffic may lack it. Its meaning ends with a sentence
	// that begins with Only, or it is one of the rate limit services, which --rls and --rlqs switch on.
	Conditional bool
}

var (
	row = regexp.MustCompile(
		"(?m)^\\| `(titrate[_:][\\w:]+)` \\| (counter|gauge|histogram|recorded) \\| (.*?) \\| (.*) \\|$")
	quoted = regexp.MustCompile("`(\\w+)`")
	only   = regexp.MustCompile(`\bOnly [^.]*\.$`)
	chosen = regexp.MustCompile(`\$\w+`) // a variable of Grafana's
	named  = regexp.MustCompile(`\btitrate[_:][\w:]+`)
)

// Documented are the metrics of docs/metrics.md by name; root is the repository's directory.
func Documented(root string) (map[string]Metric, error) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "metrics.md"))
	if err != nil {
		return nil, err
	}
	all := map[string]Metric{}
	for _, found := range row.FindAllStringSubmatch(string(text), -1) {
		m := Metric{Name: found[1], Kind: found[2],
			Conditional: only.MatchString(found[4]) || strings.HasPrefix(found[1], "titrate_rls_") ||
				strings.HasPrefix(found[1], "titrate_rlqs_") ||
				strings.HasPrefix(found[1], "titrate_operator_")}
		for _, label := range quoted.FindAllStringSubmatch(found[3], -1) {
			m.Labels = append(m.Labels, label[1])
		}
		if _, twice := all[m.Name]; twice {
			return nil, fmt.Errorf("docs/metrics.md has %s twice: a query would add up two different things", m.Name)
		}
		all[m.Name] = m
	}
	if len(all) == 0 {
		return nil, errors.New("docs/metrics.md has no metric")
	}
	return all, nil
}

// Base is the metric that a name of Prometheus' belongs to: a histogram has several names.
func Base(name string, documented map[string]Metric) string {
	for _, part := range []string{"_bucket", "_sum", "_count"} {
		if of, is := strings.CutSuffix(name, part); is && documented[of].Kind == "histogram" {
			return of
		}
	}
	return name
}

// Query is one of a dashboard's panel, or the expression of a rule, which has no legend.
type Query struct {
	Dashboard, Panel string
	Expr, Legend     string
}

// Where names the query's dashboard and panel.
func (q Query) Where() string { return q.Dashboard + ", panel " + q.Panel }

// Concrete is the query without Grafana's variables: of all pools, tenants and namespaces, with
// rates over the given range, such as 1m.
func (q Query) Concrete(over string) string {
	expr := strings.ReplaceAll(q.Expr, "$__rate_interval", over)
	return chosen.ReplaceAllString(expr, ".*")
}

// Metrics returns the documented metrics that the query names; an error names a metric that is not documented.
func (q Query) Metrics(documented map[string]Metric) ([]Metric, error) {
	var all []Metric
	for _, name := range named.FindAllString(q.Expr, -1) {
		m, known := documented[Base(name, documented)]
		if !known {
			return nil, fmt.Errorf("%s: docs/metrics.md has no %s", q.Where(), name)
		}
		all = append(all, m)
	}
	return all, nil
}

// Queries returns the queries of all dashboards of the chart.
func Queries(root string) ([]Query, error) {
	files, err := filepath.Glob(filepath.Join(root, "charts", "titrate", "files", "dashboards", "*.json"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no dashboards in charts/titrate/files/dashboards (%w)", err)
	}
	var all []Query
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var d struct {
			Panels []struct {
				Title   string
				Targets []struct{ Expr, LegendFormat string }
			}
		}
		if err := json.Unmarshal(text, &d); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, p := range d.Panels {
			for _, t := range p.Targets {
				all = append(all, Query{filepath.Base(file), p.Title, t.Expr, t.LegendFormat})
			}
		}
	}
	return all, nil
}

// Rules returns the recording rules of the chart by name, with their expressions.
func Rules(root string) (map[string]Query, error) {
	const file = "rules.yaml"
	text, err := os.ReadFile(filepath.Join(root, "charts", "titrate", "files", file))
	if err != nil {
		return nil, err
	}
	var in struct {
		Groups []struct {
			Rules []struct{ Record, Expr string }
		}
	}
	if err := yaml.Unmarshal(text, &in); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	all := map[string]Query{}
	for _, g := range in.Groups {
		for _, r := range g.Rules {
			if r.Record != "" {
				all[r.Record] = Query{Dashboard: file, Panel: r.Record, Expr: r.Expr}
			}
		}
	}
	return all, nil
}
