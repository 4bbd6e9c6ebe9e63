package exactness

import (
	"fmt"
	"slices"

	"github.com/titrate/titrate/papers/markdown"
)

// tabulate has a table per figure: a row per system and load, a column per limit.
func tabulate(cells []*Cell) []markdown.Section {
	var all []markdown.Section
	for _, f := range []struct {
		title, note string
		show        func(*Figures) string
	}{
		{"Mean of the client above its limit, over what the rate allows",
			"Target ≥ 98 %. " + failures(cells),
			func(f *Figures) string { return fmt.Sprintf("%.1f %%", 100*f.Mean) }},
		{"Worst excess over rate·t + burst, in requests (of the limit)", "0 is an ideal bucket's.",
			func(f *Figures) string { return fmt.Sprintf("%.1f", f.Excess) }},
		{"Highest sliding second, over the rate", "An ideal bucket reaches 2: its burst and its rate.",
			func(f *Figures) string { return fmt.Sprintf("%.2f", f.Sliding) }},
		{"Wrongful 429s to the client below its limit", "Target 0 while it is on one gateway, ≤ 0.1 % otherwise.",
			func(f *Figures) string { return fmt.Sprintf("%.2f %%", 100*f.Wrongful) }},
	} {
		t := markdown.Section{Title: f.title, Head: []string{"system", "load"}}
		for _, l := range limits {
			t.Head = append(t.Head, fmt.Sprintf("%d/s", l))
		}
		t.Notes = []string{f.note}
		for _, system := range systems(cells) {
			for _, l := range loads {
				t.Add(row(cells, system, l.name, f.show)...)
			}
		}
		all = append(all, t)
	}
	return all
}

// failures names the cells in which requests failed.
func failures(cells []*Cell) string {
	text := ""
	for _, c := range cells {
		if c.Failed > 0 {
			text += fmt.Sprintf(" %s %s at %d/s: %d.", c.System, c.Load, c.Limit, c.Failed)
		}
	}
	if text == "" {
		return "No request failed."
	}
	return "Requests that failed:" + text
}

func systems(cells []*Cell) (names []string) {
	for _, c := range cells {
		if !slices.Contains(names, c.System) {
			names = append(names, c.System)
		}
	}
	return names
}

// row is a load's; – where the system was not asked.
func row(cells []*Cell, system, load string, show func(*Figures) string) []any {
	out := []any{system, load}
	for _, l := range limits {
		text := "–"
		for _, c := range cells {
			if c.System == system && c.Load == load && c.Limit == l {
				text = show(&c.Figures)
			}
		}
		out = append(out, text)
	}
	return out
}
