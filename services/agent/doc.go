// Package agent is the process next to the Envoys of one host or pod. It holds what must not run inside Envoy: the
// gossip with other agents, the stream to the coordinator, the last good snapshot on disk.
//
//	filters ══ link ══► linkserver ─┐ events  ┌─ gossip ══ UDP ══► other agents
//	        ◄══════════             ├► core ◄─┤
//	          disk ── lastgood ─────┘ effects └─ stream ══ gRPC ══► coordinator
//
// # Model
//
// Package core decides everything; it has no socket, goroutine, clock, disk or log, and the simulator drives it as
// well. This package is the process around it: each socket's goroutine gives the core its events, one at a time under
// one lock, and does what the core returns (events.go). [Config.Complete] checks the settings, loads the snapshot and
// opens the ports; [Agent.Run] serves until its context ends, and stops in order.
//
//	core         a gateway's life, what is sent to whom and when, alarms, status
//	aggregation  who claims what, sums over the others, membership, isolation
//	applied      configuration and leases in force
//	compile      resources to a filter's configuration
//	reports      gateways' reports to rates for the coordinator
//	spent        what clients have spent, for gateways that restart
//	gossip       packets between agents, over memberlist; schedule and delivery are its pure parts
//	linkserver   server of the link, one mailbox per filter process
//	stream       client of the coordinator's stream
//	lastgood     the snapshot on disk
//
// With [Config.RLS] the process also serves Envoy's rate limit API (package services/rls), and with [Config.RLQS] its
// rate limit quota API (package services/rlqs). Each service is a gateway of this agent like any filter: it links to
// the agent's socket.
//
// # When something fails
//
//	coordinator   leases are stale after their soft expiry: shares are frozen, flagged, and
//	              enforced without end
//	other agents  isolation Frozen, after T1 Split; their last claims count until T2
//	a filter      its process is gone: its claims are withdrawn at once; only its link is
//	              gone: its claims count until T2
//	this agent    filters go on with what they received last; others count its claims
//
// # Invariants
//
//   - No filter waits for the coordinator, for other agents or for the disk.
//   - No event waits for the disk or for a configuration that compiles.
//   - What was applied once (epoch, configuration) is never replaced by older state.
//   - When Run has returned, no port or socket file is left, and no goroutine but a probe
//     of memberlist that was under way (it ends within 4 s).
package agent
