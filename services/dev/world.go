package dev

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/titrate/titrate/services/dev/child"
	"github.com/titrate/titrate/services/dev/local"
	"github.com/titrate/titrate/services/dev/scenario"
)

// Deadlines of starting and stopping. A fast machine needs a fifth of them.
const (
	startDeadline = 45 * time.Second
	stopGrace     = 3 * time.Second
)

// World is the running system.
type World struct {
	config   *Config
	scenario *scenario.Scenario
	ports    *ports
	dir      string
	group    *child.Group
	fail     context.CancelCauseFunc
	client   *http.Client
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

// newWorld prepares a world in a directory. fail is called when a child ends
// unasked.
func newWorld(c *Config, s *scenario.Scenario, p *ports, dir string, fail context.CancelCauseFunc) *World {
	n := len(s.Gateways)
	return &World{
		config: c, scenario: s, ports: p, dir: dir, fail: fail,
		group:  child.NewGroup(),
		client: &http.Client{Timeout: time.Second},
		asked:  map[*child.Process]bool{},
		agents: make([]*child.Process, n), envoys: make([]*child.Process, n),
		cut: map[string]bool{},
	}
}

// Start starts everything in the order of who needs whom, and returns when
// every gateway enforces the configuration.
func (w *World) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startDeadline, fmt.Errorf("not within %v", startDeadline))
	defer cancel()
	for _, step := range []func(context.Context) error{
		w.startEtcd, w.startCentre, w.configure, w.startAgents, w.startEnvoys, w.awaitEnforcement,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// launch starts a child and watches over it.
func (w *World) launch(spec child.Spec) (*child.Process, error) {
	spec.Log = filepath.Join(w.dir, strings.ReplaceAll(spec.Name, " ", "-")+".log")
	p, err := w.group.Start(spec)
	if err != nil {
		return nil, err
	}
	go func() {
		<-p.Exited()
		w.mu.Lock()
		asked := w.asked[p] || w.stopping
		w.mu.Unlock()
		if !asked {
			w.fail(p.Obituary())
		}
	}()
	return p, nil
}

// titrate is a child that runs this program.
func (w *World) titrate(name string, args ...string) child.Spec {
	return child.Spec{Name: name, Path: w.config.Titrate, Args: args}
}

func (w *World) startEtcd(ctx context.Context) (err error) {
	w.etcd, err = w.launch(w.titrate("etcd", "etcd",
		"--data-dir", filepath.Join(w.dir, "etcd"),
		"--listen", local.Address(w.ports.etcd),
		"--listen-peer", local.Address(w.ports.etcdPeer)))
	if err != nil {
		return err
	}
	return w.etcd.Ready(ctx, w.probe(w.ports.etcd, "/health"))
}

// startCentre starts the coordinator and the upstream.
func (w *World) startCentre(ctx context.Context) (err error) {
	if w.upstream, err = w.launch(w.titrate("upstream", w.upstreamArgs()...)); err != nil {
		return err
	}
	if err := w.startCoordinator(ctx); err != nil {
		return err
	}
	return w.upstream.Ready(ctx, w.probe(w.ports.upstream, "/healthz"))
}

// The upstream has a tenth more than its pool's capacity, as an operator would
// leave it, and room for a third of a second of requests to wait.
const (
	upstreamMargin = 1.1
	upstreamQueue  = 100
)

func (w *World) upstreamArgs() []string {
	args := []string{"upstream",
		"--listen", local.Address(w.ports.upstream),
		"--capacity", fmt.Sprint(w.scenario.Pool.Capacity * upstreamMargin),
		"--queue", fmt.Sprint(upstreamQueue)}
	if w.config.Trace != "" {
		args = append(args, "--trace", UpstreamTrace(w.config.Trace))
	}
	return args
}

// UpstreamTrace is where the upstream's own trace lies, beside the run's.
func UpstreamTrace(trace string) string {
	return strings.TrimSuffix(trace, filepath.Ext(trace)) + ".upstream.ndjson"
}

func (w *World) startCoordinator(ctx context.Context) error {
	p, err := w.launch(w.titrate("coordinator", "coordinator",
		"--name", "dev",
		"--listen", local.Address(w.ports.coordinator),
		"--admin", local.Address(w.ports.coordinatorWeb),
		"--etcd-endpoints", "http://"+local.Address(w.ports.etcd)))
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.coordinator = p
	w.mu.Unlock()
	return p.Ready(ctx, w.probe(w.ports.coordinatorWeb, "/readyz"))
}

func (w *World) startAgents(ctx context.Context) error {
	peers := make([]string, len(w.agents))
	for i := range peers {
		peers[i] = local.Address(w.ports.gossip[i])
	}
	return w.each(ctx, func(ctx context.Context, i int, name string) (err error) {
		w.agents[i], err = w.launch(w.titrate("agent "+name, "agent",
			"--name", name,
			"--coordinator", local.Address(w.ports.coordinator),
			"--socket", w.socket(name),
			"--gossip", local.Address(w.ports.gossip[i]),
			"--join", strings.Join(peers, ","),
			"--admin", local.Address(w.ports.agentWeb[i]),
			"--snapshot-dir", filepath.Join(w.dir, "snapshot-"+name),
			"--fault-injection"))
		if err != nil {
			return err
		}
		return w.agents[i].Ready(ctx, w.probe(w.ports.agentWeb[i], "/readyz"))
	})
}

func (w *World) startEnvoys(ctx context.Context) error {
	modules, err := local.Modules(w.dir, w.config.Module)
	if err != nil {
		return err
	}
	return w.each(ctx, func(ctx context.Context, i int, name string) error {
		file := filepath.Join(w.dir, name+".yaml")
		bootstrap, err := local.Gateway{Name: name, Socket: w.socket(name), Pool: w.scenario.Pool.Name,
			Port: w.ports.gateways[i], Admin: w.ports.envoyAdmin[i], Upstream: w.ports.upstream}.Bootstrap()
		if err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(bootstrap), 0o600); err != nil {
			return err
		}
		w.envoys[i], err = w.launch(child.Spec{
			Name: "envoy " + name,
			Path: w.config.Envoy,
			Args: []string{"-c", file, "--concurrency", "1", "--disable-hot-restart", "--log-level", "warning",
				"--drain-time-s", "1"},
			Env: []string{modules},
		})
		if err != nil {
			return err
		}
		return w.envoys[i].Ready(ctx, w.probe(w.ports.envoyAdmin[i], "/ready"))
	})
}

// each does something for every gateway at once.
func (w *World) each(ctx context.Context, do func(context.Context, int, string) error) error {
	g, ctx := errgroup.WithContext(ctx)
	for i, gw := range w.scenario.Gateways {
		g.Go(func() error { return do(ctx, i, gw.Name) })
	}
	return g.Wait()
}

func (w *World) socket(gateway string) string { return filepath.Join(w.dir, gateway+".sock") }

// URLs of the gateways.
func (w *World) URLs() []string {
	urls := make([]string, len(w.ports.gateways))
	for i, p := range w.ports.gateways {
		urls[i] = "http://" + local.Address(p) + "/"
	}
	return urls
}

// probe asks a port for a path and wants a 2xx.
func (w *World) probe(port int, path string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := local.Get(ctx, w.client, "http://"+local.Address(port)+path)
		return err
	}
}

// Stop stops everything in reverse order. What does not stop in time is killed,
// and named in the error.
func (w *World) Stop() error {
	w.mu.Lock()
	w.stopping = true
	coordinator := w.coordinator
	w.mu.Unlock()
	err := errors.Join(
		child.Stop(stopGrace, w.envoys...),
		child.Stop(stopGrace, w.agents...),
		child.Stop(stopGrace, coordinator, w.upstream),
		child.Stop(stopGrace, w.etcd))
	w.group.Close()
	w.client.CloseIdleConnections()
	return err
}
