package view

import (
	"fmt"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
	"github.com/charmbracelet/x/ansi"
)

// Styles. Colours are the terminal's own sixteen, so they fit any theme.
var (
	bold  = lipgloss.NewStyle().Bold(true)
	faint = lipgloss.NewStyle().Faint(true)
	good  = lipgloss.NewStyle().Foreground(lipgloss.Color("2"))
	bad   = lipgloss.NewStyle().Foreground(lipgloss.Color("1"))
	warn  = lipgloss.NewStyle().Foreground(lipgloss.Color("3"))
)

// Line is a sample in one line.
func Line(s *Sample) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%3.0fs %-11s pool %3.0f/%.0f", s.Elapsed.Seconds(), s.Phase, s.Pool.Gets, s.Pool.Capacity)
	for _, t := range s.Tenants {
		fmt.Fprintf(&b, "  %s %.0f of %.0f (fair %.0f)", t.Name, t.Gets, t.Wants, t.FairShare)
	}
	for _, c := range s.Clients {
		fmt.Fprintf(&b, "  %s %.0f of %.0f (limit %g)", c.Name, c.Gets, c.Wants, c.Rate)
	}
	fmt.Fprintf(&b, "  failed %d", s.Failed)
	return b.String()
}

// Line of a note.
func (n Note) Line() string { return fmt.Sprintf("%3.0fs * %s", n.At.Seconds(), n.Text) }

// The terminal that a table fits: columns, and lines of which the last stays free for the cursor.
const (
	width    = 80
	height   = 24
	smallest = height
)

// StateWidth is the most columns of a tenant's state: with it a tenant's row fits the terminal.
const StateWidth = 22

// mostNotes is the number of notes that are shown if there is room.
const mostNotes = 4

// Table is a sample as a screen of text for a terminal of 80 columns and 24 lines.
func Table(s *Sample) string { return Screen(s, nil, width, height) }

// Screen is a sample as a screen of text for a terminal of a size. A line that is longer ends in "…". The latest notes
// have what the tables leave of the screen, and one line at least. In a wide terminal a tenant's row has its last
// minute, and a bar of what it wants and gets.
func Screen(s *Sample, past *Past, width, height int) string {
	lines := strings.Split(strings.Join([]string{header(s, width), tenants(s, past, width), gateways(s)}, "\n"), "\n")
	most := mostNotes
	if height > smallest {
		most = height
	}
	room := max(1, min(most, height-1-len(lines)))
	for _, note := range s.Notes[max(0, len(s.Notes)-room):] {
		lines = append(lines, warn.Render(note.Line()))
	}
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], width, "…")
	}
	return strings.Join(lines, "\n") + "\n"
}

func header(s *Sample, width int) string {
	total := fmt.Sprintf("%.0f of %.0f/s admitted, %.0f wanted", s.Pool.Gets, s.Pool.Capacity, s.Pool.Wants)
	failed := good.Render("none failed")
	if s.Failed > 0 {
		failed = bad.Render(fmt.Sprintf("%d failed", s.Failed))
	}
	price := faint.Render("price unknown")
	if s.Pool.Known {
		price = fmt.Sprintf("price %.4f", s.Pool.Price)
	}
	return fmt.Sprintf("%s  %s, %s left  %s  %s\n%s %s  %s",
		bold.Render("titrate-lab dev"), bold.Render(s.Phase), clock(s.PhaseLeft),
		faint.Render(clock(s.Elapsed)+" of "+clock(s.Total)), failed,
		bar(s.Pool.Gets, s.Pool.Capacity, max(width-56, 1)), total, price)
}

// bar draws a part of a whole in characters, and the part beyond the whole in another colour.
func bar(part, whole float64, characters int) string {
	n := 0
	if whole > 0 {
		n = max(0, min(int(part/whole*float64(characters)+.5), characters))
	}
	style := good
	if part > 1.05*whole {
		style = bad
	}
	return style.Render(strings.Repeat("█", n)) + faint.Render(strings.Repeat("░", characters-n))
}

func clock(d time.Duration) string {
	return fmt.Sprintf("%d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}

// What a table of tenants needs beyond 80 columns for the last minute, and for bars.
const (
	wideForPast = width + pastLength + 2
	wideForBars = wideForPast + barLength + 2
	barLength   = 24
)

func tenants(s *Sample, past *Past, width int) string {
	titles := []string{"tenant", "weight", "wants", "gets", "fair", "wait p99", "marks", "rejects", "state"}
	if width >= wideForPast {
		titles = append(titles, "gets, last minute")
	}
	if width >= wideForBars {
		titles = append(titles, "gets █ of wants ░")
	}
	t := newTable(titles...)
	highest := 1.
	for _, r := range s.Tenants {
		highest = max(highest, r.Gets, r.Wants)
	}
	wide := func(name string, gets, wants float64) (cells []string) {
		if width >= wideForPast {
			cells = append(cells, past.line(name))
		}
		if width >= wideForBars {
			full := int(gets/highest*barLength + .5)
			cells = append(cells, good.Render(strings.Repeat("█", full))+
				faint.Render(strings.Repeat("░", max(0, int(wants/highest*barLength+.5)-full))))
		}
		return cells
	}
	for _, r := range s.Tenants {
		cells := []string{r.Name, num(r.Weight), num(r.Wants), num(r.Gets), num(r.FairShare),
			fmt.Sprintf("%.0f ms", r.WaitMs), num(r.Marks), num(r.Rejects), r.State}
		t.Row(append(cells, wide(r.Name, r.Gets, r.Wants)...)...)
	}
	for _, c := range s.Clients {
		limit := "limit " + num(c.Rate) + "/s"
		if c.Exact {
			limit += ", EXACT"
		}
		t.Row(append([]string{"  " + c.Name, "", num(c.Wants), num(c.Gets), "", "", "", num(c.Rejects), limit},
			wide(c.Name, c.Gets, c.Wants)...)...)
	}
	return t.Render()
}

func gateways(s *Sample) string {
	t := newTable("gateway", "wants", "gets", "rejects", "state")
	for _, g := range s.Gateways {
		t.Row(g.Name, num(g.Wants), num(g.Gets), num(g.Rejects), g.State)
	}
	return t.Render()
}

func newTable(headers ...string) *table.Table {
	cell := lipgloss.NewStyle().PaddingRight(1)
	return table.New().Border(lipgloss.RoundedBorder()).BorderStyle(faint).Headers(headers...).
		BorderLeft(false).BorderRight(false).BorderColumn(false).
		StyleFunc(func(row, col int) lipgloss.Style {
			switch {
			case row == table.HeaderRow:
				return cell.Bold(true)
			case col == 0 || headers[col] == "state" || col >= 9:
				return cell
			}
			return cell.Align(lipgloss.Right)
		})
}

func num(x float64) string {
	if x < 10 && x != float64(int(x)) {
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.0f", x)
}
