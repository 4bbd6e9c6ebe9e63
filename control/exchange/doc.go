// Package exchange is what gateways, agents and the coordinator tell each other while
// they run: shares from the coordinator, sums of the other replicas' claims from the
// agent, claims and reports of the gateway. Engine, link, filter, agent and simulator all
// use these types; there are no others of the same facts.
//
// # Model
//
//	              Shares, Sums, Spent
//	agent ──────────────────────────────────► engine in the gateway
//	      ◄──────────────────────────────────
//	              Claims, Report, Names, Spent
//
// Each message is state: it replaces what the last one of its kind said, so that either
// side may die and come back. Only a [Report] and a [Spent] say what is new since the
// last one.
//
// # Terms
//
//	flow   a tenant's use of a pool
//	key    one client's use of a limit, or the tenant's of a limit per tenant; contended
//	       when more than one replica uses it
//	claim  the rate that a replica takes of a flow or a key, cost units/s
//	active the replica's weight while it wants more than it has; 0 otherwise
//
// Keys are hashes of names, seeded by the configuration (control/limiter/internal/hash).
// All rates are in cost units/s, all amounts in cost units.
package exchange
