package fault

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/titrate/titrate/e2e/robustness/check"
	"github.com/titrate/titrate/e2e/robustness/wire"
	"github.com/titrate/titrate/e2e/robustness/world"
)

// cutOff is the grace of a side that is cut off: in addition to the others it may admit its part by weight
// (docs/guarantees.md). Each side keeps its own ledger during the cut.
var cutOff = check.Grace{Unfair: 10 * second, More: 1. / world.Gateways, Bursts: 1, Ledgers: true, Sides: true}

var partitionGateway = Kind{
	Name: "partition-gateway",
	Does: "a gateway's host is cut off from the other gateways and the coordinators; clients and upstream " +
		"reach it",
	Touches: "network", Shortest: 2 * second, Longest: 25 * second, Grace: cutOff,
	Draw: func(r *rand.Rand, s Scene) Fault {
		g := anyGateway(r, s)
		return disturb(s, "cut off "+g.Name, wire.Fault{Cut: true}, func(from, to *wire.Host, _ wire.Packet) bool {
			return from == g.Host || to == g.Host
		})
	},
}

var partitionMesh = Kind{
	Name: "partition-mesh", Does: "the gossip is cut between one gateway and the others; coordinators reach all",
	Touches: "network", Shortest: 2 * second, Longest: 25 * second, Grace: cutOff,
	Draw: func(r *rand.Rand, s Scene) Fault {
		g := anyGateway(r, s)
		return disturb(s, "cut the gossip of "+g.Name, wire.Fault{Cut: true},
			func(from, to *wire.Host, p wire.Packet) bool {
				return (from == g.Host || to == g.Host) && (p.From == world.GossipPort || p.To == world.GossipPort)
			})
	},
}

var partitionSites = Kind{
	Name: "partition-sites", Does: "with `-sites 2`: the gateways of one site and of the other are cut off from each " +
		"other; coordinators reach all",
	Touches: "network", Shortest: 5 * second, Longest: 35 * second, Grace: cutOff,
	Draw: func(_ *rand.Rand, s Scene) Fault {
		return disturb(s, "cut the sites off from each other", wire.Fault{Cut: true},
			func(from, to *wire.Host, _ wire.Packet) bool { return s.World().Abroad(from, to) })
	},
}

var partitionCoordinator = Kind{
	Name:    "partition-coordinator",
	Does:    "a coordinator, leading or not, is cut off from etcd, the other and the agents",
	Touches: "network", Shortest: 2 * second, Longest: 12 * second,
	Grace: check.Grace{Unfair: 5 * second, Freezes: true},
	Draw: func(r *rand.Rand, s Scene) Fault {
		c := one(r, s.World().Coordinators)
		return disturb(s, "cut off "+c.Name, wire.Fault{Cut: true}, func(from, to *wire.Host, _ wire.Packet) bool {
			return from == c.Host || to == c.Host
		})
	},
}

var partitionEtcd = Kind{
	Name: "partition-etcd", Does: "a member of etcd is cut off from the others and the coordinators",
	Touches: "network", Shortest: 2 * second, Longest: 12 * second, Grace: check.Grace{Unfair: 5 * second},
	Draw: func(r *rand.Rand, s Scene) Fault {
		e := one(r, s.World().Etcd)
		return disturb(s, "cut off "+e.Name, wire.Fault{Cut: true}, func(from, to *wire.Host, _ wire.Packet) bool {
			return from == e.Host || to == e.Host
		})
	},
}

// longestDelay of packets, with their jitter.
const longestDelay = 150 * time.Millisecond

var delayPackets = Kind{
	Name:    "delay-packets",
	Does:    "packets between all processes take 10 to 100 ms longer, and half as much again at random",
	Touches: "network", Shortest: 3 * second, Longest: 12 * second,
	Grace: check.Grace{Unfair: 5 * second, Delay: longestDelay, Ledgers: true},
	Draw: func(r *rand.Rand, s Scene) Fault {
		d := time.Duration(10+r.IntN(90)) * time.Millisecond
		return disturb(s, fmt.Sprintf("delay packets by %v to %v", d, d+d/2), wire.Fault{Delay: d, Jitter: d / 2}, all)
	},
}

// lossPeriods is the additional time that a gossip takes while packets are lost: up to
// five periods of 50 ms (docs/guarantees.md).
const lossPeriods = 250 * time.Millisecond

var dropPackets = Kind{
	Name: "drop-packets", Does: "5 to 30 % of the packets between all processes are lost",
	Touches: "network", Shortest: 3 * second, Longest: 12 * second,
	Grace: check.Grace{Unfair: 8 * second, Delay: lossPeriods, Ledgers: true},
	Draw: func(r *rand.Rand, s Scene) Fault {
		p := .05 + .25*r.Float64()
		return disturb(s, fmt.Sprintf("drop %.0f %% of the packets", 100*p), wire.Fault{Loss: p}, all)
	},
}

func all(_, _ *wire.Host, _ wire.Packet) bool { return true }

// disturb gives a fault to packets between hosts of the installation. Clients, the
// upstream and API calls are at another host, whose packets are spared.
func disturb(s Scene, what string, f wire.Fault, applies func(from, to *wire.Host, p wire.Packet) bool) Fault {
	w := s.World()
	undo := func() {}
	return &simple{what, "", func(context.Context) error {
		undo = w.Switch.Disturb(func(from, to *wire.Host, p wire.Packet) (wire.Fault, bool) {
			return f, from != w.Own && to != w.Own && applies(from, to, p)
		})
		return nil
	}, func(context.Context) error { undo(); return nil }}
}
