package command

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

// Format is the value of -o.
type Format string

const (
	AsTable Format = "table"
	AsJSON  Format = "json"
	AsYAML  Format = "yaml"
	AsWide  Format = "wide" // a table with more columns, of commands that have one
)

func (f *Format) String() string { return string(*f) }
func (f *Format) Type() string   { return "table|json|yaml" }

// Set refuses all but the three formats.
func (f *Format) Set(s string) error {
	switch v := Format(s); v {
	case AsTable, AsJSON, AsYAML:
		*f = v
		return nil
	case AsWide:
		return fmt.Errorf("must be table, json or yaml: titrate get has a wide table")
	}
	return fmt.Errorf("must be table, json or yaml")
}

// wideFormat is the value of -o where a table may be wide.
type wideFormat struct{ *Format }

func (f wideFormat) Type() string { return "table|wide|json|yaml" }

func (f wideFormat) Set(s string) error {
	if Format(s) == AsWide {
		*f.Format = AsWide
		return nil
	}
	if f.Format.Set(s) != nil {
		return fmt.Errorf("must be table, wide, json or yaml")
	}
	return nil
}

// Tables reports whether the output is for people.
func (f *Format) Tables() bool { return *f == AsTable || *f == AsWide }

// Flag adds -o. Flag adds -o.
func (f *Format) Flag(cmd *cobra.Command) { f.flagAs(cmd, f, AsTable, AsJSON, AsYAML) }

// FlagWide is flag with wide tables.
func (f *Format) FlagWide(cmd *cobra.Command) {
	f.flagAs(cmd, wideFormat{f}, AsTable, AsWide, AsJSON, AsYAML)
}

func (f *Format) flagAs(cmd *cobra.Command, value pflag.Value, formats ...Format) {
	*f = AsTable
	cmd.Flags().VarP(value, "output", "o", "format of the output")
	var words []cobra.Completion
	for _, one := range formats {
		words = append(words, string(one))
	}
	_ = cmd.RegisterFlagCompletionFunc("output",
		cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// Message writes a message as JSON or YAML, or else what text writes for people.
func (f Format) Message(w io.Writer, m proto.Message, text func(io.Writer) error) error {
	switch f {
	case AsJSON:
		return document.MessageJSON(w, m)
	case AsYAML:
		return document.MessageYAML(w, m)
	}
	return text(w)
}

// Table is text in columns.
type Table struct {
	Columns []Column
	Rows    [][]string
}

type Column struct {
	Title string
	Right bool // numbers
}

// NewTable returns a table without rows, with the columns that Columns returns.
func NewTable(titles ...string) *Table { return &Table{Columns: Columns(titles...)} }

// Columns returns columns with titles. A column whose title is given with # in front has numbers.
func Columns(titles ...string) []Column {
	all := make([]Column, len(titles))
	for i, title := range titles {
		all[i].Title, all[i].Right = strings.CutPrefix(title, "#")
	}
	return all
}

// Add adds a row. What a terminal would obey instead of show, such as an escape sequence in
// the display name of a tenant, is replaced.
func (t *Table) Add(cells ...string) {
	for i, cell := range cells {
		cells[i] = strings.Map(Printable, cell)
	}
	t.Rows = append(t.Rows, cells)
}

// Printable replaces what a terminal would obey. Printable is r, or a mark in its place if a terminal would obey it.
func Printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return unicode.ReplacementChar
}

// Write writes the titles and the rows, columns two spaces apart; nothing if there is no row.
func (t *Table) Write(w io.Writer) error {
	_, err := io.WriteString(w, t.Text())
	return err
}

// Text returns the text that write writes.
func (t *Table) Text() string {
	if len(t.Rows) == 0 {
		return ""
	}
	titles := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		titles[i] = c.Title
	}
	lines := append([][]string{titles}, t.Rows...)
	widths := t.Widths()
	var b strings.Builder
	for _, line := range lines {
		var row strings.Builder
		for i, cell := range line {
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if t.Columns[i].Right {
				row.WriteString(space + cell + "  ")
			} else {
				row.WriteString(cell + space + "  ")
			}
		}
		b.WriteString(strings.TrimRight(row.String(), " ") + "\n")
	}
	return b.String()
}

// ColumnGap is the characters between two columns.
const ColumnGap = 2

// Widths are the characters of each column's widest cell or title.
func (t *Table) Widths() []int {
	widths := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		widths[i] = utf8.RuneCountInString(c.Title)
		for _, row := range t.Rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	return widths
}

// Within is the text with lines of at most width characters, 0: any. The widest columns of names give way to those of
// numbers, down to their titles; a name that is cut ends in "…".
func (t *Table) Within(width int) string {
	if width <= 0 {
		return t.Text()
	}
	widths := t.Widths()
	over := ColumnGap*(len(widths)-1) - width
	for _, w := range widths {
		over += w
	}
	for ; over > 0; over-- {
		widest := -1
		for i, c := range t.Columns {
			if !c.Right && widths[i] > utf8.RuneCountInString(c.Title) && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	cut := &Table{Columns: t.Columns}
	for _, row := range t.Rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = shorten(cell, widths[i])
		}
		cut.Rows = append(cut.Rows, cells)
	}
	return cut.Text()
}

// shorten is a text of at most n characters.
func shorten(text string, n int) string {
	if runes := []rune(text); len(runes) > n {
		return string(runes[:max(n-1, 0)]) + "…"
	}
	return text
}
