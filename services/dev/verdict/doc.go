// Package verdict judges a run of the demo from its trace alone: a pure
// function of the scenario and the records, so that anyone can recompute it.
//
// # What is measured
//
// A request counts as offered at the time the schedule wanted it, and as
// admitted at the time the upstream received it. Rates are means over a phase
// without its settling time; sliding maxima, excesses, wrongful 429s and
// failures leave nothing out.
//
//   - Demand of a tenant: what it offered, less what an ideal central token
//     bucket (the client's rate and burst, fed with all that it sent) turns
//     away from limited clients. It does not depend on what the system did.
//   - Fair share: the weighted max-min water-fill of the pool's capacity over
//     the demands, exact (control/fairshare).
//   - Entitlement: min(demand, fair share). A tenant is saturated when the
//     pool, not its demand, holds its share.
//   - Worst excess of a limited client: the maximum over all windows [u, v] of
//     admitted(u, v) − rate·(v − u) − burst, in requests; 0 or less is within
//     the contract of a single token bucket.
//   - Wrongful 429: a 429 to a client that the ideal bucket would have
//     admitted, while the client was below its limit, that is, when that bucket
//     turns nothing away for (burst + slack)/rate before and after: the time in
//     which it fills, and any permitted excess is repaid.
//   - Failed: every end but 2xx and 429.
//
// # Void
//
// A run proves nothing, and is neither passed nor failed, when its load was not
// the scenario's: starts dropped, starts late, or lines missing.
//
// # Complexity
//
// O(n log n) for n records, by sorting; everything after that is one pass.
package verdict
