package dev

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/titrate/titrate/lab/dev/scenario"
	"github.com/titrate/titrate/lab/installation"
)

// Config of a run. Zero values mean the defaults that are stated.
type Config struct {
	// Duration of the load. Default 60 s; at least scenario.MinDuration. With
	// NoLoad: when to end, 0 = at Ctrl-C.
	Duration time.Duration
	// NoLoad leaves the load to the user.
	NoLoad bool
	// Gateways is the number of Envoys, 1 to scenario.MaxGateways. Default 3.
	Gateways int
	// Seed of the load's schedule. Equal seeds give equal schedules.
	Seed uint64
	// Titrate is the program that runs as coordinator and agent; titrate-lab beside it runs as etcd and upstream.
	// Default: titrate beside this program.
	Titrate string
	// Envoy is the Envoy binary. Default: $ENVOY_BIN, or the one in the cache.
	Envoy string
	// Module is the filter. Default: libtitrate.so in the directory of the binary.
	Module string
	// BasePort is the first of consecutive ports to be used; 0 = any free ones.
	BasePort int
	// Keep keeps the run's directory even after a pass.
	Keep bool
	// JSON and Trace are files for the verdict and for one line per request; "" = none. The upstream's own
	// trace is written next to Trace, as *.upstream.ndjson.
	JSON, Trace string
	// Program is the name of titrate-lab in printed commands: as the user called it. Default: titrate-lab.
	Program string
	// Verbose reports all checks and phases, and not only the checks that did not hold.
	Verbose bool
	// Film is a file for the live table as an animated SVG; "" = none.
	Film string
	// Out receives the text for a human. Terminal shows a live table there.
	Out      io.Writer
	Terminal bool
}

// UsageError is a setting that no machine could satisfy.
type UsageError struct{ error }

// Unwrap returns the cause.
func (e UsageError) Unwrap() error { return e.error }

// Complete fills in the defaults and finds the files. Its error names a missing file, and how to get it.
func (c Config) Complete() (*Session, error) {
	if c.Duration == 0 && !c.NoLoad {
		c.Duration = time.Minute
	}
	if c.Gateways == 0 {
		c.Gateways = 3
	}
	if c.Out == nil {
		c.Out = io.Discard
	}
	// Without load, the scenario still names the gateways and the pool.
	length := c.Duration
	if c.NoLoad {
		length = max(length, scenario.MinDuration)
	}
	s, err := scenario.Demo(length, c.Gateways, c.Seed)
	if err != nil {
		return nil, UsageError{err}
	}
	if err := errors.Join(c.findTitrate(), c.findEnvoy(), c.findModule(), c.checkOutputs()); err != nil {
		return nil, err
	}
	ports, err := installation.PlanPorts(c.BasePort, c.Gateways)
	if err != nil {
		return nil, err
	}
	return &Session{config: c, scenario: s, ports: ports}, nil
}

func (c *Config) findTitrate() error {
	if c.Titrate == "" {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("cannot find where this program is: %w", err)
		}
		c.Titrate = installation.Beside(self, "titrate")
	}
	for _, program := range []string{c.Titrate, installation.Beside(c.Titrate, "titrate-lab")} {
		if info, err := os.Stat(program); err != nil || info.IsDir() {
			return fmt.Errorf("no program at %s: run `make build`, which builds titrate and titrate-lab side by side",
				program)
		}
	}
	return nil
}

func (c *Config) findEnvoy() error {
	from := "--envoy"
	if c.Envoy == "" {
		c.Envoy, from = os.Getenv("ENVOY_BIN"), "ENVOY_BIN"
	}
	if c.Envoy == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return fmt.Errorf("no Envoy: give --envoy or set ENVOY_BIN (%w)", err)
		}
		c.Envoy, from = filepath.Join(cache, "titrate", "envoy-"+installation.EnvoyVersion, "envoy"), "the cache"
	}
	info, err := os.Stat(c.Envoy)
	switch {
	case err != nil:
		return fmt.Errorf("no Envoy at %s (from %s): run `make envoy` to fetch it, or give --envoy or ENVOY_BIN",
			c.Envoy, from)
	case info.IsDir() || info.Mode()&0o111 == 0:
		return fmt.Errorf("%s (from %s) is not a program: --envoy and ENVOY_BIN want the Envoy binary itself", c.Envoy,
			from)
	}
	return absolute(&c.Envoy)
}

func (c *Config) findModule() error {
	if c.Module == "" {
		c.Module = filepath.Join(filepath.Dir(c.Titrate), "libtitrate.so")
	}
	if info, err := os.Stat(c.Module); err != nil || info.IsDir() {
		return fmt.Errorf("no filter at %s: run `make build`, or give --module", c.Module)
	}
	return absolute(&c.Module)
}

func absolute(path *string) (err error) {
	*path, err = filepath.Abs(*path)
	return err
}

// checkOutputs creates the output files now: a minute of load for a directory
// that does not exist would be a pity.
func (c *Config) checkOutputs() error {
	flags := map[string]string{} // by path
	for flag, path := range map[string]string{"--json": c.JSON, "--trace": c.Trace, "--film": c.Film} {
		if path == "" {
			continue
		}
		if other, taken := flags[path]; taken {
			return fmt.Errorf("%s and %s name the same file, %s", min(flag, other), max(flag, other), path)
		}
		flags[path] = flag
		f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return fmt.Errorf("%s: %w", flag, err)
		}
		f.Close()
	}
	return nil
}
