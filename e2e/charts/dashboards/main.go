// Dashboards writes the Grafana dashboards of the chart, as JSON, and their part of docs/observe.md. `make
// generate` runs it.
//
// # Model
//
//	dashboard ── rows ── panels ── queries      fleet.go, pool.go, tenant.go, internals.go
//	                                            grafana.go turns them into Grafana's JSON
//
// A panel has a title, an explanation of one or two sentences, a unit, and queries of Prometheus. The document
// has all of these too, so that a reader can look up a panel without opening Grafana. Quantiles and ratios are
// series that the chart's recording rules make. Queries use only labels that the processes set, and two others:
// instance, which Prometheus gives every target, and namespace, which may be missing.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/titrate/titrate/papers/markdown"
)

// writer names this program at its part of the document.
const writer = "make generate"

func main() {
	root := flag.String("root", "..", "directory of the repository")
	flag.Parse()
	if err := run(*root); err != nil {
		fmt.Fprintln(os.Stderr, "dashboards:", err)
		os.Exit(1)
	}
}

// all are the dashboards.
func all() []dashboard { return []dashboard{fleet(), pool(), tenant(), internals()} }

func run(root string) error {
	dir := filepath.Join(root, "charts", "titrate", "files", "dashboards")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var text strings.Builder
	for _, d := range all() {
		raw, err := json.MarshalIndent(d.grafana(), "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, d.name+".json"), append(raw, '\n'), 0o644); err != nil {
			return err
		}
		text.WriteString(d.document())
	}
	return markdown.Update(filepath.Join(root, "docs", "observe.md"), writer, text.String())
}

// document is the dashboard's section.
func (d dashboard) document() string {
	var rows [][]string
	for _, r := range d.rows {
		for _, p := range r.panels {
			rows = append(rows, []string{p.title, p.unit.words, p.help})
		}
	}
	table := markdown.Table([]string{"panel", "unit", "what it shows"}, rows)
	return fmt.Sprintf("### %s\n\n%s\n\n%s\n", d.title, d.help, table)
}
