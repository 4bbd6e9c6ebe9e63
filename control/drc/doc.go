// Package drc (distributed rate control) has the token buckets of a rate limit that
// several replicas enforce together: how much may this replica admit now? The
// chemistry follows Monti & Sifalakis (2013), corrected where the paper
// contradicts itself: v_max is E0·k2·k4/(k2+k4). Their published controller is
// outside of control/, in papers/chemical.
//
// # Model
//
// A rate limit is an enzyme. Its molecules are tokens and exist in three forms:
//
//	E   free: a token that a request may bind at once
//	ES  bound: a request is being served
//	ET  spent: recharging
//
//	r1: S + E → ES   (k1)   a queued request S binds a token: it is released
//	r2: ES → ET      (k2)
//	r4: ET → E       (k4)   recharge: the rate of the limit lives here
//
// E + ES + ET = B, the bucket, is a conserved moiety, so the release rate can
// never exceed v = B·k2·k4/(k2+k4) for long, whatever arrives.
//
// # What is here
//
//   - Enzyme: the fixed-rate bucket, one closed-form backward Euler step.
//   - Controller: the enzyme whose rate is this replica's share of a limit
//     that N replicas enforce together. Replicas announce claims; three sums
//     over the others (Sums) are all that one needs to receive. Its enzyme recharges
//     at the rate in force until it is nearly full, and not in proportion to what
//     is spent.
//   - Ledger: the form for small limits and for bursts. Every replica keeps a
//     shadow of the one global bucket; the free pool is escrowed by announced
//     share; close to empty a one-token enzyme paces.
//   - GCRA: the Ledger of a key that only one replica uses, as one integer.
//
// # Invariants
//
// E+ES+ET = B within 1e-12·B. Every state is ≥ 0. Arrivals are released + backlog +
// dropped. The rate in force never exceeds min(v_max, fair share). It rises above the
// announced claims only through the unclaimed rest, the factor 1.5 with three standard
// deviations of a measured demand, or the guaranteed share. What is released in t seconds
// at a rate in force u never exceeds B + (1+ε)·u·t. A change of the limit moves no mass
// unless the bucket itself changes. v/v_max is invariant under volume scaling.
// Ledger.Advance is additive. A Ledger of one replica is exactly a GCRA.
//
// The announced rate is a rate that every other replica has surely received: the least claim
// that was published within the last one to two lags. It may be more if the lag δ is at most
// 0.5 s and a replica gets all it wants: the mean claim of δ seconds that ended one to two
// lags ago. So such a replica, whose claims have fallen from c₁ to c₂, may count up to c₁
// for three lags more. The others already use what it no longer claims. The rates in force
// of all may exceed the rates that the least claims allow by 1.5·(c₁ − c₂) for each such
// replica. The cost of it is at most 1.5·(c₁ − c₂)·3δ, once. A rise of a claim is counted no
// sooner than all have received it.
//
// # Cost
//
// Every step is O(1), allocates nothing and reads no clock: time, arrivals and
// randomness come in as arguments. All types are values without pointers, so
// they can live inline in large tables.
//
// # Bad numbers
//
// NaN, infinite and negative inputs never enter a state. A NaN or negative duration, arrival,
// cost or rate, or one below 1e-15, counts as 0. A weight that is not positive counts as 1; +Inf
// and anything above 1e15 count as 1e15 (1e9 s for times). Time that runs backwards counts as no
// time.
package drc

const (
	maxQuantity = 1e15  // rates, costs and counts are clamped to this
	minQuantity = 1e-15 // and count as 0 below this
	maxSeconds  = 1e9   // durations are clamped to this
)

// clean maps v into [0, hi]; NaN, negative and vanishing values become 0.
func clean(v, hi float64) float64 {
	if !(v >= minQuantity) {
		return 0
	}
	return min(v, hi)
}

// cleanWeight returns v when it is a usable weight and 1 otherwise.
func cleanWeight(v float64) float64 {
	if !(v >= minQuantity) {
		return 1
	}
	return min(v, maxQuantity)
}

// clamp limits v to [lo, hi]; a NaN becomes lo.
func clamp(v, lo, hi float64) float64 {
	if !(v > lo) {
		return lo
	}
	return min(v, hi)
}
