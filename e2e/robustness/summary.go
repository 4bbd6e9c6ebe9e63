package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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
	runs(to, all)
	fmt.Fprintln(to)
	kinds(to, all)
	return nil
}

// group is the runs of one kind.
type group struct {
	only    string
	seconds float64
	commit  string
}

func runs(to io.Writer, all []*Result) {
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
	fmt.Fprintln(to, "| version | faults of | length, min | passed, seeds | failed, seeds | void, seeds | hours | "+
		"faults done | requests |")
	fmt.Fprintln(to, "|---|---|---|---|---|---|---|---|---|")
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
		fmt.Fprintf(to, "| %s | %s | %g | %s | %s | %s | %.2f | %d | %d |\n", g.commit, cmp.Or(g.only, "all"),
			g.seconds/60, ranges(passed), ranges(failed), ranges(void), hours, faults, requests)
	}
}

func kinds(to io.Writer, all []*Result) {
	done := map[string]int{}
	for _, r := range all {
		for _, f := range r.Faults {
			done[f.Kind]++
		}
	}
	names := make([]string, 0, len(done))
	for n := range done {
		names = append(names, n)
	}
	slices.Sort(names)
	fmt.Fprintln(to, "| fault | times done |")
	fmt.Fprintln(to, "|---|---|")
	for _, n := range names {
		fmt.Fprintf(to, "| %s | %d |\n", n, done[n])
	}
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

// kindsTable writes the table of faults and graces of docs/robustness.md.
func kindsTable(to io.Writer) {
	fmt.Fprintln(to, "| fault | what it does | lasts, s | grace after it, s | besides |")
	fmt.Fprintln(to, "|---|---|---|---|---|")
	for _, row := range kindRows() {
		fmt.Fprintf(to, "| `%s` | %s | %s | %s | %s |\n", row[0], row[1], row[2], row[3], row[4])
	}
}
