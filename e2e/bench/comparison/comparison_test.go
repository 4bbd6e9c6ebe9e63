package comparison

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/titrate/titrate/e2e/bench/cpu"
	"github.com/titrate/titrate/e2e/bench/exactness"
	"github.com/titrate/titrate/e2e/bench/latency"
	"github.com/titrate/titrate/e2e/bench/paired"
	"github.com/titrate/titrate/e2e/bench/rig"
	"github.com/titrate/titrate/papers/markdown"
)

// README.md and docs/comparison.md have the figures that are kept.
func TestTheDocumentsHaveTheFigures(t *testing.T) {
	const root = "../../.."
	f, err := Read(root)
	if err != nil || len(f) == 0 {
		t.Fatalf("%d systems, %v", len(f), err)
	}
	for document, want := range map[string]string{"README.md": f.summary(), "docs/comparison.md": f.document()} {
		raw, err := os.ReadFile(filepath.Join(root, document))
		if err != nil {
			t.Fatal(err)
		}
		part, err := markdown.Part(string(raw), writer)
		if err != nil || strings.TrimSpace(part) != strings.TrimSpace(want) {
			t.Errorf("%s has other figures than %s (%v): make compare writes both", document, file, err)
		}
	}
}

// A run replaces the figures that it has measured, and keeps the rest.
func TestPiecesAddUp(t *testing.T) {
	f := Figures{}
	cell := func(limit int, load string, mean float64) *exactness.Cell {
		return &exactness.Cell{System: rig.Limitador, Limit: limit, Load: load, Figures: exactness.Figures{Mean: mean}}
	}
	f.Take([]*exactness.Cell{cell(Limit, "6:3:1", .5), cell(1, "6:3:1", 7), cell(Limit, "edge", 1.25)}, 3)
	f.Take([]*exactness.Cell{cell(Limit, "6:3:1", .96)}, 1)
	f.Take(paired.Rounds{
		cpu.Proxied(latency.NoFilter): {{cpu.Total: 40, cpu.Envoy: 40}, {cpu.Total: 50, cpu.Envoy: 50}},
		cpu.Proxied(rig.Limitador):    {{cpu.Total: 120, cpu.Envoy: 60}, {cpu.Total: 200, cpu.Envoy: 100}}}, 2)
	f.Take(&latency.Figures{Low: paired.Rounds{latency.NoFilter: {{"p50": 300, "p99": 900}},
		rig.Limitador: {{"p50": 1100, "p99": 2900}}}}, 2)
	const want = "| Limitador (library) | 3.50 | 800 | 96 | 125 | – |\n"
	if got := f.summary(); !strings.HasSuffix(got, want) {
		t.Errorf("%s, want at its end %s", got, want)
	}
	document := f.document()
	for _, want := range []string{"| Limitador (library) | 3.50 (3.00 to 4.00) | 1.75 (1.50 to 2.00) | 800 (800 to 800) |",
		"load average before the parts was 1.0 to 2.0", "| Limitador (library) | 96 | – | – | – | 125 | – | – |"} {
		if !strings.Contains(document, want) {
			t.Errorf("no %q in\n%s", want, document)
		}
	}
}
