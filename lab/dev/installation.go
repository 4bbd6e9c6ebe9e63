package dev

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/titrate/titrate/lab/dev/child"
	"github.com/titrate/titrate/lab/dev/local"
	"github.com/titrate/titrate/lab/dev/scenario"
)

// Deadlines of starting and stopping. A fast machine needs a fifth of these times.
const (
	startDeadline = 45 * time.Second
	stopGrace     = 15 * time.Second
)

// Installation is the running system.
type Installation struct {
	config   *Config
	scenario *scenario.Scenario
	ports    *ports
	rig      *local.Rig
	fail     context.CancelCauseFunc
	revision int64 // of the configuration that was applied

	mu          sync.Mutex
	asked       map[*child.Process]bool // whose end is no surprise
	stopping    bool
	etcd        *child.Process
	upstream    *child.Process
	coordinator *child.Process
	agents      []*child.Process
	envoys      []*child.Process
	cut         map[string]bool // gateways whose agent is cut off
}

// newInstallation prepares an installation in a directory. fail is called when a child ends
// unasked.
func newInstallation(c *Config, s *scenario.Scenario, p *ports, dir string,
	fail context.CancelCauseFunc) (*Installation, error) {
	rig, err := local.NewRig(local.Programs{Titrate: c.Titrate, Module: c.Module, Envoy: c.Envoy}, dir, nil)
	n := len(s.Gateways)
	return &Installation{
		config: c, scenario: s, ports: p, rig: rig, fail: fail, asked: map[*child.Process]bool{},
		agents: make([]*child.Process, n), envoys: make([]*child.Process, n), cut: map[string]bool{},
	}, err
}

// Start starts all processes in the order of their dependencies, and returns when every gateway enforces the
// configuration.
func (w *Installation) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startDeadline, fmt.Errorf("not within %v", startDeadline))
	defer cancel()
	for _, step := range []func(context.Context) error{
		w.startEtcd, w.startUpstream, w.startCoordinator, w.configure, w.startAgents, w.startEnvoys, w.awaitEnforcement,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// start starts a server, watches over it, and waits until it serves.
func (w *Installation) start(ctx context.Context, s local.Server, into **child.Process) error {
	p, err := w.rig.Launch(s.Spec)
	if err != nil {
		return err
	}
	w.mu.Lock()
	*into = p
	w.mu.Unlock()
	go func() {
		<-p.Exited()
		w.mu.Lock()
		asked := w.asked[p] || w.stopping
		w.mu.Unlock()
		if !asked {
			w.fail(p.Obituary())
		}
	}()
	return w.rig.Serving(ctx, p, s.URL)
}

func (w *Installation) startEtcd(ctx context.Context) error {
	return w.start(ctx, w.rig.Etcd("etcd", local.Address(w.ports.etcd), local.Address(w.ports.etcdPeer)), &w.etcd)
}

// The upstream has a tenth more than its pool's capacity, as an operator would
// leave it, and room for a third of a second of requests to wait.
const (
	upstreamMargin = 1.1
	upstreamQueue  = 100
)

func (w *Installation) startUpstream(ctx context.Context) error {
	args := []string{"--capacity", fmt.Sprint(w.scenario.Pool.Capacity * upstreamMargin),
		"--queue", fmt.Sprint(upstreamQueue)}
	if w.config.Trace != "" {
		args = append(args, "--trace", UpstreamTrace(w.config.Trace))
	}
	return w.start(ctx, w.rig.Upstream(local.Address(w.ports.upstream), args...), &w.upstream)
}

// UpstreamTrace returns the path of the upstream's own trace, next to the run's.
func UpstreamTrace(trace string) string {
	return strings.TrimSuffix(trace, filepath.Ext(trace)) + ".upstream.ndjson"
}

func (w *Installation) startCoordinator(ctx context.Context) error {
	return w.start(ctx, w.rig.Coordinator("coordinator", local.Address(w.ports.coordinator),
		local.Address(w.ports.coordinatorWeb), local.Address(w.ports.etcd), "--rest", local.Address(w.ports.rest)),
		&w.coordinator)
}

func (w *Installation) startAgents(ctx context.Context) error {
	var gossip []string
	for _, port := range w.ports.gossip {
		gossip = append(gossip, local.Address(port))
	}
	return w.each(ctx, func(ctx context.Context, i int, name string) error {
		return w.start(ctx, w.rig.Agent(name, local.Address(w.ports.coordinator), local.Address(w.ports.agentWeb[i]),
			slices.Concat(gossip[i:], gossip[:i]), "--fault-injection"), &w.agents[i])
	})
}

func (w *Installation) startEnvoys(ctx context.Context) error {
	return w.each(ctx, func(ctx context.Context, i int, name string) error {
		envoy, err := w.rig.Envoy(local.Envoy{Name: name, Filter: local.Titrate, Port: w.ports.gateways[i],
			Admin: w.ports.envoyAdmin[i], Upstream: w.ports.upstream, AnyProtocol: true, Sign: true, Also: DemoClasses})
		if err != nil {
			return err
		}
		return w.start(ctx, envoy, &w.envoys[i])
	})
}

// each does something for every gateway at once.
func (w *Installation) each(ctx context.Context, do func(context.Context, int, string) error) error {
	g, ctx := errgroup.WithContext(ctx)
	for i, gw := range w.scenario.Gateways {
		g.Go(func() error { return do(ctx, i, gw.Name) })
	}
	return g.Wait()
}

// URLs of the gateways.
func (w *Installation) URLs() []string {
	urls := make([]string, len(w.ports.gateways))
	for i, p := range w.ports.gateways {
		urls[i] = "http://" + local.Address(p) + "/"
	}
	return urls
}

// Stop stops everything in reverse order. What does not stop in time is killed,
// and named in the error.
func (w *Installation) Stop() error {
	w.mu.Lock()
	w.stopping = true
	coordinator := w.coordinator
	w.mu.Unlock()
	err := errors.Join(
		child.Stop(stopGrace, w.envoys...),
		child.Stop(stopGrace, w.agents...),
		child.Stop(stopGrace, coordinator, w.upstream),
		child.Stop(stopGrace, w.etcd))
	w.rig.Close()
	return err
}
