package fault

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/titrate/titrate/e2e/robustness/check"
	"github.com/titrate/titrate/e2e/robustness/world"
)

// Actions of operators, which must make nothing fail.

var hotRestart = Kind{
	Name: "hot-restart-envoy", Does: "an Envoy is replaced by --restart-epoch, under traffic",
	Touches: "gateway", Grace: check.Grace{Unfair: 8 * second, Bursts: 1},
	Draw: func(r *rand.Rand, s Scene) Fault {
		g := anyGateway(r, s)
		return &simple{"restart the Envoy of " + g.Name + " hot", g.Name, g.HotRestart,
			func(context.Context) error { return nil }}
	},
}

var rollAgents = Kind{
	Name: "roll-agents", Does: "SIGTERM of each agent in turn, started again at once",
	Touches: "gateway", Grace: check.Grace{Unfair: 8 * second, Ledgers: true},
	Draw: func(_ *rand.Rand, s Scene) Fault {
		var agents []*world.Server
		for _, g := range s.World().Gateways() {
			agents = append(agents, g.Agent)
		}
		return roll("restart each agent in turn", agents)
	},
}

var rollCoordinators = Kind{
	Name: "roll-coordinators", Does: "SIGTERM of each coordinator in turn, started again at once",
	Touches: "coordinator", Grace: check.Grace{Unfair: 8 * second, Freezes: true},
	Draw: func(_ *rand.Rand, s Scene) Fault {
		return roll("restart each coordinator in turn", s.World().Coordinators)
	},
}

func roll(what string, servers []*world.Server) Fault {
	return &simple{what, "", func(ctx context.Context) error {
		for _, server := range servers {
			if err := server.Stop(); err != nil {
				return err
			}
			if err := server.Start(ctx); err != nil {
				return err
			}
		}
		return nil
	}, func(context.Context) error { return nil }}
}

var addGateway = Kind{
	Name: "add-gateway", Does: "a gateway joins, takes traffic, and is drained and removed later",
	Touches: "gateway", Shortest: 4 * second, Longest: 15 * second,
	Grace: check.Grace{Unfair: 8 * second, Bursts: 1, Ledgers: true},
	Draw: func(_ *rand.Rand, s Scene) Fault {
		var g *world.Gateway
		return &simple{"add a gateway", "", func(ctx context.Context) (err error) {
			g, err = s.World().AddGateway(ctx)
			return err
		}, func(ctx context.Context) error {
			if g == nil {
				return nil
			}
			g.SetAway(true)
			if err := pause(ctx, drained); err != nil {
				return err
			}
			return s.World().RemoveGateway(g)
		}}
	},
}

var replaceGateway = Kind{
	Name: "replace-gateway", Does: "a gateway is drained and removed, and a new one joins later",
	Touches: "gateway", Longest: 6 * second,
	Grace: check.Grace{Unfair: 10 * second, Bursts: 1, Ledgers: true},
	Draw: func(r *rand.Rand, s Scene) Fault {
		g := anyGateway(r, s)
		return &simple{"replace " + g.Name, g.Name, func(ctx context.Context) error {
			g.SetAway(true)
			if err := pause(ctx, drained); err != nil {
				return err
			}
			return s.World().RemoveGateway(g)
		}, func(ctx context.Context) error {
			_, err := s.World().AddGateway(ctx)
			return err
		}}
	},
}

var stepClock = Kind{
	Name: "step-clock",
	Does: "the time of day at a host steps by up to an hour, forward or back, and back again later. Its agent, if " +
		"it has one, is killed and started meanwhile",
	Touches: "all", Shortest: 3 * second, Longest: 12 * second,
	Grace: check.Grace{Unfair: 8 * second, Ledgers: true},
	Draw: func(r *rand.Rand, s Scene) Fault {
		by := time.Duration(1+r.IntN(3600)) * second
		if r.IntN(2) == 0 {
			by = -by
		}
		var at []*world.Server
		restart := func(context.Context) error { return nil }
		switch n := r.IntN(4); n {
		case 0:
			at = []*world.Server{one(r, s.World().Coordinators)}
		case 1:
			at = []*world.Server{one(r, s.World().Etcd)}
		default:
			g := anyGateway(r, s)
			at = []*world.Server{g.Agent, g.Envoy}
			restart = func(ctx context.Context) error {
				g.Agent.Kill()
				return g.Agent.Start(ctx)
			}
		}
		set := func(by time.Duration) error {
			for _, server := range at {
				if err := server.Step(by); err != nil {
					return err
				}
			}
			return nil
		}
		return &simple{fmt.Sprintf("step the clock of %s by %v", at[0].Name, by), "", func(ctx context.Context) error {
			if err := set(by); err != nil {
				return err
			}
			return restart(ctx)
		}, func(ctx context.Context) error {
			if err := set(0); err != nil {
				return err
			}
			return restart(ctx)
		}}
	},
}
