package grid

import (
	"fmt"
	"slices"
	"strings"

	"github.com/titrate/titrate/papers/markdown"
)

// Writer names this program at its part of docs/grids.md.
const Writer = "make grid"

// titles are the names of the systems in a document.
var titles = map[string]string{Optimistic: "OPTIMISTIC", Strict: "STRICT", "static": "static split",
	"claims": "plain claims"}

// Document returns the result in Markdown: the total of refused requests, a table of the rows without events,
// and a table of the rows with events.
func (r *Result) Document() string {
	calm := func(row *Row) bool { return row.Events == "" }
	var b strings.Builder
	b.WriteString(r.refusals())
	b.WriteString("\n\n" + r.markdown("N", calm, func(row *Row) string { return fmt.Sprint(row.Replicas) }))
	b.WriteString("\nN = 3 at 100 ms, and something happens after a third of the time: a gateway joins, crashes, " +
		"restarts,\n" +
		"is cut off for 6 s or (partition) for 20 of 60 s.\n\n")
	b.WriteString(r.markdown("event", func(row *Row) bool { return !calm(row) },
		func(row *Row) string { return row.Events }))
	return b.String()
}

// refusals counts the refused requests of clients below their limit, without events.
func (r *Result) refusals() string {
	within, refused := map[string]int{}, map[string]int{}
	for _, row := range r.Rows {
		if row.Events == "" {
			within[row.System] += row.Within
			refused[row.System] += row.Refused
		}
	}
	var parts []string
	for _, s := range r.Systems() {
		parts = append(parts, fmt.Sprintf("%s %d", titles[s], refused[s]))
	}
	return fmt.Sprintf("Of all %d requests of clients below their limit, nothing having gone wrong but loss, "+
		"refused were: %s.", within[Optimistic], strings.Join(parts, ", "))
}

// markdown is a table of some rows: a line for each limit and third column, with the figures
// of each system.
func (r *Result) markdown(third string, show func(*Row) bool, value func(*Row) string) string {
	systems := r.Systems()
	head := []string{"limit", "burst", third}
	for _, figure := range []string{"refused, %", "mean", "excess"} {
		for _, s := range systems {
			head = append(head, figure+": "+titles[s])
		}
	}
	var lines [][]string
	var last *Row
	for _, row := range r.Rows {
		if !show(row) {
			continue
		}
		if last == nil || !row.like(last) {
			line := make([]string, len(head))
			line[0], line[1], line[2] = row.Limit, fmt.Sprintf("%g", row.Burst), value(row)
			lines, last = append(lines, line), row
		}
		for i, figure := range row.figures() {
			lines[len(lines)-1][3+i*len(systems)+slices.Index(systems, row.System)] = figure
		}
	}
	return markdown.Table(head, lines)
}

// figures are a row's: the worst share refused in percent, the worst mean, the worst excess.
func (row *Row) figures() []string {
	mean := "–"
	if row.Mean.set {
		mean = fmt.Sprintf("%.2f", row.Mean.Value)
	}
	return []string{fmt.Sprintf("%.1f", 100*row.Wrongful.Value), mean, fmt.Sprintf("%+.1f", row.Excess.Value)}
}
