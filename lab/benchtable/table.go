package main

import (
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"
)

// row is one benchmark. ns and allocs are per operation; start is cold, warm or empty.
type row struct {
	name, start string
	ns, allocs  float64
	bytes       float64
	more        string // metrics of its own
}

var processors = regexp.MustCompile(`-\d+$`)

// parse reads a line of go test; nil for one without a result.
func parse(line string) (*row, error) {
	fields := strings.Fields(line)
	if len(fields) < 4 {
		return nil, nil
	}
	r := &row{name: processors.ReplaceAllString(strings.TrimPrefix(fields[0], "Benchmark"), "")}
	for _, start := range []string{"cold", "warm"} {
		if cut, ok := strings.CutSuffix(r.name, "/"+start); ok {
			r.name, r.start = cut, start
		}
	}
	r.name = strings.NewReplacer("/", " ", "_", " ").Replace(r.name)
	for k := 2; k+1 < len(fields); k += 2 {
		v, err := strconv.ParseFloat(fields[k], 64)
		if err != nil {
			return nil, fmt.Errorf("benchmark line %q: %q is no number: %w", line, fields[k], err)
		}
		switch unit := fields[k+1]; unit {
		case "ns/op":
			r.ns = v
		case "allocs/op":
			r.allocs = v
		case "B/op":
			r.bytes = v
		default:
			r.more += fmt.Sprintf(" %.4g %s", v, unit)
		}
	}
	return r, nil
}

// add puts r among the rows, or keeps the faster of two runs.
func add(rows []*row, r *row) []*row {
	for i, other := range rows {
		if other.name == r.name && other.start == r.start {
			if r.ns < other.ns {
				rows[i] = r
			}
			return rows
		}
	}
	return append(rows, r)
}

// write prints a package's tables: single benchmarks, then those with a cold and a warm
// start.
func write(out io.Writer, pkg string, rows []*row) {
	var single, cold []*row
	warm := map[string]*row{}
	for _, r := range rows {
		switch r.start {
		case "cold":
			cold = append(cold, r)
		case "warm":
			warm[r.name] = r
		default:
			single = append(single, r)
		}
	}
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	defer w.Flush()
	short := pkg[strings.LastIndex(pkg, "/")+1:]
	if len(single) > 0 {
		fmt.Fprintf(w, "\n%s\ttime\tper second\tallocations\t\n", short)
		for _, r := range single {
			fmt.Fprintf(w, "  %s\t%s\t%s\t%g\t%s\n", r.name, duration(r.ns), count(1e9/r.ns), r.allocs, strings.TrimSpace(r.more))
		}
	}
	if len(cold) > 0 {
		fmt.Fprintf(w, "\n%s\tcold\twarm\tallocations\t\n", short)
		for _, r := range cold {
			hot, allocs := "–", r.allocs
			if other := warm[r.name]; other != nil {
				hot, allocs = duration(other.ns), max(allocs, other.allocs)
			}
			fmt.Fprintf(w, "  %s\t%s\t%s\t%g\t%s\n", r.name, duration(r.ns), hot, allocs, strings.TrimSpace(r.more))
		}
	}
}

// duration writes nanoseconds with three digits in a unit of their size.
func duration(ns float64) string {
	for _, u := range []struct {
		size float64
		name string
	}{{1e9, "s"}, {1e6, "ms"}, {1e3, "µs"}} {
		if ns >= u.size {
			return fmt.Sprintf("%.3g %s", ns/u.size, u.name)
		}
	}
	return fmt.Sprintf("%.3g ns", ns)
}

// count writes a number per second with three digits.
func count(n float64) string {
	switch {
	case n >= 1e6:
		return fmt.Sprintf("%.3g million", n/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.3g thousand", n/1e3)
	default:
		return fmt.Sprintf("%.3g", n)
	}
}
