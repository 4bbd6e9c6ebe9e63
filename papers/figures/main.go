// Figures computes every figure and table of the five papers and writes their charts, and
// the rows of docs/reproduction.md, and the tables of docs/comparison.md:
//
//	go run ./figures [-o DIR] [-only NAME,…] [-doc FILE]      in papers/; make figures
//
// What the same program computed before is read from DIR/.cache.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/titrate/titrate/papers"
	"github.com/titrate/titrate/papers/comparison"
	"github.com/titrate/titrate/papers/experiment"
	"github.com/titrate/titrate/papers/markdown"
)

// writer names this program at the generated parts of the documents.
const writer = "make figures"

func main() {
	dir := flag.String("o", "../figures", "write the charts to this `directory`")
	only := flag.String("only", "", "run these experiments `NAME,…` and print what they find; no document")
	doc := flag.String("doc", "../docs/reproduction.md", "write the rows into this `file`")
	beside := flag.String("comparison", "../docs/comparison.md", "write the tables of the comparison into this `file`")
	flag.Parse()
	var err error
	if *only != "" {
		err = some(*dir, strings.Split(*only, ","), os.Stdout)
	} else {
		err = errors.Join(all(*dir, *doc, os.Stdout), markdown.Update(*beside, writer, comparison.Document()))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

// some runs the named experiments.
func some(dir string, names []string, out io.Writer) error {
	for _, name := range names {
		e, ok := papers.Find(name)
		if !ok || e.Run == nil {
			return fmt.Errorf("no experiment %q; titrate-lab lab list has them", name)
		}
		began := time.Now()
		r := e.Run(false)
		if err := r.Save(dir); err != nil {
			return err
		}
		fmt.Fprintf(out, "%s, %s: %s (%.1f s)\n\n", e.Name, e.Figure, e.Title, time.Since(began).Seconds())
		r.Print(out)
		fmt.Fprintln(out)
	}
	return nil
}

// all runs everything on two cores and writes the document.
func all(dir, doc string, out io.Writer) error {
	input, err := self()
	if err != nil {
		return err
	}
	var todo []experiment.Experiment
	for _, p := range papers.All() {
		for _, e := range p.Experiments {
			if e.Run != nil {
				todo = append(todo, e)
			}
		}
	}
	findings, err := compute(dir, input, todo, out)
	if err != nil {
		return err
	}
	return markdown.Update(doc, writer, papers.Rows(findings))
}

// compute runs the experiments, two at a time, and prints a line for each.
func compute(dir, input string, todo []experiment.Experiment, out io.Writer) (map[string][]*experiment.Finding, error) {
	findings, done, errs := map[string][]*experiment.Finding{}, 0, []error(nil)
	var lock sync.Mutex
	one := func(e experiment.Experiment) {
		began := time.Now()
		f, hit, err := e.Cached(dir, input)
		lock.Lock()
		defer lock.Unlock()
		findings[e.Name], done = f, done+1
		errs = append(errs, err)
		how := fmt.Sprintf("%.1f s", time.Since(began).Seconds())
		if hit {
			how = "as before"
		}
		fmt.Fprintf(out, "[%d/%d] %-22s %s: %s\n", done, len(todo), e.Name,
			(&experiment.Result{Findings: f}).Verdict(), how)
	}
	work, workers := make(chan experiment.Experiment, len(todo)), sync.WaitGroup{}
	for _, e := range todo {
		if e.Measured {
			one(e) // experiments that measure the machine run first, and alone
		} else {
			work <- e
		}
	}
	close(work)
	for range 2 {
		workers.Go(func() {
			for e := range work {
				one(e)
			}
		})
	}
	workers.Wait()
	return findings, errors.Join(errs...)
}

// self is the hash of this program: all that its results depend on.
func self() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8]), nil
}
