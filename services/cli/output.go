package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"

	"github.com/titrate/titrate/services/document"
)

// format is the value of -o.
type format string

const (
	asTable format = "table"
	asJSON  format = "json"
	asYAML  format = "yaml"
	asWide  format = "wide" // a table with more columns, of commands that have one
)

func (f *format) String() string { return string(*f) }
func (f *format) Type() string   { return "table|json|yaml" }

// Set refuses all but the three formats.
func (f *format) Set(s string) error {
	switch v := format(s); v {
	case asTable, asJSON, asYAML:
		*f = v
		return nil
	case asWide:
		return fmt.Errorf("must be table, json or yaml: titrate get has a wide table")
	}
	return fmt.Errorf("must be table, json or yaml")
}

// wideFormat is the value of -o where a table may be wide.
type wideFormat struct{ *format }

func (f wideFormat) Type() string { return "table|wide|json|yaml" }

func (f wideFormat) Set(s string) error {
	if format(s) == asWide {
		*f.format = asWide
		return nil
	}
	if f.format.Set(s) != nil {
		return fmt.Errorf("must be table, wide, json or yaml")
	}
	return nil
}

// tables reports whether the output is for people.
func (f *format) tables() bool { return *f == asTable || *f == asWide }

func (f *format) flag(cmd *cobra.Command) { f.flagAs(cmd, f, asTable, asJSON, asYAML) }

// flagWide is flag with wide tables.
func (f *format) flagWide(cmd *cobra.Command) {
	f.flagAs(cmd, wideFormat{f}, asTable, asWide, asJSON, asYAML)
}

func (f *format) flagAs(cmd *cobra.Command, value pflag.Value, formats ...format) {
	*f = asTable
	cmd.Flags().VarP(value, "output", "o", "format of the output")
	var words []cobra.Completion
	for _, one := range formats {
		words = append(words, string(one))
	}
	_ = cmd.RegisterFlagCompletionFunc("output",
		cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// message writes a message as JSON or YAML, or else what text writes for people.
func (f format) message(w io.Writer, m proto.Message, text func(io.Writer) error) error {
	switch f {
	case asJSON:
		return document.MessageJSON(w, m)
	case asYAML:
		return document.MessageYAML(w, m)
	}
	return text(w)
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

// text returns the text that write writes.
func (t *table) text() string {
	if len(t.rows) == 0 {
		return ""
	}
	titles := make([]string, len(t.columns))
	for i, c := range t.columns {
		titles[i] = c.title
	}
	lines := append([][]string{titles}, t.rows...)
	widths := t.widths()
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

// columnGap is the characters between two columns.
const columnGap = 2

// widths are the characters of each column's widest cell or title.
func (t *table) widths() []int {
	widths := make([]int, len(t.columns))
	for i, c := range t.columns {
		widths[i] = utf8.RuneCountInString(c.title)
		for _, row := range t.rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	return widths
}

// within is the text with lines of at most width characters, 0: any. The widest columns of names give way to those of
// numbers, down to their titles; a name that is cut ends in "…".
func (t *table) within(width int) string {
	if width <= 0 {
		return t.text()
	}
	widths := t.widths()
	over := columnGap*(len(widths)-1) - width
	for _, w := range widths {
		over += w
	}
	for ; over > 0; over-- {
		widest := -1
		for i, c := range t.columns {
			if !c.right && widths[i] > utf8.RuneCountInString(c.title) && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	cut := &table{columns: t.columns}
	for _, row := range t.rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = shorten(cell, widths[i])
		}
		cut.rows = append(cut.rows, cells)
	}
	return cut.text()
}

// shorten is a text of at most n characters.
func shorten(text string, n int) string {
	if runes := []rune(text); len(runes) > n {
		return string(runes[:max(n-1, 0)]) + "…"
	}
	return text
}
