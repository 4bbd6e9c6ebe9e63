package judge

import "time"

// round is the coordinator's period.
const round = 250 * time.Millisecond

// Mean bounds the long-run mean that a pool admits, cost units/s: 2 % above its capacity.
func (p Pool) Mean() float64 { return 1.02 * p.Capacity }

// Saved returns the most that so many flows (tenants × gateways) may have saved up, cost units. It is the
// bucket of each flow at each gateway, max(1, min(10, .25·share/N)), or less if requests may wait.
func (p Pool) Saved(flows int) float64 { return min(.25*p.Capacity, 10*float64(flows)) }

// Frozen returns the rate that a pool may admit beyond Mean while there is no leader, cost units/s. Shares are
// granted again for the part that was measured as lost at the gateways, up to 4 % (the loss κ of
// coordinator/allocation). While shares are frozen, no process notices that this part is no longer lost.
func (p Pool) Frozen() float64 { return .04 * p.Capacity }

// Swing returns the cost that tenants may use beyond the capacity while capacity moves from one tenant to
// another, cost units. It is a tenth of the capacity for the two rounds in which the others still keep their
// shares.
func (p Pool) Swing() float64 { return .1 * p.Capacity * 2 * round.Seconds() }

// ColdStart returns the additional cost if all gateways begin within one gossip lag, each on the floor φ = 1/4
// of its part of the share, cost units. It is the bound for such a join in the grid of docs/grids.md.
func (p Pool) ColdStart() float64 { return .12 * p.Capacity }
