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
//   - Demand of a tenant: what it offered, less what an ideal central token bucket (the client's
//     rate and burst, fed with all that it sent) turns away from limited clients. What these
//     clients owe when the measured time begins is subtracted, too. The latter alone depends on
//     what the system did.
//   - Fair share: the weighted max-min water-fill of the pool's capacity over
//     the demands, exact (control/fairshare).
//   - Entitlement: min(demand, fair share). A tenant is saturated when the
//     pool, not its demand, holds its share.
//   - Worst excess of a limited client: the maximum over all windows [u, v] of admitted(u,
//     v) − rate·(v − u) − burst, in requests. A value of 0 or less is within the contract
//     of a single token bucket.
//   - Wrongful 429: a 429 to a client that the ideal bucket would have admitted, while the client
//     was below its limit. A client is below it if that bucket turns nothing away for (burst +
//     slack)/rate before and after, the time in which it fills and any permitted excess is
//     repaid. Two ideal buckets must say so: one takes requests at the time of sending, the other
//     takes admitted requests at the time the upstream received them. A request that a busy
//     machine delivered late cannot be charged before.
//   - Path: from a request's start until the upstream received it, of the requests that no client
//     limit and no queue held. It shows how late Envoys and agents run.
//   - Failed: every end but 2xx and 429.
//
// # While an agent is cut off
//
// From the cut until the two sides are connected again, at most 2 s after its end, each side may admit rate·t +
// burst. So the excess may be burst + rate·t more. Afterwards:
//
//   - what was admitted too much is repaid. The excess that is left 2 s after the end of the cut falls
//     at the limit's rate, until it is within the slack (client_repaid). A system that forgets the
//     debt keeps the excess, though its mean from then on is the rate;
//   - the mean is within its bound from then on (client_mean).
//
// # Void
//
// A run proves nothing, and is neither passed nor failed, when its load was not
// the scenario's (starts dropped, starts late, lines missing), or when the path took too long.
//
// # Complexity
//
// O(n log n) for n records, by sorting; everything after that is one pass.
package verdict
