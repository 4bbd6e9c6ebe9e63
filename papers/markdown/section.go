package markdown

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Section is a table under a title, with notes below it; without a head there is no table.
type Section struct {
	Title string
	Head  []string
	Rows  [][]string
	Notes []string
}

// Add adds a row; each cell is printed as fmt.Sprint does.
func (s *Section) Add(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = fmt.Sprint(c)
	}
	s.Rows = append(s.Rows, row)
}

// String is the section as a document has it.
func (s *Section) String() string { return s.around(Table(s.Head, s.Rows)) }

// Aligned is the section for a terminal: its columns are padded to equal width.
func (s *Section) Aligned() string {
	all := append([][]string{s.Head}, s.Rows...)
	width := make([]int, len(s.Head))
	for _, cells := range all {
		for i, c := range cells {
			width[i] = max(width[i], utf8.RuneCountInString(escape(c)))
		}
	}
	rule := make([]string, len(s.Head))
	for i, w := range width {
		rule[i] = strings.Repeat("-", w+2)
	}
	padded := make([][]string, len(all))
	for r, cells := range all {
		for i, c := range cells {
			padded[r] = append(padded[r], c+strings.Repeat(" ", width[i]-utf8.RuneCountInString(escape(c))))
		}
	}
	return s.around(table(padded[0], rule, padded[1:]))
}

func (s *Section) around(table string) string {
	text := "### " + s.Title + "\n"
	if len(s.Head) > 0 {
		text += "\n" + table
	}
	for _, note := range s.Notes {
		text += "\n" + note + "\n"
	}
	return text
}
