// Package slots has the owners of keys of concurrency limits at one agent, and carries messages between owners and
// gateways.
//
//	gateway ── SlotAsks ──► its agent ── Packet ──► agent that owns the key ──► slots.Owner
//	gateway ◄─ SlotReplies ── its agent ◄─ Packet ── agent that owns the key ◄──┘
//
// The agents among which keys have owners, and the time at which all gateways have registered with new owners, come
// from package tokens, which has both for EXACT limits.
//
// An owner answers the messages of a gateway, and so renews the gateway's lease, only if the gateway's agent has the
// same list of agents. So a gateway whose agent does not know of a new owner stops within slots.LeaseFor.
package slots
