package comparison

import (
	"fmt"
	"math"

	"github.com/titrate/titrate/e2e/bench/exactness"
	"github.com/titrate/titrate/e2e/bench/rig"
	"github.com/titrate/titrate/papers/markdown"
)

// writer names this program at its parts of the documents.
const writer = "make compare"

// unmeasured lists systems that are not in the tables, with reasons.
const unmeasured = "Gubernator is not among them: the Go module proxy that the measuring machine reaches refuses " +
	"its module, so it could not be built."

// none is the text of a cell that was not measured.
const none = "–"

// summary is the table of README.md: a row for each system.
func (f Figures) summary() string {
	var rows [][]string
	f.each(func(name string, s *System) {
		rows = append(rows, []string{name, s.CPU.text("%.2f", false), s.P50.text("%.0f", false),
			s.exact("6:3:1", mean), s.exact("edge", mean), s.exact("on/off", wrongful)})
	})
	return markdown.Table([]string{"", "CPU per proxied request; without a limit 1", "latency added, median (µs)",
		"admitted above the limit (%)", "the same, bursts across a second's edge (%)",
		"refused below the limit, in bursts (%)"}, rows)
}

// document is the part of docs/comparison.md.
func (f Figures) document() string {
	cost := markdown.Section{Title: "Cost", Head: []string{"system", "CPU, all processes", "CPU, Envoy alone",
		"latency added, median (µs)", "latency added, 99th percentile (µs)"}, Notes: []string{f.loads(), unmeasured}}
	f.each(func(name string, s *System) {
		cost.Add(name, s.CPU.text("%.2f", true), s.Envoy.text("%.2f", true), s.P50.text("%.0f", true),
			s.P99.text("%.0f", true))
	})
	text := cost.String()
	for _, t := range []struct {
		title string
		show  func(exactness.Figures) string
	}{
		{"A client above its limit: admitted, of what one bucket admits (%)", mean},
		{"The most over rate·t + burst (requests)",
			func(x exactness.Figures) string { return fmt.Sprintf("%.0f", x.Excess) }},
		{"The most in any second, over the rate",
			func(x exactness.Figures) string { return fmt.Sprintf("%.2f", x.Sliding) }},
		{"A client below its limit: refused (%)", wrongful},
		{"Requests without an answer or with a status other than 200 and 429",
			func(x exactness.Figures) string { return fmt.Sprint(x.Failed) }},
	} {
		section := markdown.Section{Title: t.title, Head: append([]string{"system"}, exactness.Loads()...)}
		f.each(func(name string, s *System) {
			row := []any{name}
			for _, load := range exactness.Loads() {
				row = append(row, s.exact(load, t.show))
			}
			section.Add(row...)
		})
		text += "\n" + section.String()
	}
	return text
}

// each visits the systems that were measured, in the order of the tables.
func (f Figures) each(visit func(name string, s *System)) {
	for _, name := range rig.Systems() {
		if f[name] != nil {
			visit(name, f[name])
		}
	}
}

// loads describes how busy the machine was.
func (f Figures) loads() string {
	low, high := math.Inf(1), 0.0
	for _, s := range f {
		for _, load := range s.Load {
			low, high = min(low, load), max(high, load)
		}
	}
	return fmt.Sprintf("Medians with their 95 %% intervals. The machine's load average before the parts was "+
		"%.1f to %.1f.", low, high)
}

// text is an estimate with or without its interval.
func (e *Estimate) text(format string, interval bool) string {
	if e == nil {
		return none
	}
	text := fmt.Sprintf(format, e.Median)
	if interval {
		text += fmt.Sprintf(" ("+format+" to "+format+")", e.Low, e.High)
	}
	return text
}

func (s *System) exact(load string, show func(exactness.Figures) string) string {
	x, ok := s.Exactness[load]
	if !ok {
		return none
	}
	return show(x)
}

func mean(x exactness.Figures) string     { return fmt.Sprintf("%.0f", 100*x.Mean) }
func wrongful(x exactness.Figures) string { return fmt.Sprintf("%.1f", 100*x.Wrongful) }
