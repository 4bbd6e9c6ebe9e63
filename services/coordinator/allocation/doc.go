// Package allocation turns what gateways report into shares of pools, without I/O.
//
//	reports ─► latest of each agent ─► demand of each flow ─► shares of each pool ─► leases
//
// A flow is a tenant's use of a pool. [Allocator.Observe] takes reports at any time. Each round, [Allocator.Step]
// computes the shares. Both are pure functions of their inputs, the time included.
//
// # The law
//
// For one pool, once a round. Rates are in cost units per second.
//
//	μ          capacity of the pool
//	C          capacity for limited flows: (1 + κ)·(μ less what OFF flows are served)
//	κ          loss: dκ/dt = (1 − admitted/μ)/10 s while the pool is full, 0 ≤ κ ≤ 0.04;
//	           dκ/dt = −κ/10 s while it is not, or leaves more than 10 % unused
//	d, q       measured demand of a flow; its queue, divided by Params.Drain (1 s)
//	σ          standard deviation of its arrivals in one second: √(D·d), D the dispersion
//	w, g, M    its weight, guarantee and maximum
//	x, y, z    its share after the steps 1, 2 and 3; z is leased
//	f          fair rate: the fair share F of a flow is w·f by max-min sharing, at most M
//	ρ          Params.Margin, 0.2
//
// Three steps:
//
//	(1) fill     x = min(max(g, w·f), d, M)      with the f for which Σx = C; f = ∞ if Σ min(d, M) ≤ C
//	(2) margin   y = x + e for flows with x = d  0 ≤ e ≤ F − x,  Σe ≤ 7/8·B
//	             B = max(C − Σx, min(ρ·C, ρ/4·C + 3·√Σσ²)), the last sum over flows with x = d
//	(3) floor    z = max(y, s·g)                 s = min(1, μ/Σg) over all quotas of the pool
//
// The loss is what gateways leave unused of a full pool, because they split a small share
// or wait for whole requests. It is granted again: in the mean the pool admits μ.
//
// The fill divides the capacity by what is known: package fairshare, or package pricing
// for a pool with sharing PROPORTIONAL; g + w·f where guarantees are ADDITIVE. It comes
// first, so that the other steps take nothing from anybody.
//
// The margin is for what is not known. That is the noise of arrivals, queues, demand that rises before the next round,
// and demand that clients hide because they slow down when they are marked or refused. A flow that is held by its own
// demand gets e: first what serves its queue, then a part in proportion to σ/Σσ + w/Σw, up to its fair share. What it
// uses of e is measured, and is demand in the next round. A pool that is not full has its unused capacity as margin. A
// full pool has as much beyond its capacity as the noise of those flows needs: more, in proportion, where they are
// small. B/8, but at most f, is set aside for flows without a lease, which have it as their share.
//
// The floor makes a guarantee hold before it is asked for, used or not.
//
// Unused capacity, U = max(μ less what OFF flows are served − Σx, 0), is sent with the shares. All
// flows together may use as much beyond their shares until that is measured: package limiter,
// unused.go. So a tenant that begins to send has the room of the pool before it has a share.
//
// # Invariants
//
//	Σy ≤ (1 + ρ)·C − B/8    and    Σz ≤ Σy + Σ max(s·g − y, 0) ≤ (1 + ρ)·C + μ
//	s·g ≤ z ≤ M             and    x = d, or Σx = C, or x = M
//
// What is leased beyond μ is [PoolShare.Overcommit]. That much is leased all the time and may be used beyond the
// capacity until the use is measured. That is in the next round if it is significant (4σ of a window), in the second at
// 2.5σ, with a time constant of Params.Smoothing (1.5 s) below that. Once demands rest, Σ min(z, demand) ≤ C, and κ
// sinks until what is admitted is μ. Exceptions: k flows without a lease that begin to send in one round may use (k −
// 1)·B/8 more, for that round. While shares are frozen (no etcd, no coordinator) nothing is measured, and the margin
// can be used for as long. Where the guarantees that are asked for exceed C ([PoolShare.Infeasible]), the pool admits
// up to s·Σg ≤ μ more. TestLaw holds all of this for random pools.
//
// The shares of one pool do not depend on another pool. An adaptive pool's μ stays within its Range: each round steps
// capacity.Upstream with what agents report of the upstream's answers. It begins with the configured capacity, or with
// the estimate of the leader before, see [Allocator.Resume].
//
// # Demand
//
// Demand is the cost that passed the client stage, admitted or not. Its mean has no bias: a share above what a flow
// uses is taken from the others. It follows a significant change at once and noise slowly, see estimate. An unreachable
// agent keeps its gateways and its mean demand over Params.Smoothing until Params.Membership has passed. A flow without
// arrivals for Params.Idle leaves the fill.
//
// Clients that slow down when they are marked get less than their fair share when other clients do not slow down.
// What they offer sinks before the margin has risen to it. They get 0.9 of their fair share next to one tenant that
// does not slow down, as simulated. Clients that wait in the queue, as the default policy makes them, get all of it.
//
// # Bounds on reports
//
// Reports with NaN, negative or impossible numbers count as 0 or as the bound, flows of pools that are not configured
// do not count: see [Suspect]. One agent takes at most the part of a pool for OFF flows that twice its weight is.
//
// # Complexity
//
// A step is O(flows reported + quotas), with two fills of each pool.
package allocation
