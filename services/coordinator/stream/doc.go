// Package stream serves the control stream: one per agent, reports up, and
// configuration and leases down.
//
// # Model
//
//	agent ──Hello, Report, Ack──►  receiver goroutine ──► Loop (the rounds)
//	agent ◄─Configuration, Leases─ sender goroutine   ◄── latest leases, configuration
//
// The sender has no queue. It is told that something is new, and then sends what
// is newest: first the configuration that the agent lacks (everything to begin
// with, differences later, in chunks), then the leases. So an agent that is slow
// misses rounds, gets the latest when it can, and delays nobody.
//
// # Invariants
//
//   - Leases are sent after the configuration that they were computed from.
//   - The epochs sent on a stream never fall; an agent that has obeyed a higher
//     one than this coordinator's is turned away.
//   - An agent is sent no configuration of a lower revision than the one that it came
//     with, and no leases until it has one: what etcd lost stays in force there until
//     the coordinator has a higher revision.
//   - A stream is never silent for longer than quietFor.
//   - A name has one stream: a newer one ends the older.
//   - When the gate closes (another coordinator leads, shutdown), every stream
//     ends with the status that says why.
//
// # Errors
//
//	FAILED_PRECONDITION  NOT_LEADER, with the leader's address: see NotLeader
//	ABORTED              STALE_EPOCH, or another stream has taken the name
//	RESOURCE_EXHAUSTED   too many streams are open: see Limits
//	INVALID_ARGUMENT     the first message is not a Hello with a name
//	UNAVAILABLE          this coordinator is stopping
package stream
