package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/titrate/titrate/lab/installation"
)

// Options name the programs under test.
type Options struct {
	installation.Programs
	// RateLimit and Limitador are binaries that tools/sh builds, "" without.
	RateLimit, Limitador string
	// Systems matches the names of the systems to be measured; nil is all.
	Systems *regexp.Regexp
	// Progress gets one line per step.
	Progress io.Writer
	// Host is the address that servers listen on; "" is 127.0.0.1.
	Host string
	// Enter is run by the thread that starts processes, before the first one, such
	// as to enter the namespace in which Host is; nil does nothing.
	Enter func() error
}

// Rig is the place where processes run. Close ends them all.
type Rig struct {
	*installation.Rig
	o Options
}

// New checks that the files are there and makes the place.
func New(o Options) (*Rig, error) {
	if err := o.find(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "titrate-bench-")
	if err != nil {
		return nil, err
	}
	r, err := installation.NewRig(o.Programs, dir, o.Enter)
	if err != nil {
		return nil, err
	}
	r.Host = o.Host
	return &Rig{r, o}, nil
}

// find makes the paths absolute and checks that there are files.
func (o *Options) find() error {
	for _, f := range []struct {
		path         *string
		what, remedy string
	}{
		{&o.Titrate, "titrate's binary", "run `make build`"},
		{&o.Module, "the filter", "run `make build`"},
		{&o.Envoy, "Envoy's binary", "run `make envoy`, or set ENVOY_BIN"},
		{&o.RateLimit, "envoyproxy/ratelimit", "run tools/sh/ratelimit.sh, or leave -ratelimit empty"},
		{&o.Limitador, "Limitador", "run tools/sh/limitador.sh, or leave -limitador empty"},
	} {
		if *f.path == "" {
			if f.path == &o.RateLimit || f.path == &o.Limitador {
				continue
			}
			return fmt.Errorf("no path of %s: %s", f.what, f.remedy)
		}
		path, err := filepath.Abs(*f.path)
		if err != nil {
			return err
		}
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("%s: %w: %s", f.what, err, f.remedy)
		}
		*f.path = path
	}
	return nil
}

// Close kills every process and removes the place. What is to be kept of its
// directory is saved before.
func (r *Rig) Close(save ...func(dir string) error) error {
	r.Rig.Close()
	var errs []error
	for _, s := range save {
		errs = append(errs, s(r.Dir))
	}
	return errors.Join(append(errs, os.RemoveAll(r.Dir))...)
}

// Say writes a line of progress.
func (r *Rig) Say(format string, args ...any) { fmt.Fprintf(r.o.Progress, format+"\n", args...) }

// patience is the longest time until a rate limit service listens.
const patience = 60 * time.Second

// Sleep waits for d, or until the context ends, which is its error.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
