package papers

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/titrate/titrate/papers/comparison"
	"github.com/titrate/titrate/papers/experiment"
)

// The short form of every figure has the shape that the document claims for it: figures that are reproduced in
// full are reproduced here. Every chart has the paper's figures.
func TestShapes(t *testing.T) {
	for _, p := range All() {
		for _, e := range p.Experiments {
			if e.Run == nil || e.Measured {
				continue
			}
			t.Run(e.Name, func(t *testing.T) {
				t.Parallel()
				r := e.Run(true)
				if len(r.Findings) == 0 || len(r.Charts) == 0 {
					t.Fatalf("%d findings, %d charts", len(r.Findings), len(r.Charts))
				}
				for _, c := range r.Charts {
					if !c.Marked() {
						t.Errorf("%s has no mark of what the paper says", c.Name)
					}
				}
				for _, f := range r.Findings {
					switch {
					case f.Verdict == experiment.Differs && !admitted(t, e, f):
						t.Errorf("%s: %s, the paper has %s (%s)", f.What, f.Here, f.Paper, f.Tolerance)
					case strings.Contains(f.What+f.Here+f.Why, "NaN"):
						t.Errorf("%s: %s", f.What, f.Here)
					}
				}
				if err := r.Save(t.TempDir()); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// admitted reports whether the document has the verdict that a finding differs.
func admitted(t *testing.T, e experiment.Experiment, f *experiment.Finding) bool {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "docs", "reproduction.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(raw), "\n") {
		if strings.HasPrefix(line, "| "+e.Figure+" | "+f.What+" |") {
			return strings.Contains(line, "| "+string(experiment.Differs)+" |")
		}
	}
	return false
}

// Names are unique, and every figure that is not computed has a reason.
func TestCatalogue(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range All() {
		for _, e := range p.Experiments {
			if seen[e.Name] || e.Figure == "" || e.Title == "" || (e.Run == nil) == (e.Cannot == "") ||
				!strings.HasPrefix(e.Name, p.Key+"-") {
				t.Errorf("%+v", e)
			}
			seen[e.Name] = true
		}
	}
	if _, ok := Find("chem-fig8"); !ok {
		t.Error("chem-fig8 is missing")
	}
}

// docs/reproduction.md has the program's output. Measured rows depend on the machine: only their names are
// compared.
func TestDocument(t *testing.T) {
	if testing.Short() {
		t.Skip("computes all figures in full")
	}
	raw, err := os.ReadFile(filepath.Join("..", "docs", "reproduction.md"))
	if err != nil {
		t.Fatal(err)
	}
	findings := map[string][]*experiment.Finding{}
	var mu sync.Mutex
	var all sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for _, p := range All() {
		for _, e := range p.Experiments {
			if e.Run == nil {
				continue
			}
			if e.Measured {
				if !strings.Contains(string(raw), "| "+e.Name+" |") {
					t.Errorf("%s is not in the document: make figures", e.Name)
				}
				continue
			}
			all.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				found := e.Run(false).Findings
				mu.Lock()
				defer mu.Unlock()
				findings[e.Name] = found
			})
		}
	}
	all.Wait()
	for _, p := range All() {
		for _, line := range strings.Split(p.Rows(findings), "\n") {
			if line != "" && !strings.Contains(string(raw), line+"\n") {
				t.Errorf("the document lacks a line; make figures writes it:\n%s", line)
			}
		}
	}
}

// docs/comparison.md has the tables that package comparison writes.
func TestComparison(t *testing.T) {
	if testing.Short() {
		t.Skip("plays all scenarios")
	}
	raw, err := os.ReadFile(filepath.Join("..", "docs", "comparison.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(raw), comparison.Document()) {
		t.Error("docs/comparison.md has other tables: make figures")
	}
}
