// Command soak loads three real Envoys for minutes while everything around them breaks. It judges whether any
// memory grew, and whether any request hung, failed or panicked.
//
// # Model
//
//	system   etcd, a coordinator, three agents, three Envoys, an upstream (e2e/bench/rig)
//	load     closed: each connection asks again as soon as it is answered, or after -pause
//	           invented  a client that was never seen, up to a million a minute
//	           steady    a client that nothing limits, through to the upstream
//	           limited   clients beyond their limit
//	           held      a tenant beyond its share, whose requests wait
//	           leaving   the same, but the client goes away before the answer
//	faults   in turn: routes replaced, an agent killed, the coordinator killed
//	watch    every second: memory, goroutines, held, panics
//	verdict  a table of figures and bounds, and the exit status
//
// # What is judged
//
// After warm-up (a third of the time, until the key tables are full and the heaps have their size) a line is
// fitted through each Envoy's memory and goroutines. Another line goes through those of the agent that is not
// killed (the agent needs 40 s to have its size, so a short run leaves it out). The rise of the line over the
// time judged must stay within a bound. In ten minutes of 3000 requests per second and gateway a leak of 8
// bytes per request would be seen. No request may fail, except if its client left. No panic may be recovered,
// no process may end unexpectedly, and no update may be refused. When the load has ended, no request may be
// held or in flight.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/titrate/titrate/e2e/bench/rig"
)

type options struct {
	rig      rig.Options
	duration time.Duration
	every    time.Duration
	invented int
	pause    time.Duration
	output   string
}

func main() {
	o := options{rig: rig.Options{Progress: os.Stderr}}
	flag.StringVar(&o.rig.Envoy, "envoy", os.Getenv("ENVOY_BIN"), "Envoy `binary` (ENVOY_BIN)")
	flag.StringVar(&o.rig.Module, "module", "../bin/libtitrate.so", "the filter's `file`")
	flag.StringVar(&o.rig.Titrate, "titrate", "../bin/titrate", "titrate's `binary`")
	flag.DurationVar(&o.duration, "duration", 10*time.Minute, "time under load, at least 15s")
	flag.DurationVar(&o.every, "every", 5*time.Second, "time between two lines of progress")
	flag.IntVar(&o.invented, "invented", 1_000_000, "clients invented per minute, at most")
	flag.DurationVar(&o.pause, "pause", 0, "mean `time` between an answer and the next request; 0: full load")
	flag.StringVar(&o.output, "o", "table", "output: table or json")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	v, err := run(ctx, o)
	if err == nil {
		err = v.write(os.Stdout, o.output)
	}
	if err == nil && !v.Pass {
		err = errors.New("FAIL")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (v verdict, err error) {
	if o.duration < 15*time.Second || o.every < time.Second || o.invented < 1 || o.pause < 0 ||
		o.output != "table" && o.output != "json" {
		return v, errors.New("needs -duration ≥ 15s, -every ≥ 1s, -invented ≥ 1, -pause ≥ 0, -o table or json")
	}
	r, err := rig.New(o.rig)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	w, err := newSystem(ctx, r)
	if err != nil {
		return v, err
	}
	r.Say("three Envoys, three agents, a coordinator: up; %v of load, judged from %v on", o.duration,
		warmUp(o.duration))
	l := w.load(ctx, o.invented, o.pause)
	loaded, unload := context.WithTimeout(ctx, o.duration)
	defer unload()
	disturbed := make(chan error, 1)
	go func() { disturbed <- w.disturb(loaded) }()
	samples, missed, err := w.watch(loaded, o, l)
	if err != nil {
		return v, err
	}
	if err := <-disturbed; err != nil {
		return v, err
	}
	l.stop()
	left, err := w.left(ctx)
	if err != nil {
		return v, err
	}
	return judge(samples, missed, l.tally(), w.broken.faults(), left, warmUp(o.duration)), ctx.Err()
}

// warmUp is the part of the time that is not judged.
func warmUp(d time.Duration) time.Duration { return (d / 3).Round(time.Second) }
