// Package world is Titrate on virtual time: the code that ships, without its
// sockets, goroutines and clocks.
//
// # Model
//
//	client ─► gateway    limiter.Engine, ticked as the filter does
//	            │ ▲      claims each 50 ms, reports each 250 ms
//	            ▼ │
//	          agent      tally, orders, reports; mesh/pace says when it speaks
//	            │ ▲      ◄─ packets: delay, jitter, loss, partitions ─► other agents
//	            ▼ │
//	       coordinator   term.Loop and round.Round; leases, epochs, settling
//
// What is modelled, not run: the network, memberlist (who is thought alive, by its
// usual times), gRPC (a stream that is cut comes back within a second), the Unix
// socket (no delay), etcd and the election (one leader; a new one has the next
// epoch). Configuration is known to agents from the start, as from their snapshot
// on disk; changes come from the coordinator.
//
// # What happens
//
//   - Join: a new agent with a new gateway, met by the others in a fifth of a second.
//   - Leave: what waits is released, the claims are withdrawn at once, the agent
//     says so for a while and ends.
//   - Crash: gateway and agent are gone in silence; what waits is lost. The others
//     hold the last claim until ForgetAfter.
//   - Restart: the gateway's process is replaced at once, its agent lives on; what
//     waits is lost, the new process begins with what the agent tells it.
//   - Partition: nothing passes between groups; the coordinator may be in one.
//   - Coordinator lost: no rounds; shares freeze. Back: a new term with nothing
//     known, which agents find within a second.
//
// # Invariants
//
//   - The same calls give the same answers: all randomness is one generator, seeded
//     by the scenario, and all that is due at one time is done in the order in which
//     it was planned.
//   - A packet's state is lost or delivered whole, also where it would take several
//     datagrams.
//
// Cost: per request that of the engine; per period and pair of agents O(contended
// keys).
package world
