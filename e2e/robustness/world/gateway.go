package world

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/titrate/titrate/e2e/bench/rig"
	"github.com/titrate/titrate/e2e/robustness/wire"
	"github.com/titrate/titrate/lab/installation"
)

// Gateway is a host with an agent and an Envoy.
type Gateway struct {
	Name  string
	Host  *wire.Host
	Agent *Server
	Envoy *Server

	world *World
	envoy *rig.Envoy // the proxy that Envoy starts

	mu   sync.Mutex
	away bool // out of the load balancer
}

// Ports at a gateway; other agents are reached at GossipPort.
const (
	frontPort  = 8080
	GossipPort = 7500
	agentPort  = 7501
)

// AddGateway starts a gateway at a new host and returns when its filter has its agent, shares and
// configuration.
func (w *World) AddGateway(ctx context.Context) (*Gateway, error) {
	w.mu.Lock()
	w.gatewaysEver++
	n := w.gatewaysEver
	w.mu.Unlock()
	name := fmt.Sprintf("gw%d", n)
	h, r, err := w.host(name, firstGateway+n)
	if err != nil {
		return nil, err
	}
	g := &Gateway{Name: name, Host: h, world: w, away: true}
	web := address(h, agentPort)
	site, more := w.o.site(n)
	w.mu.Lock()
	w.sites[h] = site
	w.mu.Unlock()
	g.Agent = w.server(h, r, r.Agent(name, w.coordinatorAddresses(), web, w.seeds(g), append(more, "--insecure")...))
	g.Agent.metrics = "http://" + web + "/metrics"
	if err := g.Agent.Start(ctx); err != nil {
		return nil, err
	}
	if err := g.prepare(ctx, r, rig.Spec{Name: name, Filter: rig.Titrate, Port: frontPort, Upstream: UpstreamPort,
		UpstreamHost: w.Own.Address.String(), Base: w.base + n, PoolHeader: true}); err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.gateways = append(w.gateways, g)
	w.mu.Unlock()
	return g, g.Join(ctx)
}

// prepare starts the gateway's Envoy.
func (g *Gateway) prepare(ctx context.Context, r *rig.Rig, s rig.Spec) (err error) {
	if g.envoy, err = r.Rig.Envoy(s); err != nil {
		return err
	}
	g.Envoy = g.world.server(g.Host, r, g.envoy.Server)
	g.Envoy.metrics = g.envoy.AdminURL() + "/stats?filter=titrate_goroutines"
	return g.Envoy.Start(ctx)
}

// RemoveGateway drains a gateway and takes it away, as an operator would: no more
// requests, SIGTERM of the Envoy, then of the agent.
func (w *World) RemoveGateway(g *Gateway) error {
	g.SetAway(true)
	w.mu.Lock()
	gone := func(s *Server) bool { return s == g.Agent || s == g.Envoy }
	w.servers = slices.DeleteFunc(w.servers, gone)
	w.gateways = slices.DeleteFunc(w.gateways, func(other *Gateway) bool { return other == g })
	delete(w.sites, g.Host)
	w.mu.Unlock()
	err := errors.Join(g.Envoy.Stop(), g.Agent.Stop(), w.Switch.Remove(g.Host))
	g.forgetShared()
	return err
}

// Join waits until the filter has what it needs, and puts the gateway in the load
// balancer.
func (g *Gateway) Join(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not within %v", patience))
	defer cancel()
	err := g.Envoy.Serving(ctx)
	if err == nil {
		g.SetAway(false)
	}
	return err
}

// SetAway takes the gateway out of the load balancer, or puts it back.
func (g *Gateway) SetAway(away bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.away = away
}

// Away reports whether it is out of the load balancer.
func (g *Gateway) Away() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.away
}

// Address returns the address for requests.
func (g *Gateway) Address() string { return address(g.Host, frontPort) }

// AgentURL is the agent's admin page.
func (g *Gateway) AgentURL() string { return "http://" + address(g.Host, agentPort) }

// Dropped returns how much of what gateways sent the agent has dropped or cut since its start. A refused link counts:
// a third liar in half a minute may get none.
func (g *Gateway) Dropped(ctx context.Context) (n float64, err error) {
	page, err := g.Page(ctx, g.AgentURL()+"/metrics")
	for name, value := range installation.Numbers(page, " ") {
		if strings.HasPrefix(name, "titrate_agent_link_dropped_total{") || name == "titrate_agent_link_refused_total" {
			n += value
		}
	}
	return n, err
}

// Statistics are the filter's gauges and counters without labels, by name.
func (g *Gateway) Statistics(ctx context.Context) (map[string]float64, error) {
	return g.envoy.Statistics(ctx, "titrate_")
}

// StartEnvoy starts the Envoy after its end; it begins a new row of hot restarts.
func (g *Gateway) StartEnvoy(ctx context.Context) error {
	g.envoy.First()
	g.forgetShared()
	return g.Envoy.Start(ctx)
}

// HotRestart starts the next Envoy, which takes the listener over, and waits for
// the end of its parent.
func (g *Gateway) HotRestart(ctx context.Context) error {
	parent, err := g.envoy.HotRestart(ctx)
	if err != nil {
		return err
	}
	select {
	case <-parent.Exited():
		return nil
	case <-time.After(patience):
		parent.Kill()
		return fmt.Errorf("the parent of %s's hot restart was still there after %v", g.Name, patience)
	}
}

// forgetShared removes what a killed Envoy leaves of the memory that the
// generations of a hot restart share.
func (g *Gateway) forgetShared() {
	left, _ := filepath.Glob("/dev/shm/envoy_shared_memory_" + strconv.Itoa(g.envoy.Base) + "*")
	for _, path := range left {
		os.Remove(path)
	}
}

// Page fetches one and wants a 2xx.
func (g *Gateway) Page(ctx context.Context, url string) (string, error) {
	return g.Envoy.rig.Get(ctx, url)
}
