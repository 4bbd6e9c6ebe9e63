// Package table writes tables as Markdown: what a terminal shows and what
// docs/measurements.md keeps are the same text.
package table

import (
	"fmt"
	"io"
	"strings"
)

// Table has a title, a head and rows of as many cells, and notes below.
type Table struct {
	Title string
	Head  []string
	Rows  [][]string
	Notes []string
}

// Add adds a row; each cell is printed as fmt.Sprint does.
func (t *Table) Add(cells ...any) {
	var row []string
	for _, c := range cells {
		row = append(row, fmt.Sprint(c))
	}
	t.Rows = append(t.Rows, row)
}

// Write writes the table, its columns padded to equal width.
func (t *Table) Write(w io.Writer) {
	fmt.Fprintf(w, "\n### %s\n\n", t.Title)
	width := make([]int, len(t.Head))
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		for i, cell := range row {
			width[i] = max(width[i], len([]rune(cell)))
		}
	}
	line := func(row []string) {
		for i, cell := range row {
			fmt.Fprintf(w, "| %s%s ", cell, strings.Repeat(" ", width[i]-len([]rune(cell))))
		}
		fmt.Fprintln(w, "|")
	}
	line(t.Head)
	rule := make([]string, len(width))
	for i := range width {
		rule[i] = strings.Repeat("-", width[i])
	}
	line(rule)
	for _, row := range t.Rows {
		line(row)
	}
	for _, note := range t.Notes {
		fmt.Fprintf(w, "\n%s\n", note)
	}
}
