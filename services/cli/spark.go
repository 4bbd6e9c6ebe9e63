package cli

import (
	"slices"
	"strings"
	"unicode/utf8"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/command"
	"github.com/titrate/titrate/services/toplist"
	"github.com/titrate/titrate/services/wording"
)

// spark draws the requests of the last minute as a small line. It has a character for ten seconds, the newest
// last, the highest one for the most requests, a point for none.
func spark(m *quotav1.Activity) string {
	var asked []float64
	for i, n := range m.GetAdmittedParts() {
		if i < len(m.GetRefusedParts()) {
			n += m.RefusedParts[i]
		}
		asked = append(asked, float64(n))
	}
	if len(asked) == 0 {
		return command.None
	}
	last := len(asked) - 1
	if lasted := m.GetNewestPart().AsDuration().Seconds(); lasted >= 2 {
		asked[last] *= 10 / lasted
	} else if last > 0 { // too short to say anything
		asked = asked[:last]
	}
	return wording.Spark(asked)
}

// recent are the rates of the last ten to twenty seconds.
func recent(m *quotav1.Activity) (admitted, refused string) {
	a, r, window := toplist.Recent(m)
	if window <= 0 {
		return command.None, command.None
	}
	return command.PerSecond(float64(a) / window.Seconds()), command.PerSecond(float64(r) / window.Seconds())
}

// bars adds a column of bars to a table with a row for each of all. A bar is as long as the requests of its row, full
// for the admitted ones and light for the refused. width is the terminal's.
func bars(t *command.Table, all []*quotav1.Activity, width int) {
	const title, least, most = "ADMITTED █ REFUSED ░", 20, 60
	used := 0
	for _, w := range t.Widths() {
		used += w + command.ColumnGap
	}
	room := min(width-used, most)
	if room < least || len(all) != len(t.Rows) {
		return
	}
	highest := uint64(1)
	for _, m := range all {
		highest = max(highest, m.GetAdmitted()+m.GetRefused())
	}
	t.Columns = append(t.Columns, command.Column{Title: title})
	for i, m := range all {
		part := func(n uint64) int { return int(float64(n)/float64(highest)*float64(room) + .5) }
		full := part(m.GetAdmitted())
		t.Rows[i] = append(t.Rows[i], strings.Repeat("█", full)+
			strings.Repeat("░", max(0, part(m.GetAdmitted()+m.GetRefused())-full)))
	}
}

// narrow leaves out columns until the table fits the terminal: first columns of zeros, then the last seconds. A width
// of 0 takes all.
func narrow(t *command.Table, width int) {
	least := func() (n int) {
		for i, w := range t.Widths() {
			if !t.Columns[i].Right {
				w = utf8.RuneCountInString(t.Columns[i].Title)
			}
			n += w + command.ColumnGap
		}
		return n - command.ColumnGap
	}
	empty := func(i int) bool {
		return !slices.ContainsFunc(t.Rows, func(row []string) bool { return row[i] != "0/s" })
	}
	for _, title := range []string{"SHADOWED", "MARKED", "WAITED", "LAST MINUTE", "ADMITTED NOW", "REFUSED NOW"} {
		at := slices.IndexFunc(t.Columns, func(c command.Column) bool { return c.Title == title })
		last := strings.HasSuffix(title, "NOW") || title == "LAST MINUTE"
		if width > 0 && at >= 0 && least() > width && (last || empty(at)) {
			t.Columns = slices.Delete(t.Columns, at, at+1)
			for i := range t.Rows {
				t.Rows[i] = slices.Delete(t.Rows[i], at, at+1)
			}
		}
	}
}
