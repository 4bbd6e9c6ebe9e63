// Package papers lists the figures and tables of the five papers that Titrate stands on,
// each as an experiment that can be run: `titrate lab list`, `titrate lab run NAME`, or
// all of them by `make figures`. Each paper has a folder, with its laws as published and
// its figures. The laws that Titrate runs are in control/; of this module nothing but
// `titrate lab` is part of a binary.
package papers

import (
	"strings"

	"github.com/titrate/titrate/papers/chemical"
	"github.com/titrate/titrate/papers/experiment"
	"github.com/titrate/titrate/papers/marking"
	"github.com/titrate/titrate/papers/maxmin"
	"github.com/titrate/titrate/papers/pacing"
	"github.com/titrate/titrate/papers/utility"
)

// All are the papers in the order of docs/reproduction.md.
func All() []experiment.Paper {
	return []experiment.Paper{
		chemical.Paper(),
		maxmin.Paper(),
		utility.Paper(),
		pacing.Paper(),
		marking.Paper(),
	}
}

// Find returns the experiment with the given name.
func Find(name string) (experiment.Experiment, bool) {
	for _, p := range All() {
		for _, e := range p.Experiments {
			if e.Name == name {
				return e, true
			}
		}
	}
	return experiment.Experiment{}, false
}

// Rows are the tables of docs/reproduction.md.
func Rows(findings map[string][]*experiment.Finding) string {
	var b strings.Builder
	b.WriteString(experiment.Count(All(), findings))
	for _, p := range All() {
		b.WriteString("\n" + p.Rows(findings))
	}
	return b.String()
}

// Names are those of all experiments that can be run.
func Names() (names []string) {
	for _, p := range All() {
		for _, e := range p.Experiments {
			if e.Run != nil {
				names = append(names, e.Name)
			}
		}
	}
	return names
}
