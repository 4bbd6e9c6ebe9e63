package adminpage

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
)

// writer writes a page as text.
type writer struct{ bytes.Buffer }

func asText(v view) []byte {
	var w writer
	v.text(&w)
	return w.Bytes()
}

func (w *writer) line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

// table writes an empty line and rows in columns; "-" stands for a table that has
// titles only.
func (w *writer) table(rows [][]string) {
	w.line("")
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	if len(rows) == 1 {
		fmt.Fprintln(t, "-")
	}
	t.Flush()
}

// quote quotes a name if it is empty or has unusual bytes.
func quote(s string) string {
	q := strconv.Quote(s)
	if s == "" || q != `"`+s+`"` || strings.ContainsAny(s, " \t") {
		return q
	}
	return s
}

// show writes a quantity with four digits, or without decimals from 1000 on.
func show(n number) string {
	v := float64(n)
	if v >= 1000 || v <= -1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

func count(n uint64) string { return strconv.FormatUint(n, 10) }

func counts(list ...uint64) []string {
	out := make([]string, len(list))
	for i, n := range list {
		out[i] = count(n)
	}
	return out
}
