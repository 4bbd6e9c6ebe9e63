package grid

import (
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/papers/markdown"
)

var update = flag.Bool("update", false, "play the whole grid (some minutes) and write it into docs/grids.md")

const document = "../../../docs/grids.md"

// lines are the lines of tables by their first three cells.
func lines(text string) map[string][]string {
	out := map[string][]string{}
	for _, line := range strings.Split(text, "\n") {
		if cells := strings.Split(strings.Trim(line, "| "), " | "); len(cells) > 3 {
			out[strings.Join(cells[:3], ", ")] = cells[3:]
		}
	}
	return out
}

// closeTo reports whether a figure of the document differs from the present one by at most most.
func closeTo(is, was string, most float64) bool {
	a, errA := strconv.ParseFloat(is, 64)
	b, errB := strconv.ParseFloat(was, 64)
	if errA != nil || errB != nil {
		return is == was
	}
	return math.Abs(a-b) <= most
}

// wideTolerance is 2 % of the requests, 0.05 of the mean, and for the excess 2 requests and a tenth of the
// excess.
func wideTolerance(column, columns int, is string) float64 {
	excess, _ := strconv.ParseFloat(is, 64)
	return []float64{2, .05, 2 + .1*math.Abs(excess)}[column/(columns/3)]
}

// siteTolerance is a few requests and hundredths of a mean; the missed targets may change.
func siteTolerance(column, _ int, _ string) float64 {
	return []float64{0, 0, 5, 20, .02, .05, .02, .05, 2, 20, 0, math.Inf(1)}[column]
}

// docs/grids.md has the grid's present output: the whole output is compared with -update, a part without.
func TestDocument(t *testing.T) {
	if *update {
		writeDocument(t)
		return
	}
	if testing.Short() {
		t.Skip("plays a minute of three gateways six times")
	}
	raw, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	// The rows of a restart are one job in each mode, as in the whole grid.
	t.Run("restart", func(t *testing.T) {
		r := played(t, Options{}.jobs(), func(j *job) bool { return j.cell.Events == "restart" })
		compare(t, string(raw), Writer, r.Document(), wideTolerance)
	})
	t.Run("site", func(t *testing.T) {
		c := Cell{Replicas: 3, Delay: time.Millisecond}
		r := played(t, Options{}.siteJobs(), func(j *job) bool { return j.cell == c && j.limits[0].rate == 100 })
		compare(t, string(raw), SiteWriter(c), r.SiteDocument(), siteTolerance)
	})
}

// writeDocument plays the whole grid and writes it, part by part.
func writeDocument(t *testing.T) {
	write := func(name, writer string, jobs []job, text func(*Result) string) {
		t.Run(name, func(t *testing.T) {
			r := played(t, jobs, func(*job) bool { return true })
			if err := markdown.Update(document, writer, text(r)); err != nil {
				t.Fatal(err)
			}
		})
	}
	write("wide", Writer, Options{}.jobs(), (*Result).Document)
	for _, c := range siteCells(false) {
		site := slices.DeleteFunc(Options{}.siteJobs(), func(j job) bool { return j.cell != c })
		write(fmt.Sprintf("site-%d-%v", c.Replicas, c.Delay), SiteWriter(c), site, (*Result).SiteDocument)
	}
}

// played is the result of some jobs.
func played(t *testing.T, jobs []job, choose func(*job) bool) *Result {
	r := &Result{Seed: 1}
	for _, j := range jobs {
		if !choose(&j) {
			continue
		}
		if err := j.play(t.Context(), r, func(float64) {}); err != nil {
			t.Fatal(err)
		}
	}
	r.finish()
	return r
}

// compare compares the lines of text with the lines of a part of the document.
func compare(t *testing.T, raw, writer, text string, tolerance func(column, columns int, is string) float64) {
	between, err := markdown.Part(raw, writer)
	if err != nil {
		t.Fatal(err)
	}
	documented, now := lines(between), lines(text)
	if len(now) < 4 {
		t.Fatalf("%d lines of the grid", len(now))
	}
	for name, cells := range now {
		was := documented[name]
		if len(was) != len(cells) {
			t.Errorf("docs/grids.md lacks the line %q as it is now: make grid", name)
			continue
		}
		for i := range cells {
			if most := tolerance(i, len(cells), cells[i]); !math.IsInf(most, 0) && !closeTo(cells[i], was[i], most) {
				t.Errorf("%s, column %d: %s, docs/grids.md has %s: make grid", name, i+4, cells[i], was[i])
			}
		}
	}
}
