// Package markdown writes the generated parts of Markdown documents, and tables. A part is named after the
// program that writes it; the document has the part between two lines:
//
//	<!-- written by make figures: begin -->
//
//	…
//
//	<!-- written by make figures: end -->
//
// Text outside the two lines is written by people and kept as it is.
package markdown

import (
	"fmt"
	"os"
	"strings"
)

// Part returns the document's text between the lines of a writer.
func Part(document, writer string) (string, error) {
	_, part, _, err := cut(document, writer)
	return part, err
}

// Replace returns the document with text between the lines of a writer.
func Replace(document, writer, text string) (string, error) {
	before, _, after, err := cut(document, writer)
	if err != nil {
		return "", err
	}
	begin, end := lines(writer)
	return before + begin + "\n\n" + text + "\n" + end + after, nil
}

// Update is Replace for a file.
func Update(file, writer, text string) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	updated, err := Replace(string(raw), writer, text)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, []byte(updated), 0o644)
}

// lines returns the lines around a writer's part.
func lines(writer string) (begin, end string) {
	return "<!-- written by " + writer + ": begin -->", "<!-- written by " + writer + ": end -->"
}

// cut divides a document at the lines of a writer.
func cut(document, writer string) (before, part, after string, err error) {
	begin, end := lines(writer)
	before, rest, ok := strings.Cut(document, begin)
	part, after, found := strings.Cut(rest, end)
	if !ok || !found {
		return "", "", "", fmt.Errorf("the document needs the lines %q and %q", begin, end)
	}
	return before, part, after, nil
}

// Table is a table with titled columns. A bar in a cell is escaped.
func Table(head []string, rows [][]string) string {
	rule := make([]string, len(head))
	for i := range rule {
		rule[i] = "---"
	}
	return table(head, rule, rows)
}

func table(head, rule []string, rows [][]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s|%s|\n", row(head), strings.Join(rule, "|"))
	for _, cells := range rows {
		b.WriteString(row(cells))
	}
	return b.String()
}

func row(cells []string) string {
	escaped := make([]string, len(cells))
	for i, c := range cells {
		escaped[i] = escape(c)
	}
	return "| " + strings.Join(escaped, " | ") + " |\n"
}

// Rows reads the rows of a table that Table has written, without its head; none if there is no table.
func Rows(table string) (rows [][]string) {
	for line := range strings.Lines(table) {
		line, inside := strings.CutPrefix(strings.TrimSpace(line), "| ")
		if !inside {
			continue
		}
		cells := strings.Split(strings.TrimSuffix(line, " |"), " | ")
		for i, c := range cells {
			cells[i] = strings.ReplaceAll(c, `\|`, "|")
		}
		rows = append(rows, cells)
	}
	if len(rows) == 0 {
		return nil
	}
	return rows[1:]
}

func escape(cell string) string { return strings.ReplaceAll(cell, "|", `\|`) }
