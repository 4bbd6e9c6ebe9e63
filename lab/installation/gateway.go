package installation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/titrate/titrate/lab/installation/child"
)

// Gateway is an agent and an Envoy with Titrate's filter.
type Gateway struct {
	*Proxy
	Agent    *Server
	AgentWeb string // URL of the agent's admin page
	in       *Installation
}

// AddGateway plans a gateway. Its agent joins all agents that are planned so far. The first gateways have the planned
// ports, others have free ones.
func (in *Installation) AddGateway(e Envoy) (*Gateway, error) {
	n, web := len(in.Gateways), ""
	if n < len(in.ports.gateways) {
		e.Port, e.Admin, web = in.ports.gateways[n], in.ports.envoyAdmin[n], Address(in.ports.agentWeb[n])
	} else {
		free, err := Addresses(2)
		if err != nil {
			return nil, err
		}
		in.gossip, web = append(in.gossip, free[0]), free[1]
	}
	if in.Upstream != nil && e.Upstream == 0 {
		e.Upstream = in.ports.upstream
	}
	e.Filter = Titrate
	p, err := in.Envoy(e)
	if err != nil {
		return nil, err
	}
	var coordinators []string
	for _, c := range in.Coordinators {
		coordinators = append(coordinators, c.API)
	}
	g := &Gateway{Proxy: p, in: in, AgentWeb: in.scheme() + web}
	g.Agent = in.Agent(e.Name, strings.Join(coordinators, ","), web, slices.Concat(in.gossip[n:], in.gossip[:n]),
		in.o.Agent...)
	in.secure(g.Agent)
	in.Gateways = append(in.Gateways, g)
	return g, nil
}

// Join adds a gateway and starts it. It returns when the filter enforces the configuration applied last.
func (in *Installation) Join(ctx context.Context, e Envoy) (*Gateway, error) {
	g, err := in.AddGateway(e)
	if err != nil {
		return nil, err
	}
	if err := g.Agent.Start(ctx); err != nil {
		return nil, err
	}
	if err := g.Proxy.Start(ctx); err != nil {
		return nil, err
	}
	return g, g.Enforces(ctx)
}

// Enforces waits until the filter has the configuration applied last, and shares. It returns at once if nothing was
// applied.
func (g *Gateway) Enforces(ctx context.Context) error {
	if g.in.Revision == 0 {
		return nil
	}
	return g.Await(ctx, func(ctx context.Context) error {
		found, err := g.Statistics(ctx, "titrate_")
		if err != nil {
			return err
		}
		revision, epoch := found["titrate_config_revision"], found["titrate_shares_epoch"]
		if int64(revision) < g.in.Revision || epoch == 0 {
			return fmt.Errorf("the filter has revision %v of the configuration, want %d, and shares of epoch %v, want "+
				"above 0", revision, g.in.Revision, epoch)
		}
		return nil
	})
}

// Reports waits until the filter has reported to the agent that it enforces the configuration applied last,
// and asks the agent at this interval.
func (g *Gateway) Reports(ctx context.Context, every time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not within %v", patience))
	defer cancel()
	for {
		text, err := g.rig.Get(ctx, g.AgentWeb+"/status")
		if err != nil {
			return err
		}
		var status struct {
			Gateways []struct{ ConfigRevision int64 }
		}
		if err := json.Unmarshal([]byte(text), &status); err != nil {
			return err
		}
		if len(status.Gateways) == 1 && status.Gateways[0].ConfigRevision >= g.in.Revision {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(every):
		}
	}
}

// Processes are the processes that work for a request through the gateway: its Envoy, its agent, etcd and the
// coordinators.
func (g *Gateway) Processes() []*child.Process {
	return append([]*child.Process{g.Process(), g.Agent.Process()}, g.in.Processes()...)
}

// Processes are etcd and the coordinators.
func (in *Installation) Processes() []*child.Process {
	all := []*child.Process{in.Etcd.Process()}
	for _, c := range in.Coordinators {
		all = append(all, c.Process())
	}
	return all
}

// Stop stops the Envoy, then the agent.
func (g *Gateway) Stop() error { return errors.Join(g.Proxy.Stop(), g.Agent.Stop()) }
