// Package exchange has the types of the messages between a gateway and its agent while both
// run. They are shares, which come from the coordinator, sums of the other replicas'
// claims, and the gateway's own claims and reports. Engine, link, filter, agent and
// simulator all use these types; there are no others of the same facts.
//
// # Model
//
//	              Shares, Sums, Spent
//	agent ──────────────────────────────────► engine in the gateway
//	      ◄──────────────────────────────────
//	              Claims, Report, Names, Spent
//
// Each message is state: it replaces the last one of its kind, so that either side may stop
// and come back. [Sums] and [Claims] hold what has changed since the last one, and all of
// it on a new connection. A [Report] and a [Spent] what is new since the last one.
//
// # Terms
//
//	flow   a tenant's use of a pool
//	key    one client's use of a limit, or the tenant's of a limit per tenant; contended
//	       when more than one replica uses it
//	claim  the rate that a replica takes of a flow or a key, cost units/s
//	active weight of the replicas that want more than they have
//
// Keys are hashes of names, seeded by the configuration (control/limiter/internal/hash).
// All rates are in cost units/s, all amounts in cost units.
package exchange
