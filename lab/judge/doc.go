// Package judge has the definitions by which Titrate is judged. The demo's verdict, the simulator, the
// benchmarks and the robustness runs share them. It has no clock and no I/O; it does not know where the figures
// come from.
//
// # What an exact system would do
//
//   - [Bucket] is one token bucket for all gateways. A 429 is wrongful if this bucket
//     admits the request and its client is below its limit. There are three ways to know
//     that. The client asks for less by construction (the benchmarks). Or all that it
//     wanted so far fits ([Bucket.Count], the simulator). Or the bucket turns none of its
//     requests away for some time before and after ([Central], the demo). There requests
//     arrive in another order than they were sent in, and both orders must say so.
//   - [Pool.Entitle] is what each tenant should get of a pool: the weighted max-min fair
//     share of its demand within limits and quota.
//
// # What was seen
//
//   - [Level] follows the excess of what was admitted over rate·t + burst, in all windows.
//   - [Window] sums what was admitted in a window that slides.
//   - [Quantile] is the nearest-rank quantile.
//
// # What is allowed
//
//   - [Limit.Slack] is the bound on a limit's excess, [Limit.ExactSlack] that of an EXACT limit, as
//     docs/guarantees.md states them.
//   - [Pool.Mean], [Pool.Saved], [Pool.Swing] and [Pool.ColdStart] make the bound of a pool.
//
// Times are since the start of a run and must not run back. Amounts are cost units (a
// request is one unless it says otherwise), rates cost units per second.
package judge
