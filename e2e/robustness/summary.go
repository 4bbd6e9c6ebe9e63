package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/titrate/titrate/papers/markdown"
)

// results reads what -results has kept in a directory.
func results(dir string) ([]*Result, error) {
	files, err := filepath.Glob(filepath.Join(dir, "seed-*.json"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no results seed-*.json in %s: make them with -results", dir)
	}
	var all []*Result
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		r := &Result{}
		if err := json.Unmarshal(text, r); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, r)
	}
	return all, nil
}

// summarize writes the tables of what was run: into a document, or without one to the output.
// A document keeps the rows of other versions, whose results may be gone.
func summarize(to io.Writer, dir, document string) error {
	all, err := results(dir)
	if err != nil {
		return err
	}
	if document == "" {
		_, err = io.WriteString(to, summary(runs(all), all))
		return err
	}
	raw, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	part, err := markdown.Part(string(raw), summaryWriter)
	if err != nil {
		return fmt.Errorf("%s: %w", document, err)
	}
	kept, _, _ := strings.Cut(part, kindsTitle)
	return markdown.Update(document, summaryWriter, summary(merge(markdown.Rows(kept), runs(all)), all))
}

// kindsTitle stands above the table of how often each kind of faults was done.
const kindsTitle = "Faults done"

// summary is a table of runs, and one of the faults in the results.
func summary(rows [][]string, all []*Result) string {
	var versions []string
	for _, r := range all {
		versions = append(versions, r.Version)
	}
	slices.Sort(versions)
	return fmt.Sprintf("%s\n%s at %s:\n\n%s", markdown.Table([]string{"version", "faults of", "length, min",
		"passed, seeds", "failed, seeds", "void, seeds", "hours", "faults done", "requests"}, rows), kindsTitle,
		strings.Join(slices.Compact(versions), ", "), kinds(all))
}

// merge replaces the rows of the same version, faults and length, and adds the new rows.
func merge(old, fresh [][]string) [][]string {
	for _, row := range fresh {
		i := slices.IndexFunc(old, func(o []string) bool { return slices.Equal(o[:3], row[:3]) })
		if i < 0 {
			old = append(old, row)
		} else {
			old[i] = row
		}
	}
	return old
}

// group is the runs of one kind.
type group struct {
	only    string
	seconds float64
	commit  string
}

// runs are the rows of the table of what was run.
func runs(all []*Result) (rows [][]string) {
	groups := map[group][]*Result{}
	for _, r := range all {
		g := group{r.Only, r.Seconds, r.Version}
		groups[g] = append(groups[g], r)
	}
	order := make([]group, 0, len(groups))
	for g := range groups {
		order = append(order, g)
	}
	slices.SortFunc(order, func(a, b group) int {
		return cmp.Or(cmp.Compare(a.seconds, b.seconds), cmp.Compare(a.only, b.only), cmp.Compare(a.commit, b.commit))
	})
	for _, g := range order {
		var passed, failed, void []uint64
		var hours float64
		faults, requests := 0, 0
		for _, r := range groups[g] {
			switch {
			case r.Pass:
				passed = append(passed, r.Seed)
			case r.Void != "":
				void = append(void, r.Seed)
			default:
				failed = append(failed, r.Seed)
			}
			hours += r.Seconds / 3600
			faults += len(r.Faults)
			requests += r.Requests.Sent
		}
		rows = append(rows, []string{g.commit, cmp.Or(g.only, "all"), fmt.Sprintf("%g", g.seconds/60), ranges(passed),
			ranges(failed), ranges(void), fmt.Sprintf("%.2f", hours), fmt.Sprint(faults), fmt.Sprint(requests)})
	}
	return rows
}

// kinds is the table of how often each kind of faults was done.
func kinds(all []*Result) string {
	done := map[string]int{}
	for _, r := range all {
		for _, f := range r.Faults {
			done[f.Kind]++
		}
	}
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(done)) {
		rows = append(rows, []string{name, fmt.Sprint(done[name])})
	}
	return markdown.Table([]string{"fault", "times done"}, rows)
}

// ranges writes seeds as 1-3, 5; – for none.
func ranges(seeds []uint64) string {
	slices.Sort(seeds)
	seeds = slices.Compact(seeds)
	var parts []string
	for i := 0; i < len(seeds); {
		j := i
		for j+1 < len(seeds) && seeds[j+1] == seeds[j]+1 {
			j++
		}
		part := strconv.FormatUint(seeds[i], 10)
		if j > i {
			part += "-" + strconv.FormatUint(seeds[j], 10)
		}
		parts = append(parts, part)
		i = j + 1
	}
	return cmp.Or(strings.Join(parts, ", "), "–")
}

// Whose parts of docs/robustness.md the table of faults and graces is, and what was run.
const (
	writer        = "robustness -document"
	summaryWriter = "robustness -summary"
)

// kindsTable is the table of faults and graces.
func kindsTable() string {
	var rows [][]string
	for _, row := range kindRows() {
		row[0] = "`" + row[0] + "`"
		rows = append(rows, row[:])
	}
	return markdown.Table([]string{"fault", "what it does", "lasts, s", "grace after it, s", "besides"}, rows)
}
