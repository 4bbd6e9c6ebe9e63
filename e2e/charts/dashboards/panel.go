package main

import "strings"

// dashboard is one page of Grafana.
type dashboard struct {
	name, title, help string
	variables         []variable
	rows              []row
}

// variable is a choice of the reader: one or several values of a metric's label.
type variable struct{ name, metric string }

// row is a title with the panels below it.
type row struct {
	title  string
	panels []panel
}

// panel is a chart over time; of a stat only the latest value is shown.
type panel struct {
	title, help string
	unit        unit
	kind        kind
	queries     []query
}

// query asks Prometheus; legend is a template of Grafana's, with labels in double braces.
type query struct{ legend, expr string }

// kind is the form of a panel.
type kind int

const (
	lines   kind = iota // a line for each series
	stacked             // areas that add up
	stat                // the latest value
	alarm               // the latest value: red above 0
	lacking             // the latest value: red below 1
)

// unit is Grafana's identifier, and the document's name, of a unit.
type unit struct{ grafana, words string }

var (
	requestsPerSecond = unit{"reqps", "requests/s"}
	costPerSecond     = unit{"suffix: /s", "cost units/s"}
	perSecond         = unit{"suffix: /s", "events/s"}
	bytesPerSecond    = unit{"Bps", "bytes/s"}
	seconds           = unit{"s", "seconds"}
	bytes             = unit{"bytes", "bytes"}
	part              = unit{"percentunit", "% of all"}
	count             = unit{"short", "count"}
	number            = unit{"none", "number"} // written in full: of a revision the last digits matter
)

// namespaces selects the namespaces of the variable; without the label, as outside Kubernetes, all series.
const namespaces = `namespace=~"$namespace"`

// in selects a metric of agents or coordinators.
func in(metric string, matchers ...string) string {
	return metric + "{" + strings.Join(append([]string{namespaces}, matchers...), ",") + "}"
}

// filter selects a metric of the filter, whose name Envoy may give a prefix.
func filter(metric string, matchers ...string) string {
	name := `__name__=~"(envoy_dynamicmodulescustom_)?` + metric + `"`
	return "{" + strings.Join(append([]string{name, namespaces}, matchers...), ",") + "}"
}

// rate returns the query of a counter's increase per second.
func rate(selector string) string { return "rate(" + selector + "[$__rate_interval])" }

// sum adds up, most takes the highest, by labels or over all.
func sum(by, of string) string { return aggregate("sum", by, of) }

func most(by, of string) string { return aggregate("max", by, of) }

func aggregate(how, by, of string) string {
	if by == "" {
		return how + "(" + of + ")"
	}
	return how + " by (" + by + ") (" + of + ")"
}

// matching counts the series that fulfil a condition, 0 if there are none.
func matching(of string) string { return "count(" + of + ") or vector(0)" }
