package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/titrate/titrate/lab/simulate"
	"github.com/titrate/titrate/lab/simulate/plot"
	"github.com/titrate/titrate/lab/simulate/read"
	"github.com/titrate/titrate/lab/simulate/scenario"
	"github.com/titrate/titrate/services/command"
)

const simulateLong = `simulate plays a scenario on virtual time: gateways, the network between them, pools,
tenants and clients, and what goes wrong. What decides in it is what ships: the
limiter, the gossip and the allocator. It needs no server, and the same scenario gives
the same result each time.

It reads the resources that titrate apply takes, and what is played with them: one
document of the kind Scenario, in one of the files or in one of its own.

  - {apiVersion: titrate.dev/v1alpha1, kind: Pool, name: pools/api, spec: {capacity: 300}}
  - {apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/acme, spec: {weight: 2}}
  - {apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/bolt}
  - {apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/bolt/limits/each, spec: {rate: 10/s}}
  - apiVersion: titrate.dev/v1alpha1
    kind: Scenario
    spec:
      duration: 30s
      replicas: 3                                    # gw-1, gw-2, gw-3
      gossip: {delay: 20ms, jitter: 5ms, loss: 0.01} # between any two of them
      clients:
        - {name: shop, tenant: acme, demand: {poisson: 400/s}}
        - {name: cron, tenant: bolt, count: 20, demand: {onOff: {rate: 30/s, on: 1s, off: 2s}}, route: {pinned: gw-1}}
      events:
        - {at: 10s, partition: [[gw-1], [gw-2, gw-3, coordinator]]}
        - {at: 20s, heal: true}

demand is constant, poisson, onOff, step, ramp or a trace; a route is spread, pinned,
moving or roundRobin; an event is partition, heal, join, leave, crash, restart,
agentLost, agentBack, agentPaused, agentResumed, coordinator, apply or upstream. Links
between gateways and agents take time, and processes run late by chance, as on a machine
that is not busy; link: {delay: 1ms, jitter: 1ms} and late: {gateways: {delay: 10ms,
jitter: 10ms}, agents: {delay: 10ms, jitter: 10ms}} play a busy one. docs/simulate.md has
every field.

The answer: how far each pool was used, what each tenant got beside its fair share,
how far each limit was exceeded over rate·t + burst and how many requests it refused
although one central bucket would have let them pass, how long each event took to
settle, and how long requests waited. --baseline plays other ways to limit rates on
the same requests: %s.

Exit status: 0 played, 1 failed or interrupted, 2 wrong usage or a mistake in a
document, shown with file, line and field.`

const simulateExample = `  titrate-lab simulate -f lab/examples/simulate-1-one-client.yaml
  titrate-lab simulate -f scenario.yaml --baseline static,central --plot out.svg
  titrate get -o yaml | titrate-lab simulate -f - -f scenario.yaml
  titrate-lab simulate -f scenario.yaml --seed 7 --duration 5m -o json | jq '.systems[0].keys'`

// simulation has the values of the flags of simulate.
type simulation struct {
	output    command.Format
	files     []string
	plot      string
	panels    []string
	baselines []string
	seed      uint64
	duration  time.Duration
}

// newSimulate plays a scenario on virtual time.
func newSimulate() *cobra.Command {
	var o simulation
	cmd := &cobra.Command{
		Use:     "simulate -f FILE|DIR|-",
		Short:   "Play gateways, clients and faults on virtual time (no server needed)",
		Long:    fmt.Sprintf(simulateLong, strings.Join(simulate.Baselines(), ", ")),
		Example: simulateExample,
		Args:    command.FilesByFlag,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	o.output.Flag(cmd)
	f := cmd.Flags()
	command.FileFlag(cmd, &o.files, "file or directory of documents, - for standard input; may be repeated")
	f.StringSliceVar(&o.baselines, "baseline", nil,
		"play these beside Titrate: "+strings.Join(simulate.Baselines(), ", ")+" or all")
	f.Uint64Var(&o.seed, "seed", 0, "seed of all randomness (default: the scenario's)")
	f.DurationVar(&o.duration, "duration", 0, "play so long; later events are left out (default: the scenario's)")
	f.StringVar(&o.plot, "plot", "", "draw rates over time into this file, .svg or .png")
	f.StringSliceVar(&o.panels, "panels", nil,
		"kinds of rows to draw: "+strings.Join(plot.Kinds(), ", ")+" (default all)")
	_ = cmd.MarkFlagFilename("plot", "svg", "png")
	_ = cmd.MarkFlagRequired("file")
	cmd.AddCommand(newSimulateGrid())
	return cmd
}

func (o *simulation) run(cmd *cobra.Command) error {
	if err := o.check(); err != nil {
		return command.Usage(err)
	}
	s, err := readScenario(cmd, o.files)
	if err != nil {
		return command.Usage(err)
	}
	if err := o.change(cmd, s); err != nil {
		return command.Usage(err)
	}
	progress := &progressLine{out: cmd.ErrOrStderr(), started: time.Now()}
	result, err := simulate.Run(cmd.Context(), s, simulate.Options{Baselines: o.baselines, Series: o.plot != "",
		Progress: progress.tell})
	progress.end()
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("interrupted at %.0f %% of the way; figures are worked out at the end: a shorter "+
			"--duration comes there sooner", 100*progress.done)
	case err != nil:
		return err
	}
	if o.plot != "" {
		if err := plot.Write(o.plot, result, o.panels); err != nil {
			return fmt.Errorf("--plot: %w", err)
		}
	}
	return o.write(cmd.OutOrStdout(), result)
}

// check looks at the flags, before anything is played for a long time.
func (o *simulation) check() error {
	known := simulate.Baselines()
	if slices.Contains(o.baselines, "all") {
		o.baselines = known
	}
	seen := map[string]bool{}
	for _, name := range o.baselines {
		if !slices.Contains(known, name) {
			return fmt.Errorf("--baseline %s: want %s or all", name, strings.Join(known, ", "))
		}
		if seen[name] {
			return fmt.Errorf("--baseline %s: given twice", name)
		}
		seen[name] = true
	}
	for _, kind := range o.panels {
		if !slices.Contains(plot.Kinds(), kind) {
			return fmt.Errorf("--panels %s: want some of %s", kind, strings.Join(plot.Kinds(), ", "))
		}
	}
	if o.plot == "" {
		return nil
	}
	if _, err := plot.Format(o.plot); err != nil {
		return fmt.Errorf("--plot: %w", err)
	}
	if dir, err := os.Stat(filepath.Dir(o.plot)); err != nil || !dir.IsDir() {
		return fmt.Errorf("--plot %s: no such directory", o.plot)
	}
	return nil
}

// readScenario reads a scenario; traces that it names are in its directory, and are not named as not read.
func readScenario(cmd *cobra.Command, paths []string) (*scenario.Scenario, error) {
	files, left, err := command.OpenFiles(cmd.InOrStdin(), paths)
	if err != nil {
		return nil, err
	}
	left.Documents().Note(cmd.ErrOrStderr())
	return read.Parse(files, func(file, name string) (io.ReadCloser, error) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(file), name)
		}
		return os.Open(name)
	})
}

// change puts --seed and --duration in force.
func (o *simulation) change(cmd *cobra.Command, s *scenario.Scenario) error {
	if cmd.Flags().Changed("seed") {
		s.Seed = o.seed
	}
	if cmd.Flags().Changed("duration") {
		s.Duration = o.duration
		if s.Warmup > s.Duration/2 {
			s.Warmup = s.Duration / 10
		}
		s.Events = slices.DeleteFunc(s.Events, func(e scenario.Event) bool { return e.At >= s.Duration })
	}
	if mistakes := s.Check(); len(mistakes) > 0 {
		return mistakes[0]
	}
	return nil
}

func (o *simulation) write(w io.Writer, r *simulate.Result) error {
	if o.output == command.AsTable {
		return writeSimulation(w, r)
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if o.output == command.AsYAML {
		if data, err = yamlOf(data); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(w, "%s\n", strings.TrimRight(string(data), "\n"))
	return err
}

// yamlOf writes JSON as YAML, its fields in order.
func yamlOf(data []byte) ([]byte, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		return nil, err
	}
	plain(&root)
	return yaml.Marshal(&root)
}

// plain takes the brackets and quotes of JSON off.
func plain(n *yaml.Node) {
	n.Style = 0
	for _, below := range n.Content {
		plain(below)
	}
}

// progressLine shows on a terminal how far a long run is.
type progressLine struct {
	out     io.Writer
	started time.Time
	last    time.Time
	done    float64
	shown   bool
}

func (p *progressLine) tell(done float64) {
	p.done = done
	now := time.Now()
	if now.Sub(p.started) < time.Second || now.Sub(p.last) < 200*time.Millisecond || !command.Terminal(p.out) {
		return
	}
	p.last, p.shown = now, true
	fmt.Fprintf(p.out, "\rplayed %.0f %% \x1b[K", 100*done)
}

// end takes the line away.
func (p *progressLine) end() {
	if p.shown {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
