package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/titrate/titrate/e2e/bench/rig"
	"github.com/titrate/titrate/e2e/bench/table"
)

type options struct {
	rig  rig.Options
	only string
	out  string
	effort
}

// effort is how long the parts measure.
type effort struct {
	rounds   int
	duration time.Duration
}

// part is a part of the benchmark. What it measured goes into the JSON under
// its name.
type part struct {
	name string
	run  func(context.Context, *rig.Rig, effort) (any, []table.Table, error)
}

func main() {
	o := options{rig: rig.Options{Progress: os.Stderr}}
	flag.StringVar(&o.rig.Envoy, "envoy", os.Getenv("ENVOY_BIN"), "Envoy `binary` (ENVOY_BIN)")
	flag.StringVar(&o.rig.Module, "module", "../bin/libtitrate.so", "the filter's `file`")
	flag.StringVar(&o.rig.Titrate, "titrate", "../bin/titrate", "titrate's `binary`")
	flag.StringVar(&o.rig.RateLimit, "ratelimit", "", "envoyproxy/ratelimit's `binary`; empty leaves it out")
	flag.StringVar(&o.only, "only", "", "`parts` to run, comma-separated; default all: "+strings.Join(names(), ","))
	flag.IntVar(&o.rounds, "rounds", 7, "interleaved rounds of the CPU part; the others scale with it")
	flag.DurationVar(&o.duration, "duration", 2*time.Second, "load per variant and round, whole seconds")
	flag.StringVar(&o.out, "json", "", "write every figure to `file`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run runs the parts that are wanted. One that fails does not keep the others
// from running; what was measured is printed in any case.
func run(ctx context.Context, o options) (err error) {
	chosen, err := choose(o.only)
	if err != nil {
		return err
	}
	if o.rounds < 1 || o.duration < time.Second || o.duration%time.Second != 0 {
		return errors.New("needs -rounds ≥ 1 and -duration of whole seconds ≥ 1s")
	}
	r, err := rig.New(o.rig)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	measured := map[string]any{}
	var tables []table.Table
	for _, p := range chosen {
		began := time.Now()
		figures, more, failed := p.run(ctx, r, o.effort)
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", p.name, failed))
			r.Say("%s failed: %v", p.name, failed)
		}
		if ctx.Err() != nil {
			break
		}
		measured[p.name] = figures
		tables = append(tables, more...)
		r.Say("%s took %v", p.name, time.Since(began).Round(time.Second))
	}
	for i := range tables {
		tables[i].Write(os.Stdout)
	}
	return errors.Join(err, writeJSON(o.out, measured))
}

func names() []string {
	var all []string
	for _, p := range parts() {
		all = append(all, p.name)
	}
	return all
}

// choose finds the parts by their names.
func choose(only string) ([]part, error) {
	if only == "" {
		return parts(), nil
	}
	var chosen []part
	for name := range strings.SplitSeq(only, ",") {
		all := parts()
		i := slices.IndexFunc(all, func(p part) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("-only %s: there is no part %q, there are %s", only, name,
				strings.Join(names(), ", "))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

func writeJSON(file string, measured map[string]any) error {
	if file == "" {
		return nil
	}
	raw, err := json.MarshalIndent(measured, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(raw, '\n'), 0o644)
}
