// Package grid plays the question of small limits and bursts. It has a grid of limits, numbers of gateways,
// gossip delays and losses. There are clients that stay within their limit in every way that was once refused,
// and clients that exceed it. The result has one row for each limit, number of gateways and system.
//
// # Model
//
// A cell are the common conditions of its gateways. They are their number, the gossip's delay and loss, the
// time that it is played, and its events (none, or joins, crashes, restarts and a partition). One scenario
// plays a cell. Each limit and each kind of client is a tenant, so that they share the gossip and nothing else.
// Titrate plays the scenario twice, OPTIMISTIC and STRICT; then baselines play it.
//
//	client below its limit   none of its requests is refused by one central bucket;
//	                         Wrongful is the worst share refused
//	client above its limit   Mean is its admitted part of what the central bucket admits;
//	                         Excess is the worst over rate·t + burst of any window
//
// Rows have the worst figure over cells and clients, and where it was found.
//
// # One site
//
// Limits with precision EXACT are for gateways of one site. They are compared with LOCAL limits there, without
// loss and with delays of 0.25 to 2 ms between two agents: SiteRow. The agents have known each other for longer
// than new owners collect counts. Links take no time there and no process is late, so that only the delay
// between two agents counts; elsewhere the delays of links and processes are a scenario's defaults.
//
// # Bounds
//
// Excess is held against Slack, the bound of docs/guarantees.md with all gateways
// active. The whole grid takes minutes on one core, the quick one seconds; the same
// seed gives the same figures each time.
package grid
