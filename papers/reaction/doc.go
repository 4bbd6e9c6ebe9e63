// Package reaction is a chemistry kit for rate controllers: species, reactions and the law of mass action, and
// what can be computed from them. It follows the method of Monti & Sifalakis (2013), sections 2 to 4: the
// network of reactions is both the algorithm and its exact model.
//
// # Model
//
// A [Kit] collects species, reactions and inputs and builds a [Network]. A
// [Vessel] is one instance of it: amounts c, rate constants k, input rates p.
// Reaction r consumes α_ir and produces β_ir molecules of species i at rate
//
//	v_r = k_r·Π_i c_i^α_ir                          law of mass action (L1)
//	dc/dt = Ψ·v(c, p),  Ψ_ir = β_ir − α_ir          (9)
//
// An input is a reaction without reactants whose rate p is set from outside. A species on both sides is a
// catalyst: it changes the rate and is not used up.
//
// # What can be asked
//
//   - [Vessel.Step], [Vessel.Advance]: the trajectory, positive and mass
//     conserving
//   - [Sampler]: the exact stochastic process (Gillespie)
//   - [Vessel.Settle]: the steady state (L2)
//   - [Network.Conserved]: the moieties (L3)
//   - [Vessel.Linearize], [Linear.ToFlux], [Transfer.Poles]: (10) to (12)
//   - [Transfer.CriticalDelay], [Coupled]: how late the news about the others
//     may come before N coupled controllers oscillate
//
// [Bucket] and [Adaptive] are the networks of this project, of the paper's
// figures 2 to 4 with the corrections that docs/laws.md lists.
//
// # What it found
//
// The paper's (13b), H = −k2·kF/((s+kF)(s+k2+k4)) at the limit, drops the s³ term of σ(s), although it grows
// with c_S like the others. The term describes how fast T follows v_ext. With the term
//
//	H = −k3·v·k2·kF/((s+kF)·((k1+k3·T)s² + (k3·v+k2·k3·T+k1(k2+k4))s + k3·v(k2+k4)))
//
// for an output v and T = v_ext·k1/(v·k3). Table 1 then becomes critical at
// 1210, 660, 124, 57.6 and 103.6 ms for 3, 4, 11, 30 and 100 nodes, not at 1219,
// 675, 160.7, 48 and 12: few nodes oscillate earlier than (13b) says, many later.
//
// # Integrator
//
// Step solves one backward Euler step c' = c + h·Ψ·v(c', p) by Newton's method
// kept in the positive orthant. Order 1: the local error is h²/2·c″, the
// global one O(h); a steady state is exact at any h. The solution keeps every
// conserved sum to rounding (some 1e-16 of the sum per step) and no amount is
// ever negative. Advance chooses h by step doubling. Where Newton's method fails,
// the reactions are advanced one by one: amounts stay positive and sums conserved, but a
// steady state is no longer exact.
//
// # Invariants
//
//   - Amounts ≥ 0 and finite; every row of Conserved keeps its value.
//   - Flows balance over a step: the change of c is Ψ times the extents.
//   - Poles are the poles of the reduced system: a conserved sum is no state, so
//     no spurious pole at 0 appears for it.
//
// # Cost
//
// n species, m reactions: Step is a few LU solutions, O(n³ + n·m) each, without
// allocation; a sampled event is O(m); eigenvalues O(n³). Meant for tens of
// species. The product uses closed forms (drc.Enzyme, drc.Controller), which are
// tested to agree with the networks here.
//
// # Bad numbers
//
// A Kit with a bad rate constant or an unknown species does not build. In a
// running Vessel a rate, input, amount or duration that is NaN or negative
// counts as 0, one above 1e15 as 1e15.
package reaction

const (
	// largest is the value to which amounts, rates and times are clamped.
	largest = 1e15
	// smallest is the least constant of a controller that does not count as 0.
	smallest = 1e-15
)

// clean maps NaN and negative numbers to 0 and caps the rest.
func clean(v float64) float64 {
	if !(v > 0) {
		return 0
	}
	return min(v, largest)
}
