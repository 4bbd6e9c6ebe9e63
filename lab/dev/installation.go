package dev

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/titrate/titrate/lab/dev/scenario"
	"github.com/titrate/titrate/lab/installation"
)

// startDeadline bounds the time to start. A fast machine needs a fifth of that time.
const startDeadline = 45 * time.Second

// Installation is the running system.
type Installation struct {
	*installation.Installation
	config   *Config
	scenario *scenario.Scenario

	mu  sync.Mutex
	cut map[string]bool // gateways whose agent is cut off
}

// The upstream has a tenth more than its pool's capacity, as an operator would
// leave it, and room for a third of a second of requests to wait.
const (
	upstreamMargin = 1.1
	upstreamQueue  = 100
)

// newInstallation prepares an installation in a directory. fail is called when a child ends
// unasked.
func newInstallation(c *Config, s *scenario.Scenario, p *installation.PortPlan, dir string,
	fail context.CancelCauseFunc) (*Installation, error) {
	programs := installation.Programs{Titrate: c.Titrate, Module: c.Module, Envoy: c.Envoy}
	rig, err := installation.NewRig(programs, dir, nil)
	if err != nil {
		return nil, err
	}
	rig.Died = fail
	upstream := []string{"--capacity", fmt.Sprint(s.Pool.Capacity * upstreamMargin), "--queue",
		fmt.Sprint(upstreamQueue)}
	if c.Trace != "" {
		upstream = append(upstream, "--trace", UpstreamTrace(c.Trace))
	}
	in, err := rig.New(installation.Options{Ports: p, Documents: DemoDocument, Upstream: upstream,
		Coordinator: []string{"--rest", p.REST(), "--console", p.Console()}, Agent: []string{"--fault-injection"}})
	if err != nil {
		return nil, err
	}
	for _, g := range s.Gateways {
		if _, err := in.AddGateway(installation.Envoy{Name: g.Name, AnyProtocol: true, Sign: true,
			Also: DemoClasses}); err != nil {
			return nil, err
		}
	}
	return &Installation{Installation: in, config: c, scenario: s, cut: map[string]bool{}}, nil
}

// Start starts all processes in the order of their dependencies, and returns when every gateway enforces the
// configuration.
func (w *Installation) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startDeadline, fmt.Errorf("not within %v", startDeadline))
	defer cancel()
	return w.Installation.Start(ctx)
}

// UpstreamTrace returns the path of the upstream's own trace, next to the run's.
func UpstreamTrace(trace string) string {
	return strings.TrimSuffix(trace, filepath.Ext(trace)) + ".upstream.ndjson"
}

// URLs of the gateways.
func (w *Installation) URLs() (urls []string) {
	for _, g := range w.Gateways {
		urls = append(urls, g.URL())
	}
	return urls
}

// Stop stops everything in reverse order. What does not stop in time is killed,
// and named in the error.
func (w *Installation) Stop() error {
	err := w.Installation.Stop()
	w.Close()
	return err
}
