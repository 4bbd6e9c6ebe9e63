// Package applied is the state that the coordinator has put in force at this agent: the
// configuration and the leases. It does no I/O and reads no clock: now is the monotonic
// time since the agent's start.
//
// # Model
//
// Two sets of resources are kept. The offered set follows the coordinator, change by
// change; the set in force is the newest offered set that compiled. So a bad change is
// refused (NACK) as a whole, the older configuration stays in force, and a later change
// builds on what the coordinator assumes that the agent has.
//
// Leases are applied in the order of (epoch, seq). A lower epoch is refused, of leases and
// of configurations: it comes from a coordinator that was replaced and does not know it.
// Leases that are not renewed within their soft expiry are stale: they stay in force
// without end, and are marked as stale.
//
// # Invariants
//
//   - Only numbers that a filter can compute with are accepted.
//   - What is in force can always be written to disk and read back ([State.Snapshot],
//     [State.Restore]); restored leases are stale until they are renewed.
package applied
