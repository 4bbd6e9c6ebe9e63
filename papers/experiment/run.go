package experiment

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/titrate/titrate/papers/markdown"
)

// Save writes the result's charts into dir.
func (r *Result) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var errs []error
	for _, c := range r.Charts {
		errs = append(errs, c.Save(dir))
	}
	return errors.Join(errs...)
}

// Print writes the findings as a table.
func (r *Result) Print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "VERDICT\tQUANTITY\tPAPER\tHERE\tTOLERANCE")
	for _, f := range r.Findings {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", f.Verdict, f.What, f.Paper, f.Here, f.Tolerance)
	}
	w.Flush()
	for _, f := range r.Findings {
		if f.Why != "" {
			fmt.Fprintf(out, "\n%s: %s\n", f.What, f.Why)
		}
	}
}

// cached is a saved run.
type cached struct {
	Input    string     `json:"input"` // identifies the program that computed it
	Findings []*Finding `json:"findings"`
	Charts   []string   `json:"charts"`
}

// Cached runs an experiment in full and saves its charts, or reuses the charts of an earlier run with the same
// input. The input identifies the state of the program. hit reports whether Cached reused them.
func (e Experiment) Cached(dir, input string) (findings []*Finding, hit bool, err error) {
	path := filepath.Join(dir, ".cache", e.Name+".json")
	var old cached
	if raw, err := os.ReadFile(path); err == nil && json.Unmarshal(raw, &old) == nil && old.Input == input &&
		old.there(dir) {
		return old.Findings, true, nil
	}
	r := e.Run(false)
	if err := r.Save(dir); err != nil {
		return nil, false, fmt.Errorf("%s: %w", e.Name, err)
	}
	now := cached{Input: input, Findings: r.Findings}
	for _, c := range r.Charts {
		now.Charts = append(now.Charts, c.Name)
	}
	raw, err := json.MarshalIndent(now, "", " ")
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, raw, 0o644))
	}
	return r.Findings, false, err
}

// there reports whether the charts still exist.
func (c *cached) there(dir string) bool {
	for _, name := range c.Charts {
		for _, suffix := range []string{".svg", ".png", ".csv"} {
			if _, err := os.Stat(filepath.Join(dir, name+suffix)); err != nil {
				return false
			}
		}
	}
	return true
}

// Rows are a paper's lines of docs/reproduction.md; findings has them by experiment.
func (p Paper) Rows(findings map[string][]*Finding) string {
	var reasons strings.Builder
	var rows [][]string
	for _, e := range p.Experiments {
		if e.Run == nil {
			rows = append(rows, []string{e.Figure, e.Title, "–", "–", "–", "cannot", "–"})
			fmt.Fprintf(&reasons, "- %s: %s.\n", e.Figure, e.Cannot)
			continue
		}
		for _, f := range findings[e.Name] {
			rows = append(rows, []string{e.Figure, f.What, f.Paper, f.Here, f.Tolerance, string(f.Verdict), e.Name})
			if f.Why != "" {
				fmt.Fprintf(&reasons, "- %s, %s: %s\n", e.Figure, f.What, f.Why)
			}
		}
	}
	text := fmt.Sprintf("## %s\n\nCode: %s.\n\n", p.Citation, p.Package) + markdown.Table([]string{"figure", "quantity",
		"paper", "here", "tolerance", "verdict", "`titrate-lab lab run`"}, rows)
	if reasons.Len() > 0 {
		text += "\nWhy:\n\n" + reasons.String()
	}
	return text
}

// Count returns the numbers of figures and tables by verdict.
func Count(papers []Paper, findings map[string][]*Finding) string {
	var rows [][]string
	var all, computed, good int
	for _, p := range papers {
		n, no, ok, bad := 0, 0, 0, 0
		for _, e := range p.Experiments {
			n++
			r := Result{Findings: findings[e.Name]}
			switch {
			case e.Run == nil:
				no++
			case r.Verdict() == Ours: // nothing of the paper's to compare with
			case r.Verdict() == Differs:
				bad++
			default:
				ok++
			}
		}
		name, _, _ := strings.Cut(p.Citation, ",")
		rows = append(rows, []string{name, fmt.Sprint(n), fmt.Sprint(no), fmt.Sprint(ok), fmt.Sprint(bad)})
		all, computed, good = all+n, computed+ok+bad, good+ok
	}
	table := markdown.Table([]string{"paper", "figures and tables", "drawings and what cannot be computed",
		"reproduced",
		"differ"}, rows)
	return table + fmt.Sprintf("\n%d rows for figures and tables; of the %d that can be computed and compared %d are "+
		"reproduced: %.0f %%.\n", all, computed, good, 100*float64(good)/float64(max(1, computed)))
}
