// Grid measures the controller with announced claims over rate, replicas and gossip
// delay, and shows where the design's targets are missed:
//
//	go run ./grid [-quick] [-delays MS,…] [-csv FILE] [-doc FILE]      in lab/; two to three minutes, -quick a second
//
// It prints a map per delay: rates down, replicas across, in each cell the targets that
// are missed, or a dot. Package swarm says what is measured and how.
package main

import (
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/titrate/titrate/lab/swarm"
	"github.com/titrate/titrate/papers/markdown"
)

func main() {
	quick := flag.Bool("quick", false, "a small grid and short runs: seconds")
	file := flag.String("csv", "", "write every figure to this `file`")
	delays := flag.String("delays", "",
		"of the grid only these delays, `ms`, such as 25,250; no document is written then")
	doc := flag.String("doc", "", "write the tables of the full grid into this `file`: ../docs/grids.md")
	flag.Parse()
	g := full
	if *quick {
		g = small
	}
	if *quick || *delays != "" {
		*doc = "" // which has the whole grid
	}
	err := g.only(*delays)
	if err == nil {
		err = measure(g, *file, *doc)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "grid:", err)
		os.Exit(1)
	}
}

// measure sweeps the grid and writes what is to be written: nothing into a file without a name.
func measure(g grid, file, doc string) error {
	results, err := run(g, file, os.Stdout, os.Stderr)
	if err == nil && doc != "" {
		err = markdown.Update(doc, writer, g.document(results))
	}
	return err
}

// grid are the values to sweep.
type grid struct {
	rates    []float64 // requests/s
	replicas []int
	delays   []float64 // s
	effort   swarm.Effort
}

var (
	full = grid{[]float64{1, 10, 100, 1e3, 1e4, 1e5, 1e6}, []int{2, 3, 10, 30, 100, 1000},
		[]float64{.025, .1, .25, .5, 1, 2}, swarm.Full}
	small = grid{[]float64{10, 1e3, 1e6}, []int{2, 10}, []float64{.05, 1}, swarm.Quick}
)

// only leaves the delays of a list in the grid, ms; an empty one leaves all.
func (g *grid) only(list string) error {
	if list == "" {
		return nil
	}
	g.delays = nil
	for _, one := range strings.Split(list, ",") {
		ms, err := strconv.ParseFloat(one, 64)
		if err != nil || !(ms >= 0) {
			return fmt.Errorf("-delays %s: %q is no number of milliseconds", list, one)
		}
		g.delays = append(g.delays, ms/1e3)
	}
	return nil
}

// run sweeps the grid, delay by delay, and returns its results.
func run(g grid, file string, out, progress io.Writer) (all []swarm.Result, err error) {
	cells := len(g.rates) * len(g.replicas)
	for _, delay := range g.delays {
		results := make([]swarm.Result, 0, cells)
		for _, rate := range g.rates {
			for _, n := range g.replicas {
				results = append(results, swarm.Measure(swarm.Cell{Rate: rate, Replicas: n, Delay: delay}, g.effort))
				fmt.Fprintf(progress, "\rdelay %v s: %d of %d ", delay, len(results), cells)
			}
		}
		fmt.Fprint(progress, "\r                              \r")
		chart(out, delay, g.replicas, results)
		all = append(all, results...)
	}
	fmt.Fprintln(out, legend)
	if file == "" {
		return all, nil
	}
	f, err := os.Create(file)
	if err != nil {
		return all, err
	}
	return all, errors.Join(table(f, all), f.Close())
}

const legend = `
. all targets met   u use below 98 %   o over-admission after a join above 5 % (φ = 0) or 12 % (φ = .25)
s 5 % settling above 10 lags   r more than 1 in 1000 refused below the share, with the default queue`

// chart prints the map of one delay.
func chart(out io.Writer, delay float64, replicas []int, results []swarm.Result) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer w.Flush()
	fmt.Fprintf(w, "\ndelay %g ms, lag %.4g ms\n  rate/s", delay*1e3, results[0].Lag*1e3)
	for _, n := range replicas {
		fmt.Fprintf(w, "\tN=%d", n)
	}
	for i, r := range results {
		if i%len(replicas) == 0 {
			fmt.Fprintf(w, "\n  %g", r.Rate)
		}
		missed := r.Misses()
		if missed == "" {
			missed = "."
		}
		fmt.Fprintf(w, "\t%s", missed)
	}
	fmt.Fprintln(w)
}

// table writes every figure.
func table(out io.Writer, results []swarm.Result) error {
	w := csv.NewWriter(out)
	rows := [][]string{{"rate_per_s", "replicas", "delay_s", "lag_s", "use_even", "use_lone", "use_skewed",
		"use_critical", "over_strict", "over_quarter", "settling_lags",
		"refused_calm", "refused_below", "refused_police", "missed"}}
	for _, r := range results {
		row := []string{}
		for _, v := range []float64{r.Rate, float64(r.Replicas), r.Delay, r.Lag, r.UseEven, r.UseLone, r.UseSkewed,
			r.UseCritical, r.OverStrict, r.OverQuarter, r.Settling, r.RefusedCalm, r.RefusedBelow, r.RefusedPolice} {
			if !math.IsInf(v, 0) {
				v = math.Round(v*1e5) / 1e5
			}
			row = append(row, strconv.FormatFloat(v, 'g', -1, 64))
		}
		rows = append(rows, append(row, r.Misses()))
	}
	if err := w.WriteAll(rows); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	return nil
}
