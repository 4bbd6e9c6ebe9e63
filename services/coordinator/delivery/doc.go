// Package delivery decides which leases each agent is sent: the changed leases that the agent needs. It does no I/O and
// reads no clock.
//
// # Model
//
//	allocation.Outcome ──Publish──► Publisher ──Next──► messages of one agent
//	                                            ▲
//	                                        Receiver: what this agent has been sent
//
// A [Publisher] holds what all agents are sent of the last round. A lease follows its flow's
// share in steps. It is published when the share has moved by [Step] since it was published last,
// and after [Refresh] in any case if it has moved at all. When that would be more than [Budget]
// leases in a round, the step is doubled until it is not, and the rest waits.
//
// An agent gets the leases of the flows in its latest reports; a flow that it begins to use gets its lease at once.
// Where flows × agents is at most [Everywhere], each agent gets each lease at each change. A flow that comes to
// another gateway then has its share there already, and no share is up to a step behind.
//
// # Messages
//
// A message has two parts: the agent's own leases, and what is the same for all agents that
// were sent the same before (pools, members, epoch, expiry). The second part is made and
// encoded once. Own leases beyond [ChunkBytes] are cut into several messages.
//
// # Invariants
//
//   - An agent that has received all messages holds, of each flow that it uses, the
//     publisher's lease, and no lease of a flow that has none.
//   - The messages of one Receiver follow each other: each names the one before as its base,
//     or is complete. Every epoch begins with a complete one.
//   - An agent that has received a message is sent something again within [Renew] of the
//     next round, changed or not.
//
// A round is O(flows + leases of the agents), a message O(leases of its agent).
package delivery
