// Package core is the agent without sockets, goroutines, clock, disk and log. Events come
// in, effects go out; now is the monotonic time since the agent's start and does not run
// back. The process (package agent) and the simulator drive the same core.
//
// # Events and effects
//
//	from a gateway    Connected, Received, ConfigSent, Disconnected, Exited
//	from a peer       PeerAlive, PeerFailed, ReceivePackets
//	coordinator       Hello (a stream is open), Configure; Share and Leases of that [Stream]
//	time              Tick (when it is Due), Round (after it, and soon after fresh claims)
//
// Most events return [Effects]: frames for gateways, links to close, log entries, whether
// to gossip soon and whether to save the snapshot. The others return what the caller
// sends: Hello and Report to the coordinator, Round to the peers. Status
// returns the facts for people and metrics.
//
// # A gateway's life
//
//	          Connected           Disconnected              T2
//	(unknown) ─────────► connected ──────────► disconnected ──► (forgotten)
//	                        ▲  │ a newer link        │ Exited
//	                        └──┘ closes the older    ▼   Linger
//	                                              exited ─────► (forgotten)
//
// A gateway is one filter process: a name with a generation. Two processes of one name
// may be connected at once, the parent and the child of a hot restart; two that are not
// are reported ([Status.DoubleNames]). gateway.go holds all of it; aggregation, reports
// and spent follow.
//
// # Invariants
//
//   - Frames to one gateway are in the order of what they say: an older configuration or
//     share never follows a newer one.
//   - A gateway that connects gets what its clients have spent before the configuration
//     with which it begins to serve.
//   - What was applied once (epoch, configuration) is never replaced by older state.
//   - The same events give the same effects.
//
// Not safe for concurrent use. Each event is O(what it says), Tick O(gateways × keys that have
// changed).
package core
