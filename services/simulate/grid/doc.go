// Package grid plays the question of small limits and bursts: a grid of limits,
// numbers of gateways, gossip delays and losses, with clients that keep to their
// limit in every way that used to be refused, and clients that do not. It answers
// with one row for each limit, number of gateways and system.
//
// # Model
//
// A cell is what its gateways share: how many, the gossip's delay and loss, how long
// it is played, and what happens to it (nothing, or joins, crashes, restarts and a
// partition). One scenario plays a cell: each limit and each kind of client in it is
// a tenant of its own, so that they share the gossip and nothing else. Titrate plays
// it twice, OPTIMISTIC and STRICT; then baselines play it.
//
//	client below its limit   none of its requests is refused by one central bucket;
//	                         Wrongful is the worst share refused
//	client above its limit   Mean is what it gets of what the central bucket gives it;
//	                         Excess is the worst over rate·t + burst of any window
//
// Rows take the worst over cells and clients and tell where it was.
//
// # One site
//
// Limits with precision EXACT are for gateways of one site. They are played there, beside
// LOCAL ones, without loss and at ways of 0.25 to 2 ms between two agents: SiteRow. The
// agents have known each other for longer than owners listen for what others know. Links take no time
// there and no process is late, so that the way between two agents is all that counts; elsewhere the
// delays of links and processes are a scenario's defaults.
//
// # Bounds
//
// Excess is held against Slack, the bound of docs/guarantees.md with all gateways
// active. The whole grid takes minutes on one core, the quick one seconds; the same
// seed gives the same figures each time.
package grid
