// Package openloop sends requests at given times, independent of the answers.
//
// # Model
//
// The schedule is fixed before the run: a [Shot] has the due time of a request, its target and the request. A
// shot is sent at its time on a free connection of its target. If none is free it waits, and its latency counts
// from its due time, not from the time of sending. So the latency of a server that stalls includes all requests
// that were due during the stall: no coordinated omission (wrk2's correction, by construction).
//
// # How it keeps time
//
// One thread, no timers of the Go runtime (which are rounded to a millisecond when nothing else runs). A loop
// sends due requests, then waits in epoll_pwait2 for answers until the next shot, in nanoseconds, with the
// thread's timer slack set to the least. Requests are written from memory without changes; only the status, the
// length and one header of an answer are read. Nothing is allocated while it runs.
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
