// Package round turns what gateways report into shares: one round of the
// coordination loop, without I/O.
//
// # Model
//
//	reports ─► inbox (latest per agent, held while it is silent)
//	        ─► demand of each flow (smoothed, noise-aware, probed when it may be hidden)
//	        ─► fill of each pool: weighted max-min or α-fair, exact
//	        ─► headroom, slack and standing guarantees ─► leases
//
// A flow is a tenant's use of a pool. Its demand is the cost that passed the
// client stage, admitted or not. [Allocator.Observe] takes reports
// at any time, [Allocator.Step] computes the shares: pure functions of their inputs
// and of the time that they are told.
//
// # Demand
//
// The mean is unbiased: a share above what a flow uses is taken from the others.
// It follows a significant change (4σ of a window, or 2.5σ twice) at once and
// noise slowly (τ = 1.5 s): see estimate. What waits is added as waiting/T.
//
// Clients that obey marks hide their demand. A flow that the tenant stage limited
// while it used its share may want more than is measured. If the pool held it, it
// counts as wanting its maximum. If its own demand held it, the answer is probed, a
// quarter more first and without bound in the end, as long as the flow takes what
// it is offered; a probe that is not used ends and the next waits twice as long:
// see probe. If every such flow were taken as unbounded at once, shares would flap: an
// open-loop tenant below its fair share queues now and then, would be given its whole
// fair share and leave it unused, and the saturated tenants would pay for it.
//
// Weakness: clients that back off below their share on every mark (AIMD) beside a
// tenant that does not are measured as wanting what they send, and get a quarter
// of their fair share or more, not all of it. Clients that wait in the queue, as
// the default policy makes them, get all: what waits is demand.
//
// # Shares
//
// The fill gives shares that add up to the capacity μ. On top of them:
//
//   - Headroom, together at most 2 % of μ, for flows that get all they ask for:
//     first against what waits, then in proportion to demand.
//   - Trim: what a full pool grants and nobody uses is granted again, out of the
//     headroom: see trim.
//   - Slack: what a pool that is not full has left goes out too, half in
//     proportion to demand and half to weight, so that nobody waits for a round.
//   - Room to swing, up to the fair share and together at most 10 % of μ beyond the
//     capacity, for flows that get all they ask for: see sway. 2 % of headroom is
//     less than the noise of a small flow's arrivals.
//   - Standing guarantees: no flow's lease is below its guarantee, used or not. A
//     guarantee that had to be asked for a round ahead would be none. What a flow
//     leaves unused of it is shared among the others meanwhile, so that a pool can
//     be over-committed by [PoolShare.Standing] until the round that notices.
//
// # Adaptive pools
//
// μ of a pool with a Range is found: each round steps capacity.Upstream with what
// all agents report of its upstream's answers, and what comes out is shared. It
// begins with the configured capacity, or with what agents echo of the leases of a
// leader before, see [Allocator.Resume].
//
// # Invariants
//
//   - The capacity of an adaptive pool stays within its Range; guarantees beyond it
//     are scaled, as beyond a configured one.
//   - Σ shares − standing ≤ 1.02·μ; = μ at least, where somebody could use it.
//   - share ≥ guarantee, unless the guarantees exceed μ: then they are scaled.
//   - share ≤ max. A flow without arrivals takes nothing from the fill.
//   - An agent that falls silent keeps its demand and membership until
//     [Params.Membership] has passed.
//   - Reports with NaN, negative or absurd numbers count as 0 or as the bound, and
//     flows of pools that are not configured do not count: see [Suspect]. One agent
//     takes at most the part of a pool for OFF flows that twice its weight is.
//
// # Complexity
//
// A step is O(flows reported + quotas), with at most three fills of each pool.
package allocation
