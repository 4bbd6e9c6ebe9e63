package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/titrate/titrate/lab/swarm"
)

// docs/grids.md has what the program writes: the cells of up to ten replicas, which
// take seconds, are computed again.
func TestDocument(t *testing.T) {
	if testing.Short() {
		t.Skip("computes some forty cells in full")
	}
	raw, err := os.ReadFile(filepath.Join("..", "..", "docs", "grids.md"))
	if err != nil {
		t.Fatal(err)
	}
	var results []swarm.Result
	measure := func(c swarm.Cell) swarm.Result {
		r := swarm.Measure(c, full.effort)
		results = append(results, r)
		return r
	}
	for _, delay := range mapped {
		for _, rate := range full.rates {
			for _, n := range full.replicas {
				if n <= 10 {
					measure(swarm.Cell{Rate: rate, Replicas: n, Delay: delay})
				}
			}
			if row := row(full.missedAt(results, rate, delay)); !strings.Contains(string(raw), "\n"+row) {
				t.Errorf("delay %g s: the document lacks %q; go run ./grid -doc writes it", delay, row)
			}
		}
	}
	for _, r := range results {
		for _, cells := range missedBy(r) {
			if row := row(cells); !strings.Contains(string(raw), row+"\n") {
				t.Errorf("the document lacks %q; go run ./grid -doc writes it", row)
			}
		}
	}
	for _, c := range listed {
		if c.Replicas > 10 {
			continue
		}
		if row := row(figures(measure(c))); !strings.Contains(string(raw), row+"\n") {
			t.Errorf("the document lacks %q; go run ./grid -doc writes it", row)
		}
	}
}

// row is a table's, from its left.
func row(cells []string) string { return "| " + strings.Join(cells, " | ") + " |" }
