package solve

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"charm.land/lipgloss/v2"
	"go.yaml.in/yaml/v3"
)

// WriteJSON writes the result as one indented JSON object.
func (r *Result) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(r)
}

// WriteYAML writes the result as a YAML document of the same shape as the JSON.
func (r *Result) WriteYAML(w io.Writer) error {
	encoder := yaml.NewEncoder(w)
	encoder.SetIndent(2)
	if err := encoder.Encode(r); err != nil {
		return err
	}
	return encoder.Close()
}

// WriteTable writes the result for people, with a bar per pool: in colour and
// blocks if rich, in ASCII otherwise. p is the problem that r solves.
func (r *Result) WriteTable(w io.Writer, p *Problem, rich bool) error {
	t := &table{problem: p, result: r, rich: rich}
	_, err := lipgloss.Fprint(w, t.headline()+"\n\n"+t.pools()+"\n"+t.tenants())
	return err
}

// table puts a problem and its result side by side.
type table struct {
	problem *Problem
	result  *Result
	rich    bool
}

// headline names the law, and the state of the guarantees.
func (t *table) headline() string {
	law := string(t.problem.Sharing)
	if t.problem.Sharing == Proportional {
		law += fmt.Sprintf(" (alpha %g)", t.problem.Alpha)
	}
	status := t.paint("OK", "2")
	if t.result.Status == Infeasible {
		status = t.paint(string(Infeasible), "1") + ": they do not fit the capacity and were scaled down"
	}
	return fmt.Sprintf("%s, guarantee %s: %s", law, t.problem.Guarantee, status)
}

func (t *table) pools() string {
	rows := [][]string{{"POOL", "CAPACITY", "USED", "", "FAIR RATE", "PRICE"}}
	for i, pool := range t.result.Pools {
		capacity := t.problem.Pools[i].Capacity
		rows = append(rows, []string{pool.Name, figure(capacity), figure(pool.Used), t.bar(pool.Used / capacity),
			optional(pool.FairRate), optional(pool.Price)})
	}
	return t.align(rows, "lrrlrr")
}

func (t *table) tenants() string {
	rows := [][]string{{"TENANT", "WEIGHT", "GUARANTEED", "MAX", "DEMAND", "SHARE", "BOUND BY"}}
	for i, got := range t.result.Tenants {
		tenant := &t.problem.Tenants[i]
		rows = append(rows, []string{got.Name, figure(tenant.Weight), figure(tenant.Guaranteed), figure(tenant.Max),
			figure(tenant.Demand), figure(got.Share), got.BoundBy})
	}
	return t.align(rows, "lrrrrrl")
}

// barWidth is the length of a bar in cells.
const barWidth = 24

// bar shows a part of 1.
func (t *table) bar(part float64) string {
	full, empty, colour := "#", ".", "2"
	if t.rich {
		full, empty = "█", "░"
	}
	if part > 1-1e-6 {
		colour = "3"
	}
	cells := min(max(int(math.Round(part*barWidth)), 0), barWidth)
	return t.paint(strings.Repeat(full, cells), colour) + strings.Repeat(empty,
		barWidth-cells) + fmt.Sprintf(" %3.0f%%", 100*part)
}

// paint colours a text by an ANSI colour's number, if rich.
func (t *table) paint(text, colour string) string {
	if !t.rich {
		return text
	}
	return lipgloss.NewStyle().Foreground(lipgloss.Color(colour)).Render(text)
}

// align lays out rows, the first one bold; sides has l or r for each column.
func (t *table) align(rows [][]string, sides string) string {
	width := make([]int, len(sides))
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], lipgloss.Width(cell))
		}
	}
	var b strings.Builder
	for n, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-lipgloss.Width(cell))
			if sides[i] == 'r' {
				cell = pad + cell
			} else {
				cell += pad
			}
			line.WriteString(cell + "  ")
		}
		text := strings.TrimRight(line.String(), " ")
		if n == 0 && t.rich {
			text = lipgloss.NewStyle().Bold(true).Render(text)
		}
		b.WriteString(text + "\n")
	}
	return b.String()
}

// figure writes a number with six significant digits, "-" for no bound.
func figure(v float64) string {
	if math.IsInf(v, 1) {
		return "-"
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

func optional(v *float64) string {
	if v == nil {
		return "-"
	}
	return figure(*v)
}
