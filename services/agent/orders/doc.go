// Package orders is what the coordinator told this agent to enforce: the
// configuration and the leases in force. It does no I/O and reads no clock: now
// is the monotonic time since the agent's start.
//
// # Model
//
// Two books are kept. The offered one follows the coordinator, change by change;
// the one in force is the newest offered one that compiled. So a bad change is
// refused (NACK) as a whole, the older configuration stays, and a later change
// builds on what the coordinator thinks that the agent has.
//
// Leases are obeyed in the order of (epoch, seq). A lower epoch is refused, of leases
// and of configurations: its coordinator was replaced and does not know it. Leases that are not renewed
// within their soft expiry are stale: frozen and flagged, they hold without end.
//
// # Invariants
//
//   - Only numbers that a filter can compute with get through.
//   - What is in force can always be written to disk and read back ([Orders.Snapshot],
//     [Orders.Restore]); restored leases are stale until renewed.
package orders
