// Package applied is the state that the coordinator has put in force at this agent: the
// configuration and the leases. It does no I/O and reads no clock: now is the monotonic
// time since the agent's start.
//
// # Model
//
// [Offer] compiles what the coordinator sends, a whole configuration or a change of it, to a
// [Configuration]; [State] has the one in force. A bad change is refused (NACK) as a whole, and
// the older configuration stays in force. The coordinator assumes that the agent has the
// change, so it is tried again together with the next one, which may repair it.
//
// Leases are applied in the order of (epoch, seq). A lower epoch is refused, of leases and
// of configurations: it comes from a coordinator that was replaced and does not know it.
// Leases that are not renewed within their soft expiry are stale: they stay in force
// without end, and are marked as stale.
//
// # Invariants
//
//   - Only numbers that a filter can compute with are accepted.
//   - What is in force can always be written to disk and read back ([Offer.Source],
//     [State.Restore]); restored leases are stale until they are renewed.
//   - A change costs O(change), unless it changes what all tenants share, see package compile.
package applied
