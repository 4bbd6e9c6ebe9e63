package fault

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/titrate/titrate/e2e/robustness/check"
	"github.com/titrate/titrate/e2e/robustness/world"
)

// invented is the time after which invented use of a key is repaid: N·(Lc + g·r) of a LOCAL limit, until T₂ = 15 s
// after the liar has gone. N has the liar, too, and its silences g are shorter than the fault. Of the limits here that
// lasts longest for 60/min and a burst of 10, which is Lc.
const invented = 15*second + (world.Gateways+1)*(10*second+longestLie) + 5*second

const longestLie = 10 * second

// lyingAgent sends wrong numbers about the gateways and keys of all others.
var lyingAgent = Kind{
	Name: "lying-agent",
	Does: "a foreign agent joins the gossip and sends all others numbers at, below and beyond their bounds. Some " +
		"name their own gateways and keys. It is killed later",
	Touches: "gateway", Shortest: 3 * second, Longest: longestLie,
	Grace: check.Grace{Unfair: invented, Bursts: 4, Ledgers: true},
	Draw: func(r *rand.Rand, s Scene) Fault {
		var liar *world.Server
		seed := r.Uint64()
		return &simple{"an agent joins and lies", "", func(ctx context.Context) (err error) {
			liar, err = s.World().AddLiar(ctx, seed)
			return err
		}, func(context.Context) error {
			if liar == nil {
				return nil
			}
			return s.World().RemoveLiar(liar)
		}}
	},
}

// lyingGateway sends an agent wrong numbers about clients above their limit or share. To the others it can do what a
// lying agent can (docs/guarantees.md).
var lyingGateway = Kind{
	Name: "lying-gateway",
	Does: "a process links with an agent as a gateway and sends false numbers and texts, old messages, floods and " +
		"wrong Hellos until it is killed",
	Touches: "gateway", Shortest: 3 * second, Longest: longestLie,
	Grace: check.Grace{Unfair: invented, Bursts: 4, Ledgers: true, Spares: true},
	Draw: func(r *rand.Rand, s Scene) Fault {
		g, seed := anyGateway(r, s), r.Uint64()
		var liar *world.Server
		var before float64
		return &simple{"a gateway lies to the agent of " + g.Name, g.Name, func(ctx context.Context) (err error) {
			if before, err = g.Dropped(ctx); err != nil {
				return err
			}
			liar, err = s.World().AddLyingGateway(ctx, g, s.Named(), seed)
			return err
		}, func(ctx context.Context) error {
			if liar == nil {
				return nil
			}
			s.World().RemoveLyingGateway(liar)
			after, err := g.Dropped(ctx)
			if err == nil && after <= before {
				err = fmt.Errorf("the agent of %s has counted nothing as dropped", g.Name)
			}
			return err
		}}
	},
}
