package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/titrate/titrate/e2e/robustness/wire"
)

// insideVariable names the file for the result of a run; a process that has it
// is the one in the namespace.
const insideVariable = "TITRATE_ROBUSTNESS_RESULT"

// all runs the seeds and prints the outcomes.
func all(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp("/tmp", "titrate-robust-") // short: sockets lie in it
	if err != nil {
		return err
	}
	results := make([]*Result, len(o.seeds))
	var mu sync.Mutex
	var running sync.WaitGroup
	slots := make(chan struct{}, o.parallel)
	for i, seed := range o.seeds {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		running.Go(func() {
			defer func() { <-slots }()
			r := o.one(ctx, seed, filepath.Join(dir, strconv.FormatUint(seed, 10)))
			mu.Lock()
			defer mu.Unlock()
			results[i] = r
			o.report(r)
		})
	}
	running.Wait()
	_ = os.Remove(dir) // if no logs are in it
	return o.verdict(ctx, results)
}

// only returns how a run differs from one of all faults, "" if it does not.
func (o *options) only() string {
	if o.world.Sites <= 1 {
		return o.faults
	}
	return strings.TrimSpace(fmt.Sprintf("%d sites %s", o.world.Sites, o.faults))
}

// stopGrace is the time that a run has to tidy up after a signal.
const stopGrace = 30 * time.Second

// one runs a seed in a separate process and network namespace.
func (o *options) one(ctx context.Context, seed uint64, dir string) *Result {
	r := &Result{Seed: seed, Seconds: o.duration.Seconds(), Only: o.only(), Logs: dir}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		r.Error = err.Error()
		return r
	}
	file := filepath.Join(dir, "result.json")
	if err := o.process(ctx, seed, dir, file); err != nil {
		r.Error = err.Error()
	}
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	if err != nil && r.Error == "" {
		r.Error = err.Error()
	}
	if ctx.Err() != nil {
		r.Error = "interrupted"
	}
	if o.results != "" && r.Error == "" {
		name := fmt.Sprintf("seed-%d-%s.json", seed, time.Now().UTC().Format("20060102T150405"))
		if err := os.WriteFile(filepath.Join(o.results, name), text, 0o644); err != nil {
			r.Error = err.Error()
		}
	}
	if !o.keep && (r.Pass && r.Error == "" || ctx.Err() != nil) {
		os.RemoveAll(dir)
		r.Logs = ""
	}
	return r
}

func (o *options) process(ctx context.Context, seed uint64, dir, file string) error {
	// The kernel kills the child when the thread ends that has started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, o.args(seed)...)
	cmd.Env = append(os.Environ(), insideVariable+"="+file, "TMPDIR="+dir, fmt.Sprintf("GOMAXPROCS=%d", o.cores()))
	cmd.Stderr = o.progress(seed)
	cmd.SysProcAttr = wire.Own()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopGrace
	err = cmd.Run()
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() == 1 {
		if _, missing := os.Stat(file); missing == nil {
			return nil // it has its own verdict
		}
	}
	return err
}

// cores returns the number of cores that each process of a seed may use at once: the seed's part of the
// machine. On two cores a seed takes a fifth less CPU with one than with two.
func (o *options) cores() int { return max(1, runtime.NumCPU()/o.parallel) }

func (o *options) args(seed uint64) []string {
	return []string{"-envoy", o.world.Envoy, "-module", o.world.Module, "-titrate", o.world.Titrate,
		"-duration", o.duration.String(), "-seed", strconv.FormatUint(seed, 10), "-faults", o.faults,
		"-clients", strconv.Itoa(o.crowd), "-share-pools=" + strconv.FormatBool(o.world.Share),
		"-sites", strconv.Itoa(o.world.Sites)}
}

// progress returns the writer of a run's lines: with many seeds each line names its seed.
func (o *options) progress(seed uint64) io.Writer {
	if len(o.seeds) == 1 {
		return os.Stderr
	}
	return &prefixed{prefix: fmt.Sprintf("[%d] ", seed)}
}

// prefixed writes whole lines with a prefix.
type prefixed struct {
	prefix string
	rest   string
}

func (p *prefixed) Write(b []byte) (int, error) {
	lines := strings.SplitAfter(p.rest+string(b), "\n")
	p.rest = lines[len(lines)-1]
	var out strings.Builder
	for _, l := range lines[:len(lines)-1] {
		out.WriteString(p.prefix + l)
	}
	_, err := io.WriteString(os.Stderr, out.String())
	return len(b), err
}
