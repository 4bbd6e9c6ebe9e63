// Package stream is the agent's end of the control stream: it keeps one stream open to the coordinator that leads.
//
// # Model
//
// Coordinators are tried in turn. A coordinator that does not lead says who does, and that one is tried next.
// Otherwise, and after any failure, the pause doubles from 50 ms to 1 s, jittered so that a fleet does not return in
// step. A stream that brings nothing for Silence is dead: leases are renewed each round.
//
//	agent                         coordinator
//	  Hello            ─────────►
//	  Report, 250 ms   ─────────►
//	                   ◄─────────   Configuration, then changes
//	  Ack              ─────────►
//	                   ◄─────────   Leases, each round
//
// Where several coordinators share the pools, the first message of a stream names all of them, and a [Group] opens a
// stream to each. The streams are equal: each has its own Hello, reports and leases. If one ends, its address is tried
// until the others name the coordinators without it. Only when no stream is left the addresses of the settings are
// tried again, as above. A coordinator that names none leads all pools: a group with it is one stream.
//
// What the messages mean is the [Agent]'s business. While there is no stream, nothing happens here that the agent would
// have to know: what it last knew stays in force.
package stream
