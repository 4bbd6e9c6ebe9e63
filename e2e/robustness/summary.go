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

// summarize writes the tables of docs/robustness.md from results: what was run, and
// how often each kind of faults was done.
func summarize(to io.Writer, dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "seed-*.json"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no results seed-*.json in %s: make them with -results", dir)
	}
	var all []*Result
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		r := &Result{}
		if err := json.Unmarshal(text, r); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, r)
	}
	_, err = fmt.Fprintf(to, "%s\n%s", runs(all), kinds(all))
	return err
}

// group is the runs of one kind.
type group struct {
	only    string
	seconds float64
	commit  string
}

// runs is the table of what was run.
func runs(all []*Result) string {
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
	var rows [][]string
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
	return markdown.Table([]string{"version", "faults of", "length, min", "passed, seeds", "failed, seeds",
		"void, seeds", "hours", "faults done", "requests"}, rows)
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

// writer is whose part of docs/robustness.md the table of faults and graces is.
const writer = "robustness -document"

// kindsTable is the table of faults and graces.
func kindsTable() string {
	var rows [][]string
	for _, row := range kindRows() {
		row[0] = "`" + row[0] + "`"
		rows = append(rows, row[:])
	}
	return markdown.Table([]string{"fault", "what it does", "lasts, s", "grace after it, s", "besides"}, rows)
}
