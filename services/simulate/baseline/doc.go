// Package baseline has other ways to hold limits and to share pools over several
// gateways, to be played beside Titrate on the same requests.
//
// # Common assumptions
//
// All but central and shared decide at the gateway, at once, from token buckets of its own: one
// for its part of each limited key (rate r·p, burst max(1, b·p), p the part) and one
// for its part of each flow, a tenant's use of a pool (burst a quarter of a second's
// worth, at least 1). A request needs all of its buckets and is charged to all or to
// none; there is no queue, what does not fit is rejected. Gateways tell each other
// and a coordinator things with the scenario's gossip delay, jitter and loss,
// through its partitions. Rates are in cost units/s. Where a law needs a demand, it
// is a mean of what arrived, with a time constant of half a second. Pools are shared
// by weighted max-min whatever their sharing says. A crashed or restarted gateway
// comes back with full buckets.
//
// # The laws
//
//   - [Static]: a gateway's part is w/W for ever, W over the gateways that are
//     configured: joins and leaves change it at once, a crash is not noticed. A
//     tenant's share of a pool is what it would have if all wanted all: what one
//     leaves, nobody gets. No gateway hears anything.
//   - [Central]: one exact bucket per key and one per flow, in one place. Each request
//     asks there, a gossip delay there and one back, which it waits; none of it is
//     lost. Flows' rates are an exact fill of demands each round. The service has
//     no cost of its own. A gateway that cannot reach it (a partition, a lost
//     coordinator) lets everything pass after the same wait, as Envoy's ratelimit
//     filter does by default.
//   - [Shared]: as Central, but with one bucket per pool: a limit that does not tell
//     tenants apart. Who asks for more gets more.
//   - [FPS]: flow proportional share (Raghavan, Vishwanath, Ramabhadran, Yocum, Snoeren:
//     Cloud Control with Distributed Rate Limiting, SIGCOMM 2007, §4.3). A gateway's
//     part is its weight over all weights that it has heard: p = ω/Σω. The weight is
//     the smoothed rate of arrivals, told every gossip period: open-loop requests
//     have no TCP from whose rate the paper takes it. A gateway that was not heard
//     for a second counts no more. Shares of pools are as in Static.
//   - [AIMD]: each half second a gateway adds up what it has heard that all admitted;
//     while that is no more than the limit, its own rate rises by a tenth of its even
//     part, else it falls by a quarter. Shares of pools are as in Static.
//   - [Waterfill]: every coordinator round, the coordinator divides each limit over
//     gateways, each pool over tenants and each tenant's share over gateways by exact
//     max-min of the demands that it was told, with a tenth and 1/s to spare; what
//     is left over goes out by weight. Without a coordinator the last parts hold.
//   - [Claims]: a gateway's part is the rate in force of Titrate's own controller
//     (drc.Controller): claims are announced each gossip period and used once the
//     others have heard them. It is what Titrate shares pools with; here it holds
//     limits too, for which Titrate has the ledger. Heard and forgotten as in FPS.
//
// # Complexity
//
// O(keys of the client) per request. A turn of FPS, AIMD and Claims is O(keys · gateways²), of
// Waterfill and Central O(keys · gateways). Memory O(keys · gateways), bounded by
// MaxBuckets.
package baseline
