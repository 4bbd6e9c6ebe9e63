// Package agent is the process beside the Envoys of one host or pod. It holds
// everything that must not live inside Envoy: the gossip with other agents, the
// stream to the coordinator, the last good snapshot on disk.
//
//	filters ══ link ══► gateways ─► tally ◄──► mesh ══ gossip ══► other agents
//	        ◄══════════            sums │
//	                    orders ◄── stream ══ control ══► coordinator
//	                      │
//	                    lastgood (disk)
//
// # Model
//
// [Config.Complete] checks everything, loads the snapshot and opens the ports;
// [Agent.Run] serves until its context ends and stops in order. The packages
// below hold the parts; this one connects them and has no law of its own:
//
//	gateways   server of the link, one mailbox per filter process
//	tally      who claims what, sums over the others, membership, isolation
//	mesh       claims between agents, over memberlist
//	orders     configuration and leases in force
//	compile    resources to a filter's configuration
//	stream     client of the control stream
//	lastgood   the snapshot on disk
//
// # What happens when something is gone
//
//	coordinator  leases go stale after their soft expiry: frozen, flagged, and
//	             enforced without end
//	other agents isolation Frozen, after T1 Split; their last claims count to T2
//	a filter     process gone: its claims are withdrawn at once; only the link
//	             gone: they stand to T2
//	this agent   filters go on with what they last knew; others hold its claims
//
// # Invariants
//
//   - No filter ever waits for the coordinator, for other agents or for the disk.
//   - What was obeyed once (epoch, configuration) is never undone by what is older.
//   - When Run has returned, no port or socket file is left, and no goroutine
//     but a probe of memberlist that was under way (it ends within 4 s).
package agent
