// Package openloop asks at given times, whatever the answers do.
//
// # Model
//
// The schedule is fixed before the run: a [Shot] says when a request is due, to
// whom it goes and which request it is. A shot is sent at its time on a free
// connection of its target; if none is free it waits in line, and its latency
// counts from when it was due, not from when it could be sent. So a server that
// stalls is charged for everything that should have been asked meanwhile: no
// coordinated omission (wrk2's correction, by construction).
//
// # How it keeps time
//
// One thread, no timers of the Go runtime (which are rounded to a millisecond
// when nothing else runs): a loop that sends what is due, then waits in
// epoll_pwait2 for answers until the next shot, in nanoseconds, with the
// thread's timer slack set to the least. Requests are written as they lie in
// memory; of an answer only its status, its length and one header are read.
// Nothing is allocated while it runs.
//
// # Invariants
//
//   - Exactly one result per shot, in the order of the schedule.
//   - Sent − Due is the generator's own lateness and the wait for a connection;
//     Done − Due is the latency.
//   - A connection that breaks, or cannot be opened, fails what was on it and is
//     opened again for its next shot.
//
// # Requirements
//
// Linux 5.11 (epoll_pwait2). HTTP/1.1 answers with content-length, headers in
// lower case, no pipelining.
package openloop
