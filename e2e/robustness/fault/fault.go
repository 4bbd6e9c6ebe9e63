// Package fault has the faults of the installation: kinds of faults, each with its stated grace, and a schedule
// of faults that is drawn from a seed.
//
// A kind draws one fault: it picks a target and returns the actions. Faults of kinds that touch the same part
// of the installation follow each other; others may overlap.
package fault

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/titrate/titrate/e2e/robustness/check"
	"github.com/titrate/titrate/e2e/robustness/world"
)

// Kind of faults.
type Kind struct {
	Name string
	Does string // for people
	// Touches is the part of the installation that it breaks: gateway, coordinator,
	// etcd, network, configuration, or all, which overlaps with nothing.
	Touches string
	// Shortest and Longest are the time between Apply and Undo.
	Shortest, Longest time.Duration
	Grace             check.Grace
	// Draw picks a target and makes a fault.
	Draw func(r *rand.Rand, s Scene) Fault
}

// Scene is the target of faults.
type Scene interface {
	World() *world.World
	// Configure applies YAML documents; an invalid one is refused with an error.
	Configure(ctx context.Context, documents string) error
	// Delete deletes a limit.
	Delete(ctx context.Context, limit string) error
	// Remember notes what is acknowledged now; forget drops what was acknowledged
	// since, for etcd goes back to what it was.
	Remember() (forget func())
	// Named are the clients, tenant/client, that a lying gateway names.
	Named() []string
	// Alone does something while no change is under way.
	Alone(do func() error) error
}

// OfSites are more kinds, for gateways of several sites.
var OfSites = []Kind{partitionSites}

// Fault is one of a kind, with its target.
type Fault interface {
	// What it does and to whom.
	What() string
	// Gateway that it is done to, check.AllGateways if to all, "" if to none.
	Gateway() string
	// Apply begins it, Undo ends it and returns when the target serves again.
	Apply(ctx context.Context) error
	Undo(ctx context.Context) error
}

// Kinds are all kinds of faults, by name.
var Kinds = []Kind{
	killEnvoy, killAgent, killCoordinator, killGateway, coldGateways, killEtcd,
	freezeEnvoy, freezeAgent, freezeCoordinator, freezeEtcd,
	partitionGateway, partitionMesh, partitionCoordinator, partitionEtcd, delayPackets, dropPackets,
	stepClock, lyingAgent, lyingGateway,
	restartEnvoy, hotRestart, rollAgents, rollCoordinators, addGateway, replaceGateway,
	loseQuorum, compactEtcd, restoreEtcd,
	invalidConfiguration, validConfiguration,
}

// simple is a fault made of functions.
type simple struct {
	what, gateway string
	apply, undo   func(ctx context.Context) error
}

func (s *simple) What() string                    { return s.what }
func (s *simple) Gateway() string                 { return s.gateway }
func (s *simple) Apply(ctx context.Context) error { return s.apply(ctx) }
func (s *simple) Undo(ctx context.Context) error  { return s.undo(ctx) }

// anyGateway picks one.
func anyGateway(r *rand.Rand, s Scene) *world.Gateway {
	all := s.World().Gateways()
	return all[r.IntN(len(all))]
}

// one picks one of some.
func one[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }
