// Package world is Titrate on virtual time: the production code, without its
// sockets, goroutines and clocks.
//
// # Model
//
//	client ─► gateway    limiter.Engine, ticked as the filter does
//	            │ ▲      each 50 ms claims, names and what clients have spent; reports each
//	            ▼ │      250 ms, heartbeats each second
//	          agent      core.Core, all of it: the events and effects of the process
//	            │ ▲      ◄─ packets: delay, jitter, loss, partitions ─► other agents
//	            ▼ │
//	       coordinator   leadership.Loop; leases, epochs, settling
//
// Modelled, not run, are the network, memberlist (which agents it reports as alive, by its
// usual times), and gRPC (a stream that is cut comes back within a second). So are the Unix
// socket (a delay), the scheduler (processes of gateways and agents run late). So are etcd
// and the election (one leader; a new one has the next epoch). Agents know the
// configuration from the start, as from their snapshot on disk; changes come from the
// coordinator.
//
// # What happens
//
//   - Join: a new agent with a new gateway; the others receive its claims after a fifth of a second.
//   - Leave: waiting requests are released, the claims are withdrawn at once, the agent
//     gossips the withdrawal for a while and leaves.
//   - Crash: gateway and agent are gone; waiting requests are lost. The others count the
//     last claim until ForgetAfter.
//   - Restart: the gateway's process is replaced at once, its agent goes on; waiting
//     requests are lost. The new process gets from the agent what clients have spent.
//   - Agent paused: its messages wait, packets as far as the kernel has room; its gateway gives
//     the link up. Resumed: it takes all messages at once, and its gateway links again.
//   - Partition: nothing passes between groups; the coordinator may be in one.
//   - Coordinator lost: no rounds; shares freeze. Back: a new leadership without any state; the
//     agents find it within a second and report what adaptive pools were found to serve.
//
// # Invariants
//
//   - The same calls give the same answers. All randomness is one generator, seeded by the
//     scenario, and all that is due at one time is done in the order in which it was
//     planned.
//   - A packet is lost or delivered whole, as a datagram is.
//
// Cost: per request that of the engine; per period that of the claims and sums that change.
package world
