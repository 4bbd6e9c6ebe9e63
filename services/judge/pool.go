package judge

import "time"

// round is the coordinator's period.
const round = 250 * time.Millisecond

// Mean bounds the long-run mean that a pool admits, cost units/s: 2 % above its capacity.
func (p Pool) Mean() float64 { return 1.02 * p.Capacity }

// Saved is what so many flows (tenants × gateways) may have saved up, cost units: the
// bucket of each at each gateway, max(1, min(10, .25·share/N)), or less where requests
// may wait.
func (p Pool) Saved(flows int) float64 { return min(.25*p.Capacity, 10*float64(flows)) }

// Frozen is what a pool may admit beyond Mean while nobody leads, cost units/s: shares of
// which some was found to be lost at the gateways are granted again, up to 4 % (the loss κ
// of coordinator/allocation), and while shares are frozen nobody sees that it no longer is.
func (p Pool) Frozen() float64 { return .04 * p.Capacity }

// Swing is what tenants may use beyond the capacity while it moves from one to another,
// cost units: a tenth of it for the two rounds in which the others still keep their
// shares.
func (p Pool) Swing() float64 { return .1 * p.Capacity * 2 * round.Seconds() }

// ColdStart is what is added where all gateways begin within one gossip lag, each on the
// floor φ = 1/4 of its part of the share, cost units: the bound for such a join in the
// grid of docs/measurements.md.
func (p Pool) ColdStart() float64 { return .12 * p.Capacity }
