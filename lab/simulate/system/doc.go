// Package system is the interface of a rate limiting system that `titrate-lab simulate` can play on virtual time:
// Titrate itself (package world) and the systems that it is compared with.
//
// # Model
//
// A system begins at −Lead, a quiet time in which its gateways find each other. From then on it is called in
// order of time:
//
//	Offer     a request arrives at a gateway that is up
//	Happen    an event of the scenario
//	Advance   nothing more happens before that time
//
// It calls Stage.Answer with the outcome of each request, once, at once or later. A system does its own work
// (periods, timers, packets on their way) inside these calls, as of the time at which the work was due.
//
// # Invariants of a system
//
//   - It has no clock, goroutine or randomness: the same calls give the
//     same answers.
//   - Answers come in order of time, not before the request and not after the time
//     that the call was for.
//   - A request gets at most one answer. One without any still waits.
//   - A client that waits for its Patience gives up: Abandoned. What waits at a
//     gateway that crashes or restarts is Lost.
//   - After Leave and Crash nothing is offered to the gateway until it joins again.
package system
