// Package stream serves the control stream: one per agent, reports up, and configuration and leases down.
//
// # Model
//
//	agent ──Hello, Report, Ack──►  receiver goroutine ──► Loop (the rounds)
//	agent ◄─Configuration, Leases─ sender goroutine   ◄── Loop.Next, configuration
//
// A person's question goes to all agents that answer questions (Server.Ask). The caller waits
// for the answers, for a second at most. An agent that has not been sent the four questions
// before counts as not answering, so questions cost a bounded part of a stream.
//
// The sender has no queue. When something is new it sends the latest. First comes the configuration that the agent
// lacks (differences, in chunks; everything to an agent that holds none or an unknown one). Then comes what it lacks
// of the leases (package delivery). So a slow agent misses rounds, gets the latest leases when it can receive them,
// and delays no other agent.
//
// A stream begins with a configuration in any case. To an agent whose Hello names the present one by its digest it says
// nothing but revision, epoch and seed. A failover costs some 40 bytes an agent, however many tenants there are.
//
// Where coordinators share the pools, a stream begins with who they are and which pools are led
// here, and says so again when it has changed ([Server.Share]). An agent of a release that knows one
// leader only is sent to the chair, which then leads all pools.
//
// # Invariants
//
//   - Leases are sent after the configuration that they were computed from.
//   - The epochs on a stream never fall. An agent that has obeyed a higher epoch than
//     this coordinator's is refused.
//   - An agent gets no configuration of a lower revision than the one in its Hello, and no
//     leases until it has a configuration. What etcd has lost stays in force there until
//     the coordinator has a higher revision.
//   - A stream has a message at least each quietFor.
//   - A name has one stream: a newer one ends the older.
//   - When the server is closed (another coordinator leads, shutdown), every stream
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
