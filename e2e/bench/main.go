package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/titrate/titrate/e2e/bench/comparison"
	"github.com/titrate/titrate/e2e/bench/rig"
	"github.com/titrate/titrate/papers/markdown"
)

type options struct {
	rig     rig.Options
	only    string
	systems string
	out     string
	root    string // of the repository, for the comparison; "" without
	effort
}

// effort is the duration and number of measurements.
type effort struct {
	rounds     int
	duration   time.Duration
	comparison bool
}

// part is a part of the benchmark. What it measured goes into the JSON under
// its name.
type part struct {
	name string
	run  func(context.Context, *rig.Rig, effort) (any, []markdown.Section, error)
}

func main() {
	o := options{rig: rig.Options{Progress: os.Stderr}}
	flag.StringVar(&o.rig.Envoy, "envoy", os.Getenv("ENVOY_BIN"), "Envoy `binary` (ENVOY_BIN)")
	flag.StringVar(&o.rig.Module, "module", "../bin/libtitrate.so", "the filter's `file`")
	flag.StringVar(&o.rig.Titrate, "titrate", "../bin/titrate", "titrate's `binary`")
	flag.StringVar(&o.rig.RateLimit, "ratelimit", "", "envoyproxy/ratelimit's `binary`; empty leaves it out")
	flag.StringVar(&o.rig.Limitador, "limitador", "", "`binary` with Limitador's library; empty leaves it out")
	flag.StringVar(&o.systems, "systems", "", "what the names of the systems match that are measured, a `regexp`; "+
		"default all: "+strings.Join(rig.Systems(), ", "))
	flag.StringVar(&o.root, "compare", "", "measure only the comparison of rate limiters, in the parts "+compared+
		", and write it into README.md and docs/comparison.md below a `directory`; what a run leaves out stays")
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

// compared are the parts that compare rate limiters.
const compared = "cpu,latency,exactness"

// complete checks the options and returns the parts that are wanted.
func (o *options) complete() (chosen []part, err error) {
	if o.comparison = o.root != ""; o.comparison && o.only == "" {
		o.only = compared
	}
	if o.systems != "" {
		if o.rig.Systems, err = regexp.Compile(o.systems); err != nil {
			return nil, fmt.Errorf("-systems: %w", err)
		}
	}
	if o.rounds < 1 || o.duration < time.Second || o.duration%time.Second != 0 {
		return nil, errors.New("needs -rounds ≥ 1 and -duration of whole seconds ≥ 1s")
	}
	return choose(o.only)
}

// run runs the wanted parts. A part that fails does not stop the others; the measured figures are printed in
// any case.
func run(ctx context.Context, o options) (err error) {
	chosen, err := o.complete()
	if err != nil {
		return err
	}
	figures, err := comparison.Read(o.root)
	if err != nil {
		return err
	}
	r, err := rig.New(o.rig)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	measured := map[string]any{}
	var tables []markdown.Section
	for _, p := range chosen {
		began, load := time.Now(), rig.Load()
		found, more, failed := p.run(ctx, r, o.effort)
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", p.name, failed))
			r.Say("%s failed: %v", p.name, failed)
		} else {
			figures.Take(found, load)
		}
		if ctx.Err() != nil {
			break
		}
		measured[p.name] = found
		tables = append(tables, more...)
		r.Say("%s took %v, the load average was %.1f before it", p.name, time.Since(began).Round(time.Second), load)
	}
	for i := range tables {
		fmt.Printf("\n%s", tables[i].Aligned())
	}
	if missing := r.Missing(); missing != "" {
		r.Say("%s", missing)
	}
	if o.comparison {
		err = errors.Join(err, figures.Write(o.root))
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
