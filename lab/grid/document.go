package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/titrate/titrate/lab/swarm"
	"github.com/titrate/titrate/papers/markdown"
)

// writer names this program at its part of docs/grids.md.
const writer = "lab/grid"

// mapped are the delays whose maps the document has, s.
var mapped = []float64{.025, 1}

// listed are the cells whose figures the document has.
var listed = []swarm.Cell{
	{Rate: 1e3, Replicas: 2, Delay: .025}, {Rate: 1e3, Replicas: 10, Delay: .025},
	{Rate: 1e3, Replicas: 10, Delay: .25},
	{Rate: 1e3, Replicas: 10, Delay: 1}, {Rate: 1e3, Replicas: 100, Delay: .25}, {Rate: 1e4, Replicas: 100, Delay: .25},
	{Rate: 1e6, Replicas: 100, Delay: .25}, {Rate: 1e6, Replicas: 100, Delay: 1},
}

// document returns the program's output: for some delays a map and the missed targets, and some cells in full.
func (g grid) document(results []swarm.Result) string {
	var b strings.Builder
	for _, delay := range mapped {
		b.WriteString(g.targets(results, delay) + "\n")
		b.WriteString(missed(results, delay) + "\n")
	}
	var rows [][]string
	for _, c := range listed {
		for _, r := range results {
			if r.Cell == c {
				rows = append(rows, figures(r))
			}
		}
	}
	b.WriteString(markdown.Table([]string{"rate (1/s)", "N", "delay (ms)", "use, even", "use, lone", "use, skewed",
		"use, critical", "over, φ = 0 (%)", "over, φ = 0.25 (%)", "settling (lags)", "refused, calm (%)",
		"refused, below its share (%)", "refused, without a queue (%)"}, rows))
	return b.String() + "\n" + refusals(results)
}

// missed is the table of the targets that are missed at a delay, by the rate per replica.
func missed(results []swarm.Result, delay float64) string {
	var rows [][]string
	for _, r := range results {
		if r.Delay == delay {
			rows = append(rows, missedBy(r)...)
		}
	}
	return markdown.Table([]string{fmt.Sprintf("missed at %g ms", delay*1e3), "rate (1/s)", "N",
		"rate per replica (1/s)", "figure", "bound", "whose"}, rows)
}

// missedBy are the rows of a cell: a target that is missed, its figure, its bound and whose
// miss it is.
func missedBy(r swarm.Result) (rows [][]string) {
	for _, m := range r.Missed() {
		name, text := "", func(v float64) string { return fmt.Sprintf("%.1f %%", percent(v)) }
		switch m.Target {
		case "u":
			name = "u: use"
		case "o":
			name = "o: over"
		case "s":
			name, text = "s: settling", lags
		case "r":
			name, text = "r: refused", func(v float64) string { return fmt.Sprintf("%.2f %%", 100*v) }
		}
		whose := "ours"
		if m.Physics {
			whose = "physics"
		}
		rows = append(rows, []string{name, fmt.Sprintf("%.0f", r.Rate), fmt.Sprint(r.Replicas),
			fmt.Sprintf("%.3g", r.Rate/float64(r.Replicas)), text(m.Figure), text(m.Bound), whose})
	}
	return rows
}

// lags is a time in lags.
func lags(v float64) string {
	if math.IsInf(v, 1) {
		return "not in the run"
	}
	return fmt.Sprintf("%.1f lags", v)
}

// refusals is the table of what was refused of gateways that ask for less than their share,
// over all delays, by the rate per replica.
func refusals(results []swarm.Result) string {
	var rows [][]string
	for _, span := range [][2]float64{{1, 10}, {10, 100}, {100, 300}, {300, 1e6}} {
		var queued, none []float64
		for _, r := range results {
			if each := r.Rate / float64(r.Replicas); each >= span[0] && each < span[1] {
				queued, none = append(queued, max(r.RefusedCalm, r.RefusedBelow)), append(none, r.RefusedPolice)
			}
		}
		if len(queued) == 0 {
			continue
		}
		slices.Sort(queued)
		slices.Sort(none)
		middle, last := len(queued)/2, len(queued)-1
		row := []string{fmt.Sprintf("%g to %g", span[0], span[1]), fmt.Sprint(len(queued))}
		for _, part := range []float64{queued[middle], queued[last], none[middle], none[last]} {
			row = append(row, fmt.Sprintf("%.1f", percent(part)))
		}
		rows = append(rows, row)
	}
	return markdown.Table([]string{"rate per replica (1/s)", "cells", "refused below a share, median (%)", "worst (%)",
		"without a queue, median (%)", "worst (%)"}, rows)
}

// targets is the map of a delay: what is missed at each rate and number of replicas.
func (g grid) targets(results []swarm.Result, delay float64) string {
	head := []string{fmt.Sprintf("rate (1/s), delay %g ms", delay*1e3)}
	for _, n := range g.replicas {
		head = append(head, fmt.Sprintf("N = %d", n))
	}
	var rows [][]string
	for _, rate := range g.rates {
		rows = append(rows, g.missedAt(results, rate, delay))
	}
	return markdown.Table(head, rows)
}

// missedAt is a rate, and the targets that are missed at it and a delay, or a dot, for each number
// of replicas of which there is a result.
func (g grid) missedAt(results []swarm.Result, rate, delay float64) []string {
	row := []string{fmt.Sprintf("%.0f", rate)}
	for _, n := range g.replicas {
		for _, r := range results {
			if r.Cell == (swarm.Cell{Rate: rate, Replicas: n, Delay: delay}) {
				row = append(row, cmp.Or(r.Misses(), "·"))
			}
		}
	}
	return row
}

// figures is the row of a cell.
func figures(r swarm.Result) []string {
	row := []string{fmt.Sprintf("%.0f", r.Rate), fmt.Sprint(r.Replicas), fmt.Sprintf("%g", r.Delay*1e3)}
	for _, use := range []float64{r.UseEven, r.UseLone, r.UseSkewed, r.UseCritical} {
		row = append(row, fmt.Sprintf("%.3f", use))
	}
	for _, figure := range []float64{percent(r.OverStrict), percent(r.OverQuarter), r.Settling, percent(r.RefusedCalm),
		percent(r.RefusedBelow), percent(r.RefusedPolice)} {
		row = append(row, fmt.Sprintf("%.1f", figure))
	}
	return row
}

// percent of a part, to a tenth; 0 has no sign.
func percent(part float64) float64 { return math.Round(1000*part)/10 + 0 }
