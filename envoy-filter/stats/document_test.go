package stats

import (
	flags "flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flags.Bool("update", false, "rewrite the table of docs/metrics.md")

const (
	document   = "../../docs/metrics.md"
	begin, end = "<!-- written by envoy-filter/stats: begin -->", "<!-- written by envoy-filter/stats: end -->"
)

// The document has the filter's metrics as they are.
func TestDocument(t *testing.T) {
	var table strings.Builder
	table.WriteString("| metric | kind | labels | meaning |\n|---|---|---|---|\n")
	kinds := [...]string{Counter: "counter", Gauge: "gauge", Histogram: "histogram"}
	for _, d := range Table {
		labels := "none"
		if len(d.Labels) > 0 {
			labels = "`" + strings.Join(d.Labels, "`, `") + "`"
		}
		if d.Help == "" {
			t.Errorf("%s has no help", d.Name)
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", d.Name, kinds[d.Kind], labels, d.Help)
	}
	raw, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(raw), begin)
	part, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s needs the lines %s and %s", document, begin, end)
	}
	if *update {
		part = "\n\n" + table.String() + "\n"
		if err := os.WriteFile(document, []byte(before+begin+part+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if strings.TrimSpace(part) != strings.TrimSpace(table.String()) {
		t.Errorf("%s: the part of the filter differs from the code: rewrite it with -update", document)
	}
}
