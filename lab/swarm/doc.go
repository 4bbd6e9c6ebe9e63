// Package swarm runs N gateways that hold one tenant's share of one pool together, on
// virtual time. It has drc.Controller and pacing.Pacer as the limiter's tenant stage uses
// them, and nothing else. So a thousand gateways at a million requests per second cost a
// second of real time per minute.
//
// # Model
//
//	every h     each gateway gets its Poisson arrivals, lets through what its credit
//	            covers, queues or refuses the rest, steps its controller and pacer
//	every P     each publishes its claim, at its own phase; all gateways receive it τ later
//
// Credit is the free enzyme plus the pacer's remaining credit. The lag is δ = max(2P, τ+P), at most 2 s.
// Package limiter has the bucket and decides which requests may wait, and for how long (limiter.Bucket,
// limiter.Sole). Each gateway has one client, which does not slow down when marked. Left out: several clients,
// the AQM's marks and early refusals, loss of claims (lab/simulate has them).
//
// # Bounds
//
// A target may be missed because no law could meet it at such a small rate. Result.Missed has, for each missed
// figure, the possible figure:
//
//	use        of one bucket for the whole limit, one waiting request, and twice the demand
//	over       one request at each replica that joins, as a part of the window
//	settling   18/μ seconds: to distinguish a doubled demand of μ requests/s from chance
//	refused    by one bucket for the same demand whose requests may wait for a second: at 80 %
//	           load about 0.2165·e^(−0.431·(b + r·W)), b its depth, W the longest wait
//
// # Invariants
//
//   - The same Params and seed give the same run.
//   - Offered = passed + refused + waiting, per gateway.
//
// A step of N gateways is O(N), plus the arrivals that do not fit.
package swarm
