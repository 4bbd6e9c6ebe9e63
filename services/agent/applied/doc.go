// Package applied is the state that the coordinator has put in force at this agent: the configuration and the leases.
// It does no I/O and reads no clock: now is the monotonic time since the agent's start.
//
// # Model
//
// [Offer] compiles what the coordinator sends, a whole configuration or a change of it, to a
// [Configuration]; [State] has the one in force. A bad change is refused (NACK) as a whole, and
// the older configuration stays in force. The coordinator assumes that the agent has the
// change, so it is tried again together with the next one, which may repair it.
//
// Leases are kept as each coordinator sends them ([Stream]), in the order of (epoch, seq). Of the coordinators that
// ever sent something of the pool in force, the one with the highest epoch decides the pool. A coordinator with a
// lower epoch was replaced there, and does not know it. If no pool of a coordinator counts, its leases are refused.
// Members come with the highest epoch of all, and a configuration of a lower one is refused.
//
// Coordinators that share the pools have one epoch, and one of them sends the members. Each has its own stream, and
// brings the same configurations: a change that another stream has brought is left out ([Offered]).
//
// A pool that its coordinator names no more stays in force as it was sent last, as long as the
// configuration has it and until another coordinator names it. Leases that are not renewed within
// their soft expiry are stale: they stay in force without end, and all are marked as stale.
//
// # Invariants
//
//   - Only numbers that a filter can compute with are accepted.
//   - What is in force can always be written to disk and read back ([Offer.Source],
//     [State.Restore]); restored leases are stale until they are renewed.
//   - A change costs O(change), unless it changes what all tenants share, see package compile.
package applied
