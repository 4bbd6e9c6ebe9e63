// Package world is the installation under test: three members of etcd, two coordinators, and gateways, each at
// its own host in the network of package wire. The upstream is in this process.
//
//	own (10.77.0.1)    load, API calls, upstream
//	etcd1 … etcd3      a member of etcd
//	co1, co2           a coordinator
//	gw1 …              an agent and an Envoy
package world

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/titrate/titrate/e2e/bench/rig"
	"github.com/titrate/titrate/e2e/robustness/clock"
	"github.com/titrate/titrate/e2e/robustness/member"
	"github.com/titrate/titrate/e2e/robustness/wire"
	"github.com/titrate/titrate/lab/installation"
	"github.com/titrate/titrate/lab/installation/child"
)

// Members of etcd and coordinators, and the gateways to begin with.
const (
	Members      = 3
	Coordinators = 2
	Gateways     = 3
)

// Numbers of hosts.
const (
	firstMember      = 10
	firstCoordinator = 20
	firstGateway     = 30
)

// patience is the longest time until a process serves.
const patience = 30 * time.Second

// UpstreamPort is the port of the upstream, at Own.
const UpstreamPort = 9000

// Options name the programs.
type Options struct {
	installation.Programs
	Share    bool // the coordinators share the pools
	Sites    int  // of the gateways, with slow links between them; 1 has none
	Progress io.Writer
}

// World is described at the package.
type World struct {
	Switch       *wire.Switch
	Own          *wire.Host
	Etcd         []*Server
	Coordinators []*Server

	o    Options
	self string // this program
	base int    // of the gateways' hot restarts

	clocks error // why clocks cannot be stepped, nil if they can

	mu           sync.Mutex
	servers      []*Server
	rigs         []*rig.Rig
	hosts        map[*rig.Rig]*wire.Host
	gateways     []*Gateway
	sites        map[*wire.Host]int // of gateways
	gatewaysEver int
	liars        int // ever
	restored     int // how often etcd was
	deaths       []error
	closed       bool
}

// New starts the installation in the network namespace that this process is in,
// which must be its own. Close ends it, also after an error.
func New(ctx context.Context, o Options) (*World, error) {
	w := &World{o: o, hosts: map[*rig.Rig]*wire.Host{}, sites: map[*wire.Host]int{},
		base: os.Getpid() % 10_000_000 * 100}
	var err error
	if w.self, err = os.Executable(); err != nil {
		return w, err
	}
	if w.Switch, w.Own, err = wire.New("own"); err != nil {
		return w, err
	}
	w.clocks = w.tryClock()
	w.Switch.Disturb(w.farther)
	for _, step := range []func(context.Context) error{w.startEtcd, w.startCoordinators} {
		if err := step(ctx); err != nil {
			return w, err
		}
	}
	return w, nil
}

// Clocks says why clocks cannot be stepped, or nil if they can.
func (w *World) Clocks() error { return w.clocks }

// tryClock steps the clock of a process that ends at once.
func (w *World) tryClock() error {
	g := child.NewGroup()
	defer g.Close()
	p, err := g.Start(child.Spec{Name: "clock", Path: "/bin/true", Log: os.DevNull, Born: func(pid int) error {
		_, err := clock.Bend(pid)
		return err
	}})
	if err == nil {
		<-p.Exited()
	}
	return err
}

// host makes a host with a rig in it.
func (w *World) host(name string, n int) (*wire.Host, *rig.Rig, error) {
	h, err := w.Switch.Host(name, n)
	if err != nil {
		return nil, nil, err
	}
	r, err := rig.New(rig.Options{Programs: w.o.Programs, Progress: w.o.Progress, Host: h.Address.String(),
		Enter: h.Enter})
	if err != nil {
		return nil, nil, err
	}
	r.Died, r.Grace = w.died, stopGrace
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rigs = append(w.rigs, r)
	w.hosts[r] = h
	return h, r, nil
}

func (w *World) startEtcd(ctx context.Context) error {
	var hosts []*wire.Host
	var rigs []*rig.Rig
	for i := range Members {
		h, r, err := w.host(fmt.Sprintf("etcd%d", i+1), firstMember+i)
		if err != nil {
			return err
		}
		hosts, rigs = append(hosts, h), append(rigs, r)
	}
	for i, h := range hosts {
		w.Etcd = append(w.Etcd, w.server(h, rigs[i], rigs[i].Server(child.Spec{Name: h.Name, Path: w.self,
			Args: member.Args(h.Name, rigs[i].File("data"), h.Address.String(), cluster(hosts))},
			"http://"+address(h, member.ClientPort)+"/health")))
	}
	return w.StartAll(ctx, w.Etcd)
}

// Ports of a coordinator.
const (
	apiPort            = 7400
	coordinatorWebPort = 7401
)

func (w *World) startCoordinators(ctx context.Context) error {
	for i := range Coordinators {
		h, r, err := w.host(fmt.Sprintf("co%d", i+1), firstCoordinator+i)
		if err != nil {
			return err
		}
		web := address(h, coordinatorWebPort)
		more := []string{"--insecure"}
		if w.o.Share {
			more = append(more, "--share-pools")
		}
		c := r.Coordinator(h.Name, address(h, apiPort), web, strings.Join(w.endpoints(), ","), more...)
		c.Name = "coordinator " + h.Name
		s := w.server(h, r, c)
		s.metrics = "http://" + web + "/metrics"
		w.Coordinators = append(w.Coordinators, s)
	}
	return w.StartAll(ctx, w.Coordinators)
}

// StartAll starts servers that need each other to serve.
func (w *World) StartAll(ctx context.Context, servers []*Server) error {
	for _, s := range servers {
		if err := s.Launch(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not within %v", patience))
	defer cancel()
	for _, s := range servers {
		if err := s.Serving(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (w *World) coordinatorAddresses() string {
	var all []string
	for _, c := range w.Coordinators {
		all = append(all, APIAddress(c))
	}
	return strings.Join(all, ",")
}

// APIAddress is host:port of a coordinator's API.
func APIAddress(coordinator *Server) string { return address(coordinator.Host, apiPort) }

// CoordinatorURL is a coordinator's admin page.
func CoordinatorURL(coordinator *Server) string {
	return "http://" + address(coordinator.Host, coordinatorWebPort)
}

// seeds returns the agents that a new one joins: itself, and the present ones.
func (w *World) seeds(g *Gateway) []string {
	all := []string{address(g.Host, GossipPort)}
	for _, other := range w.Gateways() {
		all = append(all, address(other.Host, GossipPort))
	}
	return all
}

// Gateways returns the present gateways.
func (w *World) Gateways() []*Gateway {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.gateways)
}

// Servers are all processes that there are meant to be.
func (w *World) Servers() []*Server {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.servers)
}

// Get fetches a page and wants a 2xx.
func (w *World) Get(ctx context.Context, url string) (string, error) { return w.rigs[0].Get(ctx, url) }

// died notes the unexpected end of a process.
func (w *World) died(obituary error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.deaths = append(w.deaths, obituary)
	}
}

// Deaths returns the unexpected ends.
func (w *World) Deaths() []error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.deaths)
}

// Close ends everything and removes it, but for the logs, which go to the directory
// of temporary files.
func (w *World) Close() error {
	w.mu.Lock()
	w.closed = true
	rigs, gateways := w.rigs, w.gateways
	w.mu.Unlock()
	var errs []error
	for _, r := range rigs {
		errs = append(errs, r.Close(w.keepLogs))
	}
	for _, g := range gateways {
		g.forgetShared()
	}
	return errors.Join(errs...)
}

// keepLogs moves the logs of a rig's directory to the directory of temporary files. They are named after the
// processes, whose names are unique.
func (w *World) keepLogs(dir string) error {
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	for _, path := range logs {
		err = errors.Join(err, os.Rename(path, filepath.Join(os.TempDir(), filepath.Base(path))))
	}
	return err
}

func address(h *wire.Host, port int) string {
	return net.JoinHostPort(h.Address.String(), strconv.Itoa(port))
}

// Upstream returns the address of the upstream.
func (w *World) Upstream() string { return address(w.Own, UpstreamPort) }
