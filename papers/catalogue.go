// Package papers lists the figures and tables of the five papers that Titrate is based on. Each is an
// experiment that can be run: `titrate-lab lab list` and `titrate-lab lab run NAME` run one, `make figures` runs all.
// Each paper has a folder with its laws as published and its figures. The laws that the product runs are in
// control/. Of this module, the binary contains only `titrate-lab lab`.
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

// Names returns the names of all experiments that can be run.
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
