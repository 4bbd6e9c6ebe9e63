package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/titrate/titrate/lab/dev"
	"github.com/titrate/titrate/lab/dev/scenario"
	"github.com/titrate/titrate/lab/installation"
	"github.com/titrate/titrate/services/command"
)

const devLong = `dev runs all of Titrate on this machine and shows what it does under load and
under faults: child processes for etcd, a coordinator, three agents, three real
Envoys with the filter, and an upstream that serves 300 requests a second.

Four tenants with several clients each then ask for more than that, unevenly
spread over the Envoys (6:3:1). Two clients have limits of their own, held over
all three Envoys. The run has five phases:

  steady        every tenant asks for the same all the time
  hops          three clients of a fifth tenant hop between the Envoys, each time with
                a full burst: two want more than their limit, which is EXACT for one
                and LOCAL for the other; one stays below its limit, which is EXACT
  greed         one tenant triples what it asks for
  coordinator   the coordinator is killed (SIGKILL), later it comes back
  agent         one agent is cut off from all others, later it comes back

In the end there is a verdict in one line: PASS, FAIL or VOID, with the load that the machine
bore. Below it stand the figures that were not within their bounds; with -v all of them: the pool's mean and
highest second against its capacity; each tenant against its weighted max-min
share of what was offered; the limited clients against rate·t + burst in every
window, and their wrongful 429s; failed requests.

Exit status: 0 passed, 1 failed or interrupted, 2 wrong usage, 3 void (this
machine could not keep the load's schedule, so the run proves nothing).`

const devExample = `  titrate-lab dev                                     a minute, live table in a terminal
  titrate-lab dev --duration 30s --json verdict.json --trace trace.ndjson
  titrate-lab dev --recompute trace.ndjson            the verdict again, from the trace alone
  titrate-lab dev --no-load                           leaves the load to you, until Ctrl-C
  titrate-lab dev --no-load --base-port 8000          the gateways are 8000, 8001 and 8002`

// newDev is the demo and the playground.
func newDev() *cobra.Command {
	var config dev.Config
	var recompute string
	cmd := &cobra.Command{
		Use:     "dev",
		Short:   "Run everything on this machine, under load and faults, and judge it",
		Long:    devLong,
		Example: devExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config.Out, config.Program = cmd.OutOrStdout(), os.Args[0]
			if config.Gateways == 0 { // for which Complete has a default
				return command.Usagef("0 gateways: must be 1 to %d", scenario.MaxGateways)
			}
			if cmd.Flags().Changed("duration") && config.Duration <= 0 {
				return command.Usagef("--duration %v: must be at least %v", config.Duration, scenario.MinDuration)
			}
			if recompute != "" {
				return recomputeVerdict(config, recompute)
			}
			return runDev(cmd, config)
		},
	}
	f := cmd.Flags()
	f.DurationVar(&config.Duration, "duration", 0,
		"length of the load, at least 24s (default 1m; with --no-load: until Ctrl-C)")
	f.BoolVar(&config.NoLoad, "no-load", false, "start everything but the load, and say how to use it")
	f.IntVar(&config.Gateways, "gateways", 3, "number of Envoys, 1 to 9")
	f.Uint64Var(&config.Seed, "seed", 1, "seed of the load's schedule")
	f.BoolVarP(&config.Verbose, "verbose", "v", false, "report all checks and phases, and not only what did not hold")
	f.StringVar(&config.JSON, "json", "", "file to get the verdict as JSON")
	f.StringVar(&config.Trace, "trace", "",
		"file to get one NDJSON line per request; the upstream's own goes beside it as *.upstream.ndjson")
	f.StringVar(&config.Film, "film", "",
		"file to get the live table as an animated SVG, four times as fast as the run")
	f.StringVar(&recompute, "recompute", "", "judge the trace of an earlier run again, without running anything")
	f.StringVar(&config.Envoy, "envoy", "",
		"Envoy "+installation.EnvoyVersion+" binary (default $ENVOY_BIN, then the binary of \"make envoy\")")
	f.StringVar(&config.Module, "module", "", "the filter (default libtitrate.so beside this program)")
	f.IntVar(&config.BasePort, "base-port", 0,
		"first of the consecutive ports to use, gateways first (default any free ports)")
	f.BoolVar(&config.Keep, "keep", false, "keep the run's directory (logs, configurations) even after a pass")
	return cmd
}

func runDev(cmd *cobra.Command, config dev.Config) error {
	// A second Ctrl-C ends this process at once, and the children with it.
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop)
	config.Terminal = command.Terminal(config.Out) && command.Terminal(os.Stdin)
	session, err := config.Complete()
	if wrong := (dev.UsageError{}); errors.As(err, &wrong) {
		return command.Usage(err)
	}
	if err != nil {
		return err
	}
	began := time.Now()
	outcome, err := session.Run(ctx)
	if err != nil {
		return fmt.Errorf("after %.0f s: %w", time.Since(began).Seconds(), err)
	}
	return exitOf(outcome)
}

func recomputeVerdict(config dev.Config, path string) error {
	v, err := dev.Recompute(path)
	if err != nil {
		return err
	}
	outcome, err := dev.Report(config.Out, config.JSON, v, config.Verbose)
	if err != nil {
		return err
	}
	return exitOf(outcome)
}

// exitOf is the exit status of a run of dev, whose verdict has been printed.
func exitOf(outcome dev.Outcome) error {
	switch outcome {
	case dev.Passed:
		return nil
	case dev.Void:
		return &command.Exit{Status: command.ExitVoid}
	}
	return &command.Exit{Status: command.ExitFailed}
}
