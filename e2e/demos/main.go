// Command demos runs `titrate-lab dev` many times, one run after the other, and prints a table of the
// verdicts. It shows how often the demo passes, fails, or proves nothing, and why
// (docs/robustness.md).
//
// Each run has its own row: no run is repeated, and none is left out. The trace and the output of a
// run that did not pass stay in a directory, which is printed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Exit statuses.
const (
	exitFailed = 1 // a run failed or had no verdict, or the command was interrupted
	exitUsage  = 2
	exitVoid   = 3 // nothing failed, and some runs were void
)

type options struct {
	lab, module string
	runs, loops int
	duration    time.Duration
	seed        uint64
	vary        bool
}

func main() {
	o, err := parse(os.Args[1:])
	if err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "demos:", err)
		}
		os.Exit(exitUsage)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "titrate-demos-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "demos:", err)
		os.Exit(exitFailed)
	}
	status := all(ctx, &o, dir, os.Stdout)
	if os.Remove(dir) != nil { // something is in it
		fmt.Fprintln(os.Stdout, "traces and outputs of the other runs are in", dir)
	}
	os.Exit(status)
}

func parse(args []string) (o options, err error) {
	f := flag.NewFlagSet("demos", flag.ContinueOnError)
	f.StringVar(&o.lab, "lab", "../bin/titrate-lab", "titrate-lab's `binary`")
	f.StringVar(&o.module, "module", "../bin/libtitrate.so", "the filter's `file`")
	f.IntVar(&o.runs, "n", 30, "`runs`")
	f.IntVar(&o.loops, "loops", 0, "busy `loops` that run together with the demos, each on its own core")
	f.DurationVar(&o.duration, "duration", 36*time.Second, "length of each run's load")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the load's schedule")
	f.BoolVar(&o.vary, "vary", false, "give each run the next seed")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.runs < 1 || o.loops < 0 || f.NArg() > 0 {
		return o, errors.New("needs -n ≥ 1, -loops ≥ 0, and nothing else")
	}
	return o, nil
}

// all does the runs and returns the exit status.
func all(ctx context.Context, o *options, dir string, out io.Writer) int {
	idle, quiet := context.WithCancel(ctx)
	defer quiet()
	for range o.loops {
		go func() {
			for idle.Err() == nil {
			}
		}()
	}
	fmt.Fprintf(out, "| run | seed | load at start | load at end | late starts p99, ms | path p99, ms | verdict "+
		"| why |\n|---|---|---|---|---|---|---|---|\n")
	counts := map[string]int{}
	for i := range o.runs {
		r := o.one(ctx, i, dir)
		if ctx.Err() != nil {
			break
		}
		counts[r.word]++
		fmt.Fprintf(out, "| %d | %d | %s | %s | %.1f | %.1f | %s | %s |\n", i+1, r.seed, r.before, r.after, r.late,
			r.path, r.word, strings.Join(r.why, "; "))
	}
	fmt.Fprintf(out, "\n%d PASS, %d FAIL, %d VOID, of %d runs of %v with %d busy loops\n", counts[passed],
		counts[failed], counts[void], o.runs, o.duration, o.loops)
	switch {
	case ctx.Err() != nil || counts[failed] > 0:
		return exitFailed
	case counts[void] > 0:
		return exitVoid
	}
	return 0
}

// files of a run that did not pass.
func (o *options) files(dir string, run int) (verdict, trace, log string) {
	base := filepath.Join(dir, fmt.Sprintf("run-%d", run+1))
	return base + ".json", base + ".ndjson", base + ".log"
}
