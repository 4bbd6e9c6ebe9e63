// Command observe runs an installation under load together with a Prometheus that scrapes it: to look
// at metrics, alerts and dashboards. `make observe` runs it until Ctrl-C.
//
// # Model
//
//	load ─► 3 Envoys ─► upstream        tenants as in the demo; a limit that refuses, one in SHADOW
//	           │
//	        3 agents ── coordinator ── etcd          TLS with certificates of titrate secrets
//	           ▲             ▲           ▲
//	           └──────── Prometheus ─────┘           the rules of charts/titrate/files/rules.yaml
//
// All are child processes on loopback, in one directory, and end with this one. Agents and the
// coordinator are as the chart has them: TLS at each port, and Prometheus checks the names of their
// certificates. Prometheus is the one of Debian's package, any from 2.40 on will do.
//
// Its test scrapes such an installation, and compares what Prometheus then has with docs/metrics.md
// and with the dashboards.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/titrate/titrate/lab/installation"
)

func main() {
	root := flag.String("root", ".", "directory of the repository, in which `make build` was run")
	envoy := flag.String("envoy", os.Getenv("ENVOY_BIN"), "the Envoy `program` (default: $ENVOY_BIN)")
	length := flag.Duration("duration", 0, "when to end (default 0: at Ctrl-C)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends this process at once, and the children with it
	if err := observe(ctx, *root, *envoy, *length, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "observe:", err)
		os.Exit(1)
	}
}

// observe runs the installation until ctx ends, the time is over, or a process ends unexpectedly.
func observe(ctx context.Context, root, envoy string, length time.Duration, out io.Writer) (err error) {
	o, err := find(root, envoy)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("/tmp", "titrate-observe-") // short: sockets lie in it
	if err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	fmt.Fprintf(out, "starting etcd, a coordinator, %d agents and Envoys, an upstream, a load and Prometheus in %s\n",
		gateways, dir)
	in, err := newSystem(o, dir, fail)
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	defer func() {
		err = errors.Join(err, in.stop())
		if err == nil {
			err = os.RemoveAll(dir)
		} else {
			fmt.Fprintln(out, "logs and configurations are in", dir)
		}
	}()
	if err := in.start(ctx); err != nil {
		return reason(ctx, err)
	}
	fmt.Fprint(out, in.manual())
	var over <-chan time.Time
	if length > 0 {
		over = time.After(length)
	}
	select {
	case <-over:
	case <-ctx.Done():
	}
	return reason(ctx, nil)
}

// reason prefers that for which ctx ended to its consequence; that the user asked for it is none.
func reason(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case cause == nil:
		return err
	case errors.Is(cause, context.Canceled):
		return nil
	default:
		return cause
	}
}

// options are the files that are needed.
type options struct {
	installation.Programs
	Prometheus, Rules, Root string
}

// find finds the programs. Its error says how to get a missing one.
func find(root, envoy string) (options, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return options{}, err
	}
	o := options{Root: root, Rules: filepath.Join(root, "charts", "titrate", "files", "rules.yaml"),
		Programs: installation.Programs{Titrate: filepath.Join(root, "bin", "titrate"), Envoy: envoy,
			Module: filepath.Join(root, "bin", "libtitrate.so")}}
	needed := []struct{ file, remedy string }{{o.Titrate, "run `make build`, or give -root"},
		{o.Module, "run `make build`, or give -root"}, {o.Rules, "give -root"},
		{o.Envoy, "run `make envoy`, or give -envoy"}}
	for _, n := range needed {
		if info, err := os.Stat(n.file); err != nil || info.IsDir() {
			return o, fmt.Errorf("no file %q: %s", n.file, n.remedy)
		}
	}
	if o.Prometheus, err = exec.LookPath("prometheus"); err != nil {
		return o, errors.New("prometheus is not in PATH: tools/sh/need.sh prometheus installs Debian's package")
	}
	return o, nil
}
