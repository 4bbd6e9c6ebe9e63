// Command robustness breaks a whole installation at random, under traffic, and judges whether it kept its
// guarantees (docs/robustness.md).
//
// # Model
//
//	wire     a network in user space, a namespace for each host
//	world    three members of etcd, two coordinators, three gateways and more
//	load     clients at constant rates, and the upstream
//	calls    use of the API
//	fault    kinds of faults with their graces, and the schedule of a seed
//	check    figures against the guarantees
//
// This program starts itself once more for each seed, in a separate network namespace, so that seeds can run at
// the same time. Its processes always end with it, even if it is killed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/titrate/titrate/e2e/robustness/fault"
	"github.com/titrate/titrate/e2e/robustness/hostile"
	"github.com/titrate/titrate/e2e/robustness/member"
	"github.com/titrate/titrate/e2e/robustness/world"
	"github.com/titrate/titrate/papers/markdown"
)

// defaultCrowd is the number of clients that ask seldom.
const defaultCrowd = 20_000

type options struct {
	world    world.Options
	duration time.Duration
	seeds    []uint64
	parallel int
	crowd    int
	kinds    []fault.Kind
	faults   string // as given
	output   string
	results  string
	keep     bool
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == hostile.Command {
		exit(hostile.Main(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == hostile.GatewayCommand {
		exit(hostile.MainGateway(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == member.Command {
		exit(member.Main(os.Args[2:]))
	}
	o, err := parse(os.Args[1:])
	if err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "robustness:", err)
		}
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if file := os.Getenv(insideVariable); file != "" {
		exit(inside(ctx, o, file))
	}
	exit(all(ctx, o))
}

// exitVoid is the exit status if nothing failed, and some runs were void.
const exitVoid = 3

func exit(err error) {
	if err == nil {
		os.Exit(0)
	}
	fmt.Fprintln(os.Stderr, "robustness:", err)
	if errors.As(err, new(voidError)) {
		os.Exit(exitVoid)
	}
	os.Exit(1)
}

func parse(args []string) (o options, err error) {
	f := flag.NewFlagSet("robustness", flag.ContinueOnError)
	var seed uint64
	var seeds string
	var list bool
	var summary, document string
	f.StringVar(&o.world.Envoy, "envoy", os.Getenv("ENVOY_BIN"), "Envoy `binary` (ENVOY_BIN)")
	f.StringVar(&o.world.Module, "module", "../bin/libtitrate.so", "the filter's `file`")
	f.StringVar(&o.world.Titrate, "titrate", "../bin/titrate", "titrate's `binary`")
	f.DurationVar(&o.duration, "duration", 5*time.Minute, "time in which faults are done, at least 20s")
	f.Uint64Var(&seed, "seed", 1, "what the schedule is drawn from")
	f.StringVar(&seeds, "seeds", "", "run many seeds, such as 1-20 or 3,5,8, instead of -seed")
	f.IntVar(&o.parallel, "parallel", 1, "seeds that run at once")
	f.IntVar(&o.crowd, "clients", defaultCrowd, "clients that ask once in 200 s each, besides the clients that are "+
		"judged one by one")
	f.StringVar(&o.faults, "faults", "", "kinds of faults, comma-separated; kill stands for all kill-…; empty is all")
	f.StringVar(&o.output, "o", "table", "output: table or json")
	f.StringVar(&o.results, "results", "",
		"`directory` in which each run's result is kept as JSON; it is made if there is none")
	f.BoolVar(&o.world.Share, "share-pools", true, "the coordinators share the pools (co1 leads api, co2 found)")
	f.IntVar(&o.world.Sites, "sites", 1, "sites of the gateways, 1 or 2: with 2 the links between sites take 40 ms "+
		"and lose 1 %, and partition-sites is one more kind of faults")
	f.BoolVar(&o.keep, "keep", false, "keep the logs also of runs that passed")
	f.BoolVar(&list, "list", false, "list the kinds of faults and end")
	f.StringVar(&summary, "summary", "",
		"write Markdown tables of the results in a `directory` of -results, into -document if there is one, and end")
	f.StringVar(&document, "document", "",
		"write the table of the kinds of faults, or with -summary what was run, into a `file`, such as "+
			"docs/robustness.md, and end")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	switch {
	case summary != "":
		exit(summarize(os.Stdout, summary, document))
	case document != "":
		exit(markdown.Update(document, writer, kindsTable()))
	case list:
		listKinds(os.Stdout)
		exit(nil)
	}
	var names []string
	if o.faults != "" {
		names = strings.Split(o.faults, ",")
	}
	if o.kinds, err = fault.Select(names, o.world.Sites > 1); err != nil {
		return o, err
	}
	if o.seeds, err = parseSeeds(seeds, seed); err != nil {
		return o, err
	}
	known := o.output == "table" || o.output == "json"
	if o.world.Sites < 1 || o.world.Sites > 2 {
		return o, fmt.Errorf("-sites %d: want 1 or 2", o.world.Sites)
	}
	if o.duration < 20*time.Second || o.parallel < 1 || o.crowd < 0 || !known || f.NArg() > 0 {
		return o, errors.New("needs -duration ≥ 20s, -parallel ≥ 1, -clients ≥ 0, -o table or json, and nothing else")
	}
	if o.results != "" { // before the runs: a directory that cannot be made would cost their results
		err = os.MkdirAll(o.results, 0o755)
	}
	return o, err
}

// parseSeeds reads 1-20, 3,5,8 and mixtures.
func parseSeeds(text string, one uint64) (seeds []uint64, err error) {
	if text == "" {
		return []uint64{one}, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		a, err1 := strconv.ParseUint(from, 10, 64)
		b, err2 := strconv.ParseUint(to, 10, 64)
		if err1 != nil || err2 != nil || b < a || b-a > 10_000 {
			return nil, fmt.Errorf("-seeds %q: %q is neither a seed nor a range such as 1-20", text, part)
		}
		for s := a; s <= b; s++ {
			seeds = append(seeds, s)
		}
	}
	return seeds, nil
}
