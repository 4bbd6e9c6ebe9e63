// Package coordinator is the process that shares capacity: it reads the
// configuration from etcd, hears demand from agents, and leases shares to them.
//
// # Model
//
//	etcd ──watch──► catalog ──config──► round.Round ◄──reports── stream.Server ◄── agents
//	  ▲                │                    │                         ▲
//	  └─ election      └──── changes ───────┼────── leases ───────────┘
//	                                        └──► Live: status and why for quota.Server
//
// [Config.Complete] checks the settings and opens the ports; [Coordinator.Run]
// serves until its context ends. Any number of coordinators run on one etcd: one
// leads (package election), the others keep the configuration at hand, serve the
// admin API, and tell agents who leads.
//
// # Terms
//
// A term begins when this process is elected. It starts from an empty round unless
// this process led before and nobody did since. If agents that have obeyed an
// earlier epoch arrive, no leases go out until Settle has passed, so that the first
// ones are computed from everybody's demand: until then agents hold what they have.
// When the session with etcd is lost, the last leases are renewed unchanged; when
// another coordinator leads, all streams end with its address.
//
// # Rounds
//
// A round is computed every max(--round, 2.5·(τ+P)) with τ the longest gossip delay
// that agents report and P the gossip period, and at once when the configuration
// changes. With quicker rounds a share would change while the gateways still settle
// how they split it.
//
// # Invariants
//
//   - This process never exits, and never stops serving what it knows, because
//     etcd is away.
//   - Leases of an epoch are computed by its leader only, while its session lives.
//   - On shutdown the lead is given back first, then streams end, then the servers,
//     all within ShutdownTimeout.
package coordinator
