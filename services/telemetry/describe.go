package telemetry

import (
	"slices"
	"strings"
)

// Kind is the meaning of a metric's value.
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

// Describe returns the description of an OpenTelemetry instrument. Prometheus' exporter writes its name with the unit,
// unless that is a word of the name already, and counters with _total.
func Describe(name string, kind Kind, unit, help string, labels ...string) Description {
	name = strings.ReplaceAll(name, ".", "_")
	word := map[string]string{"s": "seconds", "By": "bytes"}[unit]
	if word != "" && !slices.Contains(strings.Split(name, "_"), word) {
		name += "_" + word
	}
	if kind == Counter {
		name += "_total"
	}
	return Description{Name: name, Kind: kind, Labels: labels, Help: help}
}
