// Package load is the demo's open-loop load generator.
//
// # Model
//
// The scenario and its seed fix the whole schedule before the run ([NewPlan]): the client, time and gateway of
// each request. The generator then starts each request at its time and never waits for an answer. So a slow
// system gets the whole load (no coordinated omission); latency counts from the intended time. Requests in
// flight are bounded; a start beyond the bound is dropped and recorded as such.
//
// A generator that falls behind its own schedule proves nothing: each record
// carries its lateness and the verdict declares the run void beyond a bound.
//
// # Invariants
//
//   - equal scenarios give equal plans;
//   - a plan is sorted by time, all times lie within their phase;
//   - each client's requests are spread over the gateways by smooth weighted round robin.
//     After any n requests a gateway has n·w/W of them, ±1 per gateway; those of a client
//     that asks in full bursts, a burst to each gateway in turn;
//   - a run returns exactly one record per planned request.
//
// # Complexity
//
// One goroutine per request in flight; one HTTP/1.1 connection each, kept alive.
package load
