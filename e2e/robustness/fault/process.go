package fault

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/titrate/titrate/e2e/robustness/check"
	"github.com/titrate/titrate/e2e/robustness/world"
)

const second = time.Second

// membership is the time for which a gateway that crashed keeps its part (docs/guarantees.md), and the time to
// divide the part again.
const membership = 24 * second

var killEnvoy = Kind{
	Name: "kill-envoy", Does: "SIGKILL of an Envoy, started again later; its agent lives",
	Touches: "gateway", Shortest: 0, Longest: 6 * second,
	Grace: check.Grace{Fails: true, Unfair: 5 * second, Ledgers: true},
	Draw: func(r *rand.Rand, s Scene) Fault {
		g := anyGateway(r, s)
		return &simple{"kill -9 the Envoy of " + g.Name, g.Name, func(context.Context) error {
			g.SetAway(true)
			g.Envoy.Kill()
			return nil
		}, func(ctx context.Context) error {
			if err := g.StartEnvoy(ctx); err != nil {
				return err
			}
			return g.Join(ctx)
		}}
	},
}

// ownPart is the part of an OPTIMISTIC limit that a gateway without its agent may admit in addition to the use
// that the other gateways assume: its part by weight. Of an EXACT limit it keeps what the others did not claim last,
// while their owner grants them all of it.
const ownPart = 1. / world.Gateways

var killAgent = Kind{
	Name: "kill-agent", Does: "SIGKILL of an agent, started again later; its Envoy goes on",
	Touches: "gateway", Shortest: 0, Longest: 8 * second,
	Grace: check.Grace{Unfair: 5 * second, More: ownPart, Ledgers: true, Sides: true},
	Draw: func(r *rand.Rand, s Scene) Fault {
		g := anyGateway(r, s)
		return &simple{"kill -9 the agent of " + g.Name, g.Name, func(context.Context) error {
			g.Agent.Kill()
			return nil
		}, func(ctx context.Context) error { return g.Agent.Start(ctx) }}
	},
}

var killCoordinator = Kind{
	Name: "kill-coordinator", Does: "SIGKILL of a coordinator, leading or not, started again later",
	Touches: "coordinator", Shortest: 0, Longest: 10 * second,
	Grace: check.Grace{Unfair: 5 * second, Freezes: true},
	Draw: func(r *rand.Rand, s Scene) Fault {
		c := one(r, s.World().Coordinators)
		return &simple{"kill -9 the " + c.Name, "", func(context.Context) error {
			c.Kill()
			return nil
		}, func(ctx context.Context) error { return c.Start(ctx) }}
	},
}

var killGateway = Kind{
	Name: "kill-gateway", Does: "SIGKILL of an Envoy and its agent at once, started again later",
	Touches: "gateway", Shortest: second, Longest: 8 * second,
	Grace: check.Grace{Fails: true, Unfair: membership, Ledgers: true},
	Draw: func(r *rand.Rand, s Scene) Fault {
		g := anyGateway(r, s)
		return &simple{"kill -9 Envoy and agent of " + g.Name, g.Name, func(context.Context) error {
			g.SetAway(true)
			g.Agent.Kill()
			g.Envoy.Kill()
			return nil
		}, func(ctx context.Context) error { return startCold(ctx, g) }}
	},
}

// coldGateways restarts all gateways at once under load: no agent has the clients' spent tokens, and no gateway
// has another's. So a client may spend its burst at each of them.
var coldGateways = Kind{
	Name: "cold-gateways", Does: "SIGKILL of all Envoys and agents at once, all started again at the same time",
	Touches: Everything, Shortest: 0, Longest: 4 * second,
	Grace: check.Grace{Fails: true, Unfair: membership, Bursts: world.Gateways, Ledgers: true},
	Draw: func(_ *rand.Rand, s Scene) Fault {
		all := s.World().Gateways()
		return &simple{"kill -9 all Envoys and agents", check.AllGateways, func(context.Context) error {
			for _, g := range all {
				g.SetAway(true)
				g.Agent.Kill()
				g.Envoy.Kill()
			}
			return nil
		}, func(ctx context.Context) error {
			failed := make([]error, len(all))
			var started sync.WaitGroup
			for i, g := range all {
				started.Go(func() { failed[i] = startCold(ctx, g) })
			}
			started.Wait()
			return errors.Join(failed...)
		}}
	},
}

// startCold starts the agent and the Envoy of a gateway.
func startCold(ctx context.Context, g *world.Gateway) error {
	if err := g.Agent.Start(ctx); err != nil {
		return err
	}
	if err := g.StartEnvoy(ctx); err != nil {
		return err
	}
	return g.Join(ctx)
}

var freezeEnvoy = Kind{
	Name: "freeze-envoy", Does: "SIGSTOP of an Envoy, SIGCONT later",
	Touches: "gateway", Shortest: second, Longest: 8 * second,
	Grace: check.Grace{Fails: true, Blocks: true, Unfair: 8 * second, Ledgers: true},
	Draw: func(r *rand.Rand, s Scene) Fault {
		g := anyGateway(r, s)
		return &simple{"SIGSTOP the Envoy of " + g.Name, g.Name, func(context.Context) error {
			g.SetAway(true)
			return g.Envoy.Freeze()
		}, func(ctx context.Context) error {
			if err := g.Envoy.Thaw(); err != nil {
				return err
			}
			return g.Join(ctx)
		}}
	},
}

var freezeAgent = Kind{
	Name: "freeze-agent", Does: "SIGSTOP of an agent, SIGCONT later; its Envoy goes on",
	Touches: "gateway", Shortest: second, Longest: 12 * second,
	Grace: check.Grace{Unfair: 8 * second, More: ownPart, Ledgers: true, Sides: true},
	Draw: func(r *rand.Rand, s Scene) Fault {
		g := anyGateway(r, s)
		return freeze(g.Agent, g)
	},
}

var freezeCoordinator = Kind{
	Name: "freeze-coordinator", Does: "SIGSTOP of a coordinator, leading or not, SIGCONT later",
	Touches: "coordinator", Shortest: second, Longest: 10 * second,
	Grace: check.Grace{Unfair: 5 * second, Freezes: true},
	Draw:  func(r *rand.Rand, s Scene) Fault { return freeze(one(r, s.World().Coordinators), nil) },
}

func freeze(s *world.Server, at *world.Gateway) Fault {
	name := ""
	if at != nil {
		name = at.Name
	}
	return &simple{"SIGSTOP the " + s.Name, name,
		func(context.Context) error { return s.Freeze() },
		func(context.Context) error { return s.Thaw() }}
}

var restartEnvoy = Kind{
	Name:    "restart-envoy",
	Does:    "SIGTERM of an Envoy that got its last request before, started again at once; its agent lives",
	Touches: "gateway", Shortest: 0, Longest: 0,
	Grace: check.Grace{Unfair: 5 * second},
	Draw: func(r *rand.Rand, s Scene) Fault {
		g := anyGateway(r, s)
		return &simple{"restart the Envoy of " + g.Name, g.Name, func(ctx context.Context) error {
			g.SetAway(true)
			// What has not waited has its answer by then; the filter keeps Envoy from
			// ending before what has waited is answered.
			if err := pause(ctx, drained); err != nil {
				return err
			}
			return g.Envoy.Stop()
		}, func(ctx context.Context) error {
			if err := g.StartEnvoy(ctx); err != nil {
				return err
			}
			return g.Join(ctx)
		}}
	},
}

// drained is the time before SIGTERM in which a gateway gets no more requests: many times the upstream's time
// for a request.
const drained = 300 * time.Millisecond

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
