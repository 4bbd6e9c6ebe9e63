// Package system is what `titrate simulate` asks of a rate limiting system so that
// it can be played on virtual time: Titrate itself (package world) and the ones it
// is compared with.
//
// # Model
//
// A system begins at −Lead, a quiet time in which its gateways meet. From then on
// it is told, in order of time, what reaches it and what happens to it:
//
//	Offer     a request arrives at a gateway that is up
//	Happen    an event of the scenario
//	Advance   nothing more happens before that time
//
// and tells by Stage.Answer what became of each request, once, at once or later.
// Whatever a system does by itself (periods, timers, packets on their way) it does
// inside these calls, as of the time at which it was due.
//
// # Invariants of a system
//
//   - It has no clock, goroutine or randomness of its own: the same calls give the
//     same answers.
//   - Answers come in order of time, not before the request and not after the time
//     that the call was for.
//   - A request gets at most one answer. One without any still waits.
//   - A client that waits for its Patience gives up: Abandoned. What waits at a
//     gateway that crashes or restarts is Lost.
//   - After Leave and Crash nothing is offered to the gateway until it joins anew.
package system
