// Package scenario describes the demo's load and faults as data: the clients with their rates, times, gateways
// and limits, and the faults with their times.
//
// A Scenario is written before the run, is stored inside the trace, and is all that the verdict needs besides
// the trace. It has no code and does not change during a run.
//
// # Model
//
// A run is a row of phases that follow each other without a gap. Each client offers a
// constant mean rate during a phase. Requests come as a Poisson process or evenly spaced,
// spread over the gateways in fixed proportions; or in full bursts, each through one
// gateway. Faults happen at fixed instants inside a phase.
//
// Times are seconds since the start of the load; rates are requests per second.
//
// # Invariants (checked by [Scenario.Validate])
//
//   - phases are contiguous from 0, each of positive length;
//   - every client has one rate per phase;
//   - weights, capacity and limits are positive and finite.
package scenario

import (
	"fmt"
	"math"

	"github.com/titrate/titrate/services/wording"
)

// Version is the form of Scenario that this program writes and understands.
const Version = 1

// Process is the spacing of a client's requests.
type Process string

const (
	// Poisson spaces requests by independent exponential times.
	Poisson Process = "poisson"
	// Constant spaces requests evenly, from a random offset.
	Constant Process = "constant"
	// Hop sends the limit's whole burst at once through one gateway, the next burst through the
	// next gateway, evenly spaced.
	Hop Process = "hop"
	// Rush sends the limit's whole burst at once through every gateway, one gateway after the
	// other, RushGap apart, and then pauses.
	Rush Process = "rush"
)

// RushGap is the time between two bursts of a Rush, s: less than the time in which gateways learn of each
// other's use by gossip.
const RushGap = .02

// Fault is something that is done to the system during a phase.
type Fault string

const (
	// KillCoordinator sends SIGKILL to the coordinator.
	KillCoordinator Fault = "kill_coordinator"
	// StartCoordinator starts it again.
	StartCoordinator Fault = "start_coordinator"
	// CutAgent closes an agent's gossip and its stream to the coordinator.
	CutAgent Fault = "cut_agent"
	// HealAgent undoes CutAgent.
	HealAgent Fault = "heal_agent"
)

// Scenario is one run of the demo.
type Scenario struct {
	Version  int       `json:"version"`
	Seed     uint64    `json:"seed"`
	Pool     Pool      `json:"pool"`
	Gateways []Gateway `json:"gateways"`
	Tenants  []Tenant  `json:"tenants"`
	Phases   []Phase   `json:"phases"`
	// Planned is the number of requests of the schedule. A trace with fewer
	// lines is not whole, and its verdict void.
	Planned int `json:"planned"`
}

// Pool is the upstream that the tenants share.
type Pool struct {
	Name     string  `json:"name"`
	Capacity float64 `json:"capacity"` // requests/s
	// Target is the wait that its queues aim at, s; 0: not judged.
	Target float64 `json:"target,omitempty"`
}

// Gateway is an Envoy and its part of the load.
type Gateway struct {
	Name   string  `json:"name"`
	Weight float64 `json:"weight"` // relative to the sum over the gateways
}

// Tenant is a customer with its clients.
type Tenant struct {
	Name   string  `json:"name"`
	Weight float64 `json:"weight"`
	// Guaranteed is the least that it gets if it asks for it, requests/s.
	Guaranteed float64 `json:"guaranteed,omitempty"`
	// Unshared: its share is not enforced, so that only its clients' limits bound it.
	Unshared bool     `json:"unshared,omitempty"`
	Clients  []Client `json:"clients"`
}

// Sure returns the rate that a tenant gets for a demand, however much the others ask for, requests/s.
func (t *Tenant) Sure(demand float64) float64 {
	if t.Unshared {
		return demand
	}
	return math.Min(t.Guaranteed, demand)
}

// Rate returns the rate that its clients offer together in a phase, requests/s.
func (t *Tenant) Rate(phase int) float64 {
	sum := 0.0
	for _, c := range t.Clients {
		sum += c.Rates[phase]
	}
	return sum
}

// Client is the client of a name, nil if there is none.
func (s *Scenario) Client(name string) *Client {
	for t := range s.Tenants {
		for c := range s.Tenants[t].Clients {
			if client := &s.Tenants[t].Clients[c]; client.Name == name {
				return client
			}
		}
	}
	return nil
}

// Client is one source of requests.
type Client struct {
	Name    string    `json:"name"`
	Process Process   `json:"process"`
	Rates   []float64 `json:"rates"` // mean requests/s, one per phase
	Limit   *Limit    `json:"limit,omitempty"`
}

// Limit is the client's own limit, over all gateways together.
type Limit struct {
	Rate  float64 `json:"rate"`            // requests/s
	Burst float64 `json:"burst"`           // requests
	Exact bool    `json:"exact,omitempty"` // its precision is EXACT, otherwise LOCAL
}

// Phase is a stretch of the run with constant rates.
type Phase struct {
	Name  string  `json:"name"`
	Start float64 `json:"start"`
	End   float64 `json:"end"`
	// Settle is the time at the phase's start that is left out of its mean
	// rates (never out of sliding maxima, excesses or failures).
	Settle float64 `json:"settle,omitempty"`
	Events []Event `json:"events,omitempty"`
}

// Event is a fault at an instant of the run.
type Event struct {
	At     float64 `json:"at"`
	Fault  Fault   `json:"fault"`
	Target string  `json:"target,omitempty"` // the gateway whose agent it is
}

// Duration is the length of the run in seconds.
func (s *Scenario) Duration() float64 {
	if len(s.Phases) == 0 {
		return 0
	}
	return s.Phases[len(s.Phases)-1].End
}

// PhaseAt is the index of the phase at time t; times before the first or after
// the last phase belong to that one.
func (s *Scenario) PhaseAt(t float64) int {
	for i := range s.Phases {
		if t < s.Phases[i].End {
			return i
		}
	}
	return len(s.Phases) - 1
}

// Validate returns the first mistake of the scenario, or nil.
func (s *Scenario) Validate() error {
	switch {
	case s.Version != Version:
		return fmt.Errorf("scenario: version %d, this program reads version %d", s.Version, Version)
	case !positive(s.Pool.Capacity):
		return fmt.Errorf("scenario: pool %q: capacity %v, must be above 0", s.Pool.Name, s.Pool.Capacity)
	case len(s.Phases) == 0 || len(s.Gateways) == 0 || len(s.Tenants) == 0:
		return fmt.Errorf("scenario: needs phases, gateways and tenants, has %d, %d, %d",
			len(s.Phases), len(s.Gateways), len(s.Tenants))
	}
	for _, g := range s.Gateways {
		if !positive(g.Weight) {
			return fmt.Errorf("scenario: gateway %q: weight %v, must be above 0", g.Name, g.Weight)
		}
	}
	at := 0.0
	for _, p := range s.Phases {
		if p.Start != at || !(p.End > p.Start) || p.Settle < 0 || p.Settle >= p.End-p.Start {
			return fmt.Errorf("scenario: phase %q: [%v, %v) settling %v, must start at %v and last longer "+
				"than it settles", p.Name, p.Start, p.End, p.Settle, at)
		}
		at = p.End
	}
	return s.validateTenants()
}

func (s *Scenario) validateTenants() error {
	seen := map[string]bool{}
	for _, t := range s.Tenants {
		if !positive(t.Weight) {
			return fmt.Errorf("scenario: tenant %q: weight %v, must be above 0", t.Name, t.Weight)
		}
		if !(t.Guaranteed >= 0) || math.IsInf(t.Guaranteed, 0) {
			return fmt.Errorf("scenario: tenant %q: guaranteed %v, must be 0 or more and finite", t.Name, t.Guaranteed)
		}
		for _, c := range t.Clients {
			if seen[c.Name] {
				return fmt.Errorf("scenario: client %q appears twice", c.Name)
			}
			seen[c.Name] = true
			if err := c.validate(len(s.Phases)); err != nil {
				return fmt.Errorf("scenario: tenant %q: %w", t.Name, err)
			}
		}
	}
	return nil
}

func (c *Client) validate(phases int) error {
	if len(c.Rates) != phases {
		return fmt.Errorf("client %q: %s for %s", c.Name, wording.Count(len(c.Rates), "rate"),
			wording.Count(phases, "phase"))
	}
	for _, r := range c.Rates {
		if !(r >= 0) || math.IsInf(r, 0) {
			return fmt.Errorf("client %q: rate %v, must be 0 or more and finite", c.Name, r)
		}
	}
	switch c.Process {
	case Poisson, Constant:
	case Hop, Rush:
		if c.Limit == nil {
			return fmt.Errorf("client %q: process %q needs a limit, whose burst it sends", c.Name, c.Process)
		}
	default:
		return fmt.Errorf("client %q: process %q, must be %q, %q, %q or %q", c.Name, c.Process, Poisson, Constant, Hop,
			Rush)
	}
	if c.Limit != nil && (!positive(c.Limit.Rate) || !(c.Limit.Burst >= 1)) {
		return fmt.Errorf("client %q: limit %v/s burst %v, must be above 0 and at least 1", c.Name, c.Limit.Rate,
			c.Limit.Burst)
	}
	return nil
}

func positive(x float64) bool { return x > 0 && !math.IsInf(x, 0) }
