package grid

import (
	"context"
	"flag"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/titrate/titrate/papers/markdown"
)

var update = flag.Bool("update", false, "play the whole grid (some minutes) and write it into docs/control.md")

const document = "../../../docs/control.md"

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

// closeTo tells whether a figure of the document is what is played now: within 2 % of the
// requests, 0.05 of the mean, 2 requests and a tenth of the excess.
func closeTo(column int, is, was string) bool {
	a, errA := strconv.ParseFloat(is, 64)
	b, errB := strconv.ParseFloat(was, 64)
	if errA != nil || errB != nil {
		return is == was
	}
	return math.Abs(a-b) <= []float64{2, .05, 2 + .1*math.Abs(a)}[column]
}

// docs/control.md has what the grid gives: the whole of it with -update, the rows of a restart
// (one job in each mode, as in the whole grid) without.
func TestDocument(t *testing.T) {
	if *update {
		r, err := Run(context.Background(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := markdown.Update(document, Writer, r.Document()); err != nil {
			t.Fatal(err)
		}
		return
	}
	if testing.Short() {
		t.Skip("plays a minute of three gateways six times")
	}
	r := &Result{Seed: 1}
	for _, j := range (Options{}).jobs() {
		if j.cell.Events == "restart" {
			if err := j.play(t.Context(), r, func(float64) {}); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.finish()
	raw, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	between, err := markdown.Part(string(raw), Writer)
	if err != nil {
		t.Fatal(err)
	}
	documented, played := lines(between), lines(r.Document())
	if len(played) < 4 {
		t.Fatalf("%d lines of the grid", len(played))
	}
	for name, cells := range played {
		was := documented[name]
		if len(was) != len(cells) {
			t.Errorf("docs/control.md lacks the line %q as it is now: make grid", name)
			continue
		}
		for i := range cells {
			if !closeTo(i/(len(cells)/3), cells[i], was[i]) {
				t.Errorf("%s, column %d: %s, docs/control.md has %s: make grid", name, i+4, cells[i], was[i])
			}
		}
	}
}
