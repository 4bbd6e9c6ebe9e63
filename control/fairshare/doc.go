// Package fairshare shares capacity among tenants by weighted max-min
// fairness with guaranteed and maximum rates, exactly.
//
// # Model (Ryu, Cho and Chong, equations 1–2)
//
// A tenant has a weight w, a guarantee m and a cap p, the smaller of its
// maximum and its demand. One fair rate f is common to all tenants of a pool,
// and "guarantee" has two meanings:
//
//	MINIMUM   x = min(max(m', w·f), p)     a floor under the fair share
//	ADDITIVE  x = min(m' + w·f, p)         a base below it, as in the paper
//
// with m' = min(m, p); f is where the shares use up the capacity μ. [Fill]
// finds it in one pool, [Network] in many pools with a cost per tenant and
// pool, where each tenant is limited by its tightest pool. Correction to the
// paper's (2): a = min(m + w·max(f, 0), p).
//
// The paper's own, distributed way to f is for study and outside of control/, in
// papers/maxmin.
//
// # Stated rules for bad numbers
//
// NaN and negative weights, guarantees, caps and capacities count as 0.
// Positive weights are brought into [MinWeight, MaxWeight], an infinite
// guarantee counts as all of the capacity. A tenant of weight 0 gets its guarantee and no more. Guarantees
// beyond the capacity are scaled by μ/Σm' and flagged [Infeasible]. A pool of
// capacity 0 gives nothing. Numbers that span seven decades and more are ordinary:
// the tests draw them.
//
// # Invariants
//
//   - Σx ≤ μ(1+1e-12); = μ if the pool limits any tenant. 0 ≤ x ≤ p.
//   - x ≥ m' unless Infeasible.
//   - Scaling μ, m and p by k scales x by k; permuting tenants permutes x.
//   - More capacity never gives a tenant less (one pool only; through several
//     pools that is false).
//
// # Complexity
//
// Fill is O(n) a pass, about 6 passes from cold and 2–3 from a warm start, no
// sort, no allocation. See [Network] for several pools.
package fairshare
