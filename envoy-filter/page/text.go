package page

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
)

// writer lays out a page for people.
type writer struct{ bytes.Buffer }

func asText(v view) []byte {
	var w writer
	v.text(&w)
	return w.Bytes()
}

func (w *writer) line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

// table writes rows in columns after an empty line; one without a row below its
// titles says so.
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

// quote quotes a name only if it needs it.
func quote(s string) string {
	q := strconv.Quote(s)
	if s == "" || q != `"`+s+`"` || strings.ContainsAny(s, " \t") {
		return q
	}
	return s
}

// show writes a quantity with at most four digits of a small one.
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
