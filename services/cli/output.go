package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// format is the value of -o.
type format string

const (
	asTable format = "table"
	asJSON  format = "json"
	asYAML  format = "yaml"
)

func (f *format) String() string { return string(*f) }
func (f *format) Type() string   { return "table|json|yaml" }

// Set refuses all but the three formats.
func (f *format) Set(s string) error {
	switch v := format(s); v {
	case asTable, asJSON, asYAML:
		*f = v
		return nil
	}
	return fmt.Errorf("must be table, json or yaml")
}

func (f *format) flag(cmd *cobra.Command) {
	*f = asTable
	cmd.Flags().VarP(f, "output", "o", "format of the output")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(
		[]cobra.Completion{string(asTable), string(asJSON), string(asYAML)}, cobra.ShellCompDirectiveNoFileComp))
}

// table is text in columns.
type table struct {
	columns []column
	rows    [][]string
}

type column struct {
	title string
	right bool // numbers
}

// add adds a row. What a terminal would obey instead of show, such as an escape sequence in
// the display name of a tenant, is replaced.
func (t *table) add(cells ...string) {
	for i, cell := range cells {
		cells[i] = strings.Map(printable, cell)
	}
	t.rows = append(t.rows, cells)
}

func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return unicode.ReplacementChar
}

// write writes the titles and the rows, columns two spaces apart; nothing if there
// is no row.
func (t *table) write(w io.Writer) error {
	_, err := io.WriteString(w, t.text())
	return err
}

// text is what write writes.
func (t *table) text() string {
	if len(t.rows) == 0 {
		return ""
	}
	titles := make([]string, len(t.columns))
	for i, c := range t.columns {
		titles[i] = c.title
	}
	lines := append([][]string{titles}, t.rows...)
	widths := make([]int, len(t.columns))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, line := range lines {
		var row strings.Builder
		for i, cell := range line {
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if t.columns[i].right {
				row.WriteString(space + cell + "  ")
			} else {
				row.WriteString(cell + space + "  ")
			}
		}
		b.WriteString(strings.TrimRight(row.String(), " ") + "\n")
	}
	return b.String()
}
