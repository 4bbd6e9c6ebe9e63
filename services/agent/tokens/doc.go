// Package tokens is an agent's part in EXACT limits. It has the buckets of the keys that it
// owns (package control/grant), and carries what gateways and owners say to each other. It
// does no I/O and reads no clock: now is the monotonic time since the agent's start.
//
// # Model
//
//	gateway ── TokenRequests ──► agent ──┬─ owns the key ──► grant.Owner
//	                                     └─ else, a packet ──► the key's owner, likewise
//	gateway ◄─ TokenAnswers ──── agent ◄── grants and recalls
//
// A key's owner is the same agent that adds up its claims in a large fleet: of the agents that are alive it has the
// highest score (package aggregation). A request that comes to an agent that does not take itself for the owner is
// dropped: the gateway asks again, and its agent soon knows better.
//
// When the agents change, or one of them begins a new life, the gateways are sent the owners of keys. Each gateway
// sends the owners that are new to a key what it holds and knows of the key: in order of use, as fast as these
// answer. An owner that is new to a key grants nothing before all gateways have done so (view.go), of which the
// agents inform each other, or 3 s have passed. Meanwhile the ledgers decide. The owner before keeps what it knows
// until then, and goes on with it if the key comes back.
//
// All that is repeated goes through one window per gateway and owner (grant.Line): questions through
// those of the gateway, recalls through those of the owner's agent. So a backlog slows down what makes
// it, and a gateway that stands still costs a few recalls.
//
// What a gateway holds counts as spent when its process has exited, when its link has been down for [DeadAfter], or
// when its agent is gone. The agent reports the first two to the others.
//
// # Invariants
//
//   - At most MaxKeys keys are owned; requests for more are dropped and counted, and their
//     gateways go by their ledgers.
//   - What a limit allows is what this agent's configuration says. The first request to an owner
//     names the key, and the hash proves the name. A key of a limit that is not known here, as
//     while a new configuration spreads, is granted nothing, and its gateways go by their ledgers.
//   - Numbers out of their bounds are dropped and counted, so that no sum overflows.
//   - An agent speaks for its own gateways only, at most for MaxProcesses.
//   - A change of the agents costs a few messages of each key in use, whatever the backlog.
//
// Each message is O(gateways that use the key); nothing is done for a key that is at rest. Forgetting a
// process is O(its keys).
package tokens
