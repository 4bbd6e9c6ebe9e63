package grid

import (
	"fmt"
	"slices"
	"strings"
)

// Legend explains the three figures of each system.
const Legend = `Of each system: wrongful 429s of clients below the limit (% of the worst client's requests),
mean of clients above it (over what one central bucket admits, the rate at most; the
worst), and the worst excess over rate·t + burst of any window, requests. Worst over
gossip delays of 25 to 250 ms, losses of 0 and 30 % and all kinds of clients. A central
bucket has 0.0, 1.00 and 0.0 by definition.`

// Systems lists the systems that were played, ours first.
func (r *Result) Systems() []string {
	var out []string
	for _, row := range r.Rows {
		if !slices.Contains(out, row.System) {
			out = append(out, row.System)
		}
	}
	slices.SortStableFunc(out, byOrder)
	return out
}

// Table is the result as text: titles, and a line for each limit and number of
// gateways with a cell for each system.
func (r *Result) Table() (titles []string, lines [][]string) {
	systems := r.Systems()
	titles = append([]string{"LIMIT", "BURST", "N", "EVENT"}, systems...)
	var last *Row
	for _, row := range r.Rows {
		if last == nil || !row.like(last) {
			line := make([]string, len(titles))
			line[0], line[1], line[2], line[3] = row.Limit, fmt.Sprintf("%g", row.Burst), fmt.Sprint(row.Replicas),
				row.Events
			lines = append(lines, line)
			last = row
		}
		lines[len(lines)-1][4+slices.Index(systems, row.System)] = row.cell()
	}
	return titles, lines
}

// cell has the three figures of Legend.
func (row *Row) cell() string { return strings.Join(row.figures(), " ") }

// LossTable returns the figures in which a rival does better, as text.
func (r *Result) LossTable() (titles []string, lines [][]string) {
	titles = []string{"LIMIT", "BURST", "N", "EVENT", "FIGURE", "RIVAL", "THEIRS", "OURS", "WHERE OURS WAS"}
	for _, l := range r.Losses {
		format := "%.2f"
		theirs, ours := l.Theirs.Value, l.Ours.Value
		switch l.What {
		case "wrongful":
			format, theirs, ours = "%.1f %%", 100*theirs, 100*ours
		case "excess":
			format = "%+.1f"
		}
		lines = append(lines, []string{l.Limit, fmt.Sprintf("%g", l.Burst), fmt.Sprint(l.Replicas), l.Events,
			l.What, l.Rival, fmt.Sprintf(format, theirs), fmt.Sprintf(format, ours), l.Ours.Where})
	}
	return titles, lines
}
