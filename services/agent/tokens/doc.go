// Package tokens is an agent's part in EXACT limits: it has the buckets of the keys that it
// owns (package control/grant), and carries what gateways and owners say to each other. It
// does no I/O and reads no clock: now is the monotonic time since the agent's start.
//
// # Model
//
//	gateway ── TokenRequests ──► agent ──┬─ owns the key ──► grant.Owner
//	                                     └─ else, a packet ──► the key's owner, likewise
//	gateway ◄─ TokenAnswers ──── agent ◄── grants and recalls
//
// A key's owner is the same agent that adds up its claims in a large fleet: the one with the
// highest score among those that are alive (package aggregation). A request that comes to an
// agent that does not take itself for the owner is dropped: the gateway asks again, and its
// agent soon knows better.
//
// When the agents change, or one of them begins a new life, the gateways are told (Moved).
// Each of them then tells the owners of now what it holds and knows. An owner that is new to a
// key grants nothing for a moment, so that it hears them first.
//
// What a gateway holds counts as spent when its process has exited, when its link has been down
// for [DeadAfter], or when its agent is gone; the other agents are told of the first two.
//
// # Invariants
//
//   - At most MaxKeys keys are owned; requests for more are dropped and counted, and their
//     gateways go by their ledgers.
//   - What a limit allows is what this agent's configuration says. The first request to an owner
//     names the key, and the hash proves the name. A key of a limit that is not known here, as
//     while a new configuration spreads, is granted nothing, and its gateways go by their ledgers.
//   - Numbers out of their bounds are dropped and counted, so that no sum overflows.
//   - An agent speaks for its own gateways only, at most for MaxProcesses of them.
//
// Each message is O(gateways that use the key); nothing is done for a key that is at rest.
package tokens
