// Package coordinator is the process that shares capacity: it reads the configuration from etcd, receives demand from
// agents, and leases shares to them.
//
// # Model
//
//	etcd ──watch──► config.Cache ──► leadership.Loop ◄──reports── stream.Server ◄── agents
//	  ▲                  │           (allocation.Allocator)            ▲
//	  └─ election        └── changes ────────┼─────── leases ──────────┘
//	                                         └──► live: status and why for quota.Server
//
// [Config.Complete] checks the settings and opens the ports; [Coordinator.Run] serves until its context ends. Any
// number of coordinators run on one etcd: one leads (package election), or they share the pools, see below. The others
// keep the configuration at hand, serve the admin API, and send agents who leads.
//
// # Leadership
//
// A leadership begins when this process is elected (package leadership). It begins without knowledge of demand, unless
// this process was the last leader too. If agents that have obeyed an earlier epoch connect, no leases go out until
// Settle has passed. The first leases are then computed from the demand of all agents, and until then agents keep the
// leases that they have. When the session with etcd is lost, the last leases are renewed unchanged. When another
// coordinator leads, all streams end with its address.
//
// # Sharing
//
// With Config.SharePools coordinators lead together, each the pools that rendezvous hashing gives it (package
// election decides which coordinators share). All have one epoch. The allocator gets the part of the configuration
// that is led here. A change of the sharers begins an epoch, in which pools that stay here go on, and pools that come
// are collected first. A coordinator that did not share in an epoch begins without knowledge. Each has a stream to
// every agent. Questions about other pools go to their leaders (peers.go). A coordinator finds the sites where the
// demand of its pools is. Coordinators of these sites lead them (homes.go).
//
// # Rounds
//
// A round computes the shares of all pools (package allocation). There is one every max(--round, 2.5·(τ+P)), and at
// once when the configuration changes. τ is the median gossip delay that agents report, P the gossip period. Quicker
// rounds would change a share while gateways still agree on how to split the last one.
//
// # Invariants
//
//   - The absence of etcd does not end this process and does not stop it from serving
//     what it knows.
//   - Only the leader of an epoch computes leases of that epoch, and only while its
//     session with etcd lasts.
//   - On shutdown the process first gives up the leadership, then ends the streams, then
//     the servers, all within ShutdownTimeout.
package coordinator
