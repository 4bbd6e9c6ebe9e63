// Command fleet runs many real agents and a real coordinator on one machine. It measures the cost of an agent,
// the time until all agents agree after a change, and whether the sums are right (docs/measurements.md).
//
// # Model
//
//	real       etcd, a coordinator, N agents (bin/titrate), and a few Envoys
//	synthetic  the gateways of the other agents: all in this process, each on its
//	           agent's Unix socket, with the protocol of the filter (package filter)
//	workload   each gateway's keys and claims, and the sums that it must receive
//	           (package workload)
//	traffic    clients of the Envoys: one above its limit, one below
//
// A synthetic gateway whose link fails connects again, as the filter does.
//
// A run goes through phases. Each begins with an event. Measured is the time until each synthetic gateway has
// received the exact sum of the others' claims for each of its keys. After that the counts and the sum of the
// shares are watched for a while.
//
// With -exact all gateways have clients of an EXACT limit instead (package exact), and there are no Envoys.
// Measured is then the cost of a change of the agents: token messages, links, and requests that no owner
// decides (exact.go).
//
// With -sites the agents are of several sites with slow links between them, and the same gateways have clients at all
// sites. It measures what clients get beside one bucket, the traffic between sites, and the effect of a cut (sites.go).
//
// The figures of a phase are from its event to its end, per agent. CPU is the kernel's figure for the process,
// bytes and packets are the agent's own metrics.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/e2e/bench/rig"
	"github.com/titrate/titrate/e2e/fleet/demand"
	"github.com/titrate/titrate/e2e/robustness/wire"
)

// Exit statuses.
const (
	exitFailed = 1 // a check failed, or there is no verdict
	exitUsage  = 2
	exitVoid   = 3 // the machine is too slow
)

// errVoid is a run that proves nothing.
var errVoid = errors.New("VOID")

type options struct {
	rig      rig.Options
	exact    bool
	sites    int
	global   bool
	cut      time.Duration
	agents   int
	envoys   int
	keys     int
	users    int
	rate     float64
	part     int
	steady   time.Duration
	hold     time.Duration
	forget   time.Duration
	within   time.Duration
	timeout  time.Duration
	phases   []string
	output   string
	sweep    []int // agents
	byKeys   []int // the same of keys
	pictures string
	simulate bool
}

func main() {
	o, err := parse(os.Args[1:])
	if err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "fleet:", err)
			os.Exit(exitUsage)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if o.sites > 1 && os.Getenv(insideVariable) == "" {
		os.Exit(again(ctx))
	}
	if o.exact || o.sites > 1 {
		debug.SetMemoryLimit(int64(o.agents * o.memoryLimit()))
	}
	if err := play(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		if errors.Is(err, errVoid) {
			os.Exit(exitVoid)
		}
		os.Exit(exitFailed)
	}
}

// insideVariable is set for the process that has a network namespace of its own.
const insideVariable = "TITRATE_FLEET_INSIDE"

// again runs this program with the same arguments in a network namespace, and returns its exit status.
func again(ctx context.Context) (status int) {
	runtime.LockOSThread() // the kernel kills the process when the thread ends that has started it
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		return exitFailed
	}
	cmd := exec.CommandContext(ctx, self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), insideVariable+"=1")
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = os.Stdout, os.Stderr, wire.Own()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	if err = cmd.Run(); cmd.ProcessState == nil {
		fmt.Fprintln(os.Stderr, "fleet: -sites needs a network namespace:", err)
		return exitFailed
	}
	if status = cmd.ProcessState.ExitCode(); status < 0 {
		status = exitFailed
	}
	return status
}

const helpText = `fleet starts N real agents, a coordinator and etcd on loopback, with synthetic gateways and a
few Envoys, lets agents join, leave, crash and be cut off, and judges the sums that each
gateway is sent. Run it with make fleet N=64, or bin/fleet -n 64 -keys 1000.

On a machine that is busy agents and gateways are late. Counts are judged with a bound that
grows with the lateness that was measured, and is printed. A run in which the bound says
nothing is VOID.

Exit status: 0 all checks passed, 1 a check failed or there is no verdict, 2 wrong usage,
3 void: the machine is too slow for so many agents.

`

func parse(args []string) (o options, err error) {
	f := flag.NewFlagSet("fleet", flag.ContinueOnError)
	f.Usage = func() { fmt.Fprint(f.Output(), helpText); f.PrintDefaults() }
	o.rig.Progress = os.Stderr
	f.StringVar(&o.rig.Envoy, "envoy", os.Getenv("ENVOY_BIN"), "Envoy `binary` (ENVOY_BIN)")
	f.StringVar(&o.rig.Module, "module", "bin/libtitrate.so", "the filter's `file`")
	f.StringVar(&o.rig.Titrate, "titrate", "bin/titrate", "titrate's `binary`")
	f.BoolVar(&o.exact, "exact", false, fmt.Sprintf("keys of an EXACT limit instead of claims; for -keys of %d and "+
		"more at one site unless this is false", exactFrom))
	f.IntVar(&o.sites, "sites", 1, "sites of the agents, with slow links between them (needs a network namespace)")
	f.BoolVar(&o.global, "global", false, "with -sites: limits of the clients that are judged have the scope GLOBAL")
	f.DurationVar(&o.cut, "cut", 30*time.Second, "with -sites: time for which a site is cut off")
	f.IntVar(&o.agents, "n", 16, "agents at the beginning, those of the Envoys included")
	f.IntVar(&o.envoys, "envoys", 3, "agents that have a real Envoy, with traffic, as their gateway; 0 is none")
	f.IntVar(&o.keys, "keys", 1000, "contended keys of the synthetic gateways; with -exact keys of each gateway; with "+
		"-sites keys that all sites use")
	f.IntVar(&o.users, "users", 3, "synthetic gateways that use a key; 0: all of them")
	f.Float64Var(&o.rate, "rate", 1,
		"requests per second of a key, of all its users together (with -sites .05, or less: 3000 per agent at most)")
	f.IntVar(&o.part, "part", 0, "agents that join, leave, crash and are cut off (default an eighth of -n)")
	f.DurationVar(&o.steady, "steady", 15*time.Second, "length of the steady phase; with -sites of the first four: 60s")
	f.DurationVar(&o.hold, "hold", 5*time.Second, "time that each other phase goes on after all sums are right")
	f.DurationVar(&o.forget, "forget", exchange.DefaultForgetAfter,
		"the agents' --claims-forget-after, at least 2s; --isolation-split-after is two thirds of it, the "+
			"coordinator's --membership four thirds")
	f.DurationVar(&o.within, "within", 15*time.Second,
		"longest time until all sums are right after an event; -forget in addition after a crash or a partition")
	f.DurationVar(&o.timeout, "timeout", 9*time.Minute, "longest time of a run, which then has no verdict; with "+
		"-sites and -exact: 15m")
	phases := f.String("phases", "", fmt.Sprintf("the `phases` to run, in their order: some of %s; with -exact of %s; "+
		"with -sites of %s (default all)", strings.Join(namesOf(phases), ","), strings.Join(namesOf(exactPhases), ","),
		strings.Join(namesOf(sitePhases), ",")))
	f.StringVar(&o.output, "o", "table", "output: table, json or csv")
	sweep := f.String("sweep", "", "run the steady phase alone for each of these `numbers` of agents, such as 4,8,16")
	byKeys := f.String("sweep-keys", "", "the same for each of these `numbers` of keys, with -n agents")
	f.StringVar(&o.pictures, "pictures", "",
		"`directory` for charts of -sweep or -sweep-keys, as SVG, PNG and CSV (default none)")
	f.BoolVar(&o.simulate, "simulate", false,
		"with a sweep: also play each fleet on virtual time, and print what an agent sends there")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	o.ofKind(f)
	o.phases = namesOf(o.kind())
	if *phases != "" {
		o.phases = strings.Split(*phases, ",")
	}
	if o.sweep, err = numbers("-sweep", *sweep, "agents"); err != nil {
		return o, err
	}
	if o.byKeys, err = numbers("-sweep-keys", *byKeys, "keys"); err != nil {
		return o, err
	}
	switch sweeps := len(o.sweep) + len(o.byKeys); {
	case o.sweep != nil && o.byKeys != nil:
		return o, errors.New("-sweep and -sweep-keys: want one of them")
	case sweeps > 0:
		o.phases = []string{steady}
	case o.simulate || o.pictures != "":
		return o, errors.New("-simulate and -pictures go with -sweep or -sweep-keys")
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("%q is no flag", f.Arg(0))
	}
	return o, o.check()
}

// exactFrom is the number of keys from which on they are of an EXACT limit by default.
const exactFrom = 50_000

// ofKind sets the defaults of a run with EXACT keys or several sites, except those of flags that were given.
func (o *options) ofKind(f *flag.FlagSet) {
	given := map[string]bool{}
	f.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if !given["exact"] {
		o.exact = o.sites == 1 && o.keys >= exactFrom
	}
	if !o.exact && o.sites == 1 {
		return
	}
	o.envoys = 0
	if !given["timeout"] {
		o.timeout = 15 * time.Minute
	}
	if o.sites == 1 {
		return
	}
	if !given["rate"] {
		o.rate = min(.05, asksByAgents/float64(o.agents*max(1, o.keys)))
	}
	if !given["steady"] {
		o.steady = time.Minute
	}
}

// sweeps reports whether several fleets run, one after the other.
func (o options) sweeps() bool { return len(o.sweep)+len(o.byKeys) > 0 }

// numbers returns the numbers of a flag, nil for "".
func numbers(flag, text, of string) (out []int, err error) {
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %q is no number of %s", flag, text, part, of)
		}
		out = append(out, n)
	}
	return out, nil
}

// runs returns the options of the runs: of one run, or of a sweep.
func (o options) runs() (all []options) {
	for _, n := range o.sweep {
		o.agents = n
		all = append(all, o)
	}
	for _, n := range o.byKeys {
		o.keys = n
		all = append(all, o)
	}
	if all == nil {
		all = []options{o}
	}
	return all
}

// check returns the first mistake of the options.
func (o *options) check() error {
	if o.sites > 1 {
		if err := o.checkSites(); err != nil {
			return err
		}
	}
	names := namesOf(o.kind())
	for _, p := range o.phases {
		if !slices.Contains(names, p) {
			return fmt.Errorf("-phases: %q: want some of %s", p, strings.Join(names, ", "))
		}
	}
	if o.exact {
		if err := o.checkExact(); err != nil {
			return err
		}
	}
	least := o.envoys + 2
	for _, n := range append([]int{o.agents}, o.sweep...) {
		if n < least || n > 1000 {
			return fmt.Errorf("%d agents, %d of them with an Envoy: want %d to 1000, so that two gateways are "+
				"synthetic", n, o.envoys, least)
		}
	}
	switch {
	case slices.ContainsFunc(append(o.byKeys, o.keys), func(n int) bool { return n < 1 }) || o.envoys < 0 ||
		o.users < 0 || !(o.rate > 0) || o.part < 0:
		return errors.New("want -envoys, -users and -part of 0 or more, -keys of 1 or more, and a -rate above 0")
	case o.steady < time.Second || o.hold < time.Second || o.forget < 2*time.Second || o.within < time.Second:
		return errors.New("want -steady, -hold and -within of 1s or more, and -forget of 2s or more")
	case !slices.Contains([]string{"table", "json", "csv"}, o.output):
		return fmt.Errorf("-o %s: want table, json or csv", o.output)
	}
	return nil
}

// checkExact returns the first mistake of the options of a run with EXACT keys.
func (o *options) checkExact() error {
	switch most := mostExact * (o.agents - 1) / max(o.agents, 1); {
	case o.sweeps():
		return errors.New("-exact: want no -sweep and no -sweep-keys")
	case o.agents < leastExact:
		return fmt.Errorf("-exact with %d agents: want %d or more, so that two are left when one is gone", o.agents,
			leastExact)
	case o.keys > most:
		return fmt.Errorf("-exact with %d keys at each of %d gateways: want %d at most, for which owners have room "+
			"when one agent is gone", o.keys, o.agents, most)
	case slices.Contains(o.phases, "leave") && !slices.Contains(o.phases, "join"):
		return errors.New("-phases: leave needs join, since the agent that has joined leaves")
	}
	return nil
}

// scope returns the scope of the limits of clients that are judged.
func (o *options) scope() string {
	if o.global {
		return "GLOBAL"
	}
	return "SITE"
}

// leastOfSite is the number of agents of a site, of which one may end.
const leastOfSite = 2

// checkSites returns the first mistake of the options of a run with several sites.
func (o *options) checkSites() error {
	switch {
	case o.exact || o.sweeps():
		return errors.New("-sites: want no -exact, no -sweep and no -sweep-keys")
	case o.sites > demand.MostSites || o.agents < leastOfSite*o.sites:
		return fmt.Errorf("-sites %d with %d agents: want 2 to %d sites, of %d agents or more each", o.sites, o.agents,
			demand.MostSites, leastOfSite)
	case o.keys > mostExact:
		return fmt.Errorf("-sites with %d keys: want %d at most", o.keys, mostExact)
	case o.cut < time.Second:
		return errors.New("want a -cut of 1s or more")
	case slices.Contains(o.phases, "leave") && !slices.Contains(o.phases, "join"):
		return errors.New("-phases: leave needs join, since the agent that has joined leaves")
	}
	return nil
}

// kind are the phases that there are.
func (o *options) kind() []phase {
	switch {
	case o.sites > 1:
		return sitePhases
	case o.exact:
		return exactPhases
	}
	return phases
}

// parts returns the number of agents that join, leave, crash and are cut off.
func (o *options) parts() int {
	if o.part > 0 {
		return o.part
	}
	return max(1, o.agents/8)
}

// play runs the fleet, or one fleet after the other, and writes the results.
func play(ctx context.Context, o options) error {
	var all []*Result
	var failed error
	for _, o := range o.runs() {
		r, err := run(ctx, o)
		if err != nil {
			failed = fmt.Errorf("%d agents, %d keys: no verdict: %w", o.agents, o.keys, err)
			break // a larger one does not fit either
		}
		if o.simulate {
			if r.Simulated, err = simulated(ctx, o); err != nil {
				return err
			}
		}
		all = append(all, r)
	}
	if err := write(os.Stdout, o, all); err != nil {
		return err
	}
	if o.pictures != "" && len(all) > 1 {
		if err := draw(o, all); err != nil {
			return err
		}
	}
	if failed == nil {
		failed = verdict(all)
	}
	return failed
}

// verdict is nil where all runs have passed.
func verdict(all []*Result) error {
	for _, r := range all {
		switch {
		case r.failed():
			return errors.New("FAIL")
		case r.Void != "":
			return fmt.Errorf("%w: %s", errVoid, r.Void)
		}
	}
	return nil
}
