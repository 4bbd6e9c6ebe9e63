// Package measure turns the answers of a system into the figures of a result.
//
// # Model
//
// The reference is one central, exact and instant system with the same requests. For a limited key it is one
// token bucket, whose decisions are part of the traffic. For a flow (a tenant's use of a pool) it is the
// weighted max-min share of its clients' demand within their limits: its entitlement.
//
// The run is cut into phases, at events and at bends of demand; a phase is at least a second long. The
// scenario's demand is constant in a phase, so entitlements are filled from the mean demand of the phase.
//
// # Figures
//
//   - Worst excess over rate·t + burst, over all windows: the highest level, beyond
//     burst, of a bucket that drains with the rate and takes what was admitted.
//   - Highest second: the most that was admitted in any second, wherever it begins.
//   - Wrongful: rejected though the central bucket admits it and all that the client
//     wanted stays within rate and burst (see traffic.Request.Within).
//   - Deviation: |served/fair − 1| of a flow that wants more than its share, over
//     a phase without its first seconds (settle). Counted where at least 50 cost
//     units are expected: with fewer, one request is more than the 5 % looked for.
//   - Settling: from an event to the middle of the last window of a second, before the next
//     event, in which a pool, a saturated flow or a limit is off. Off is more than 5 % and
//     two requests, and for a pool three standard deviations of what is random in it. A
//     figure is up to half a second too large, never too small.
//
// Amounts are cost units, rates cost units per second, unless a name says requests.
//
// O(1) per request and answer; O(flows · phases) at the end; memory O(flows · bins),
// with at most 20,000 bins, of 50 ms at least.
package measure
