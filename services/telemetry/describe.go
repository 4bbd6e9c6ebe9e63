package telemetry

import (
	"strings"

	"github.com/titrate/titrate/papers/markdown"
)

// Kind is what a metric's value means.
type Kind string

// The kinds, as Prometheus calls them.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// Description is one metric as Prometheus has it.
type Description struct {
	Name   string
	Kind   Kind
	Labels []string
	Help   string
}

// Describe returns the description of an OpenTelemetry instrument. Prometheus' exporter
// writes its name with the unit, and counters with _total.
func Describe(name string, kind Kind, unit, help string, labels ...string) Description {
	name = strings.ReplaceAll(name, ".", "_")
	if suffix := map[string]string{"s": "_seconds", "By": "_bytes"}[unit]; suffix != "" {
		name += suffix
	}
	if kind == Counter {
		name += "_total"
	}
	return Description{Name: name, Kind: kind, Labels: labels, Help: help}
}

// Table is a table of metrics for a document.
func Table(metrics []Description) string {
	var rows [][]string
	for _, m := range metrics {
		labels := "none"
		if len(m.Labels) > 0 {
			labels = "`" + strings.Join(m.Labels, "`, `") + "`"
		}
		rows = append(rows, []string{"`" + m.Name + "`", string(m.Kind), labels, m.Help})
	}
	return markdown.Table([]string{"metric", "kind", "labels", "meaning"}, rows)
}
