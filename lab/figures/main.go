// Figures draws the main figures of the five papers by running control/:
//
//	go run ./figures [-o DIR]      in lab/; half a minute
//
// For each figure it writes an SVG and a CSV with the same points, and a line that says
// what it shows. docs/reproduction.md tells how the papers' claims come out; the tests
// in control/ hold the figures.
//
//	chemistry   Monti & Sifalakis: figures 6a, 6b, 7 to 9, 10
//	max-min     Ryu, Cho & Chong: table 2 over time
//	pricing     Ye & MacGregor: figures 6 to 10
//	pacing      De Cicco & Mascolo: the error of the send loops over the rate
//	queues      Yan, Gao & Özbay: queue over time for five laws
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	dir := flag.String("o", "figures", "write to this `directory`")
	flag.Parse()
	if err := run(*dir, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

// papers make the figures, paper by paper.
var papers = []func() []figure{chemistry, maxMin, utility, pacing, queues}

// run draws every figure into dir.
func run(dir string, out io.Writer) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, paper := range papers {
		for _, f := range paper() {
			if err := f.save(dir); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
			fmt.Fprintf(out, "%s.svg, .csv: %s\n", f.name, f.title)
		}
	}
	return nil
}
