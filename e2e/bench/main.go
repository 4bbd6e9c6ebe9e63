// Command bench measures what the filter costs in one real Envoy: requests per second and CPU per
// request, over no filter and over Envoy's native local_ratelimit.
//
// # Method
//
// One Envoy per variant, one worker each, all started at once and answering directly, so that the
// difference is the filter; or, with -proxied, sending on to one more Envoy, as a gateway does. Rounds are interleaved: in each round every variant gets the
// same load in turn, in an order that rotates; figures are ratios within a round, and the table
// gives their median and range. Absolute numbers of a shared machine mean little. CPU is the Envoy
// process's user and system time. The load (wrk) asks for 10,000 client keys in turn; the limits are
// high enough that everything is admitted.
//
// The titrate variant has an agent's end of the link in this process: it sends one configuration and
// the shares, then heartbeats, as an agent does for keys that nobody contends.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

type options struct {
	envoy, module string
	rounds, keys  int
	connections   int
	duration      time.Duration
	proxied       bool
	out           string
}

// sample is one variant's figures in one round.
type sample struct {
	Requests  float64 `json:"requests"`  // per second
	CPUMicros float64 `json:"cpuMicros"` // per request
	Errors    int     `json:"errors"`
}

func main() {
	var o options
	flag.StringVar(&o.envoy, "envoy", os.Getenv("ENVOY_BIN"), "Envoy `binary` (ENVOY_BIN)")
	flag.StringVar(&o.module, "module", "../bin/libtitrate.so", "the filter's `file`")
	flag.IntVar(&o.rounds, "rounds", 7, "interleaved rounds")
	flag.IntVar(&o.keys, "keys", 10_000, "client keys asked for in turn")
	flag.IntVar(&o.connections, "connections", 32, "keep-alive connections")
	flag.DurationVar(&o.duration, "duration", 3*time.Second, "load per variant and round")
	flag.BoolVar(&o.proxied, "proxied", false, "send requests on to another Envoy instead of answering them")
	flag.StringVar(&o.out, "json", "", "write every sample to `file`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	if o.rounds < 1 || o.keys < 1 || o.duration < time.Second {
		return errors.New("needs -rounds ≥ 1, -keys ≥ 1, -duration ≥ 1s")
	}
	dir, err := os.MkdirTemp("", "titrate-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	agent, err := startAgent(filepath.Join(dir, "agent.sock"))
	if err != nil {
		return err
	}
	defer agent.Close()
	script := filepath.Join(dir, "keys.lua")
	if err := os.WriteFile(script, []byte(wrkScript(o.keys)), 0o600); err != nil {
		return err
	}
	var gateways, others []*gateway
	defer func() {
		for _, g := range append(gateways, others...) {
			err = errors.Join(err, g.stop())
		}
	}()
	upstream := 0
	if o.proxied {
		g, err := startEnvoy(ctx, o, dir, "upstream", 0)
		if err != nil {
			return err
		}
		others, upstream = append(others, g), g.port
	}
	for _, variant := range variants {
		g, err := startEnvoy(ctx, o, dir, variant, upstream)
		if err != nil {
			return err
		}
		gateways = append(gateways, g)
	}
	if err := agent.await(ctx); err != nil {
		return err
	}
	samples, err := measure(ctx, o, gateways, script)
	if err != nil {
		return err
	}
	printTable(os.Stdout, samples)
	return writeJSON(o.out, samples)
}

// measure runs one warm-up of each variant, then the interleaved rounds.
func measure(ctx context.Context, o options, gateways []*gateway, script string) (map[string][]sample, error) {
	samples := map[string][]sample{}
	for _, g := range gateways {
		if _, err := g.load(ctx, o.connections, time.Second, script); err != nil {
			return nil, err
		}
	}
	for round := range o.rounds {
		for i := range gateways {
			g := gateways[(i+round)%len(gateways)]
			s, err := g.load(ctx, o.connections, o.duration, script)
			if err != nil {
				return nil, err
			}
			if s.Errors > 0 {
				return nil, fmt.Errorf("%s: %d requests failed or were refused; the run proves nothing", g.variant, s.Errors)
			}
			samples[g.variant] = append(samples[g.variant], s)
			fmt.Fprintf(os.Stderr, "round %d/%d %-16s %8.0f/s %7.2f µs CPU per request\n", round+1, o.rounds, g.variant, s.Requests, s.CPUMicros)
		}
	}
	return samples, nil
}

func writeJSON(file string, samples map[string][]sample) error {
	if file == "" {
		return nil
	}
	raw, err := json.MarshalIndent(samples, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(raw, '\n'), 0o644)
}

// printTable prints each variant's ratios to the plain Envoy of the same round.
func printTable(w *os.File, samples map[string][]sample) {
	base := samples[plain]
	fmt.Fprintf(w, "| variant | requests/s over no filter | CPU per request over no filter | CPU, µs |\n|---|---|---|---|\n")
	for _, variant := range variants {
		var rate, cpu, abs []float64
		for i, s := range samples[variant] {
			rate = append(rate, s.Requests/base[i].Requests)
			cpu = append(cpu, s.CPUMicros/base[i].CPUMicros)
			abs = append(abs, s.CPUMicros)
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", variant, spread(rate, 3), spread(cpu, 3), spread(abs, 1))
	}
}

// spread is the median and the range.
func spread(v []float64, digits int) string {
	v = slices.Sorted(slices.Values(v))
	return fmt.Sprintf("%.*f (%.*f–%.*f)", digits, v[len(v)/2], digits, v[0], digits, v[len(v)-1])
}
