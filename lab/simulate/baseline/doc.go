// Package baseline has other ways to hold limits and to share pools over several gateways, to be compared with
// Titrate on the same requests.
//
// # Common assumptions
//
// All laws except central and shared decide at the gateway, at once, from the gateway's token buckets. There is
// one for its part of each limited key (rate r·p, burst max(1, b·p), p the part) and one for its part of each
// flow. A flow is a tenant's use of a pool (burst a quarter of a second's worth, at least 1). A request needs
// all of its buckets and is charged to all or to none. There is no queue: a request that does not fit is
// rejected. Gateways send messages to each other and to a coordinator with the scenario's gossip delay, jitter
// and loss, through its partitions. Rates are in cost units/s. Where a law needs a demand, the demand is a mean
// of the arrivals, with a time constant of half a second. Pools are shared by weighted max-min whatever their
// sharing says. A crashed or restarted gateway comes back with full buckets.
//
// # The laws
//
//   - [Static]: a gateway's part is always w/W, W over the gateways that are configured. Joins and leaves change
//     the part at once; a crash is not noticed. A tenant's share of a pool is its share if all tenants asked for
//     the whole pool: an unused share goes to no other tenant. Gateways receive no messages.
//   - [Central]: one exact bucket per key and one per flow, in one place. Each request waits for an answer from
//     there: one gossip delay each way, without loss. Flows' rates are an exact fill of demands each round. The
//     service itself costs nothing. A gateway that cannot reach the service (a partition, a lost coordinator)
//     admits everything after the same wait, as Envoy's ratelimit filter does by default.
//   - [Shared]: as Central, but with one bucket per pool for all tenants. A tenant that asks for more gets more.
//   - [FPS]: flow proportional share (Raghavan, Vishwanath, Ramabhadran, Yocum, Snoeren: Cloud Control with
//     Distributed Rate Limiting, SIGCOMM 2007, §4.3). A gateway's part is its weight over the sum of all weights
//     that it has received: p = ω/Σω. The weight is the smoothed rate of arrivals, sent every gossip period:
//     open-loop requests have no TCP from whose rate the paper takes it. After a second without a message from a
//     gateway its weight is left out. Shares of pools are as in Static.
//   - [AIMD]: each half second a gateway adds up the admitted rates that it has received from all gateways.
//     While the sum is at most the limit, its own rate rises by a tenth of its even part; otherwise it falls by
//     a quarter. Shares of pools are as in Static.
//   - [Waterfill]: every coordinator round, the coordinator divides each limit over gateways, each pool over
//     tenants and each tenant's share over gateways. It uses exact max-min of the demands that it has received,
//     with a tenth and 1/s to spare. The rest is divided by weight. Without a coordinator the last parts hold.
//   - [Claims]: a gateway's part is the rate in force of Titrate's own controller (drc.Controller): claims are
//     announced each gossip period and used once the others have received them. Titrate shares pools with this
//     law; here it also holds limits, for which Titrate has the ledger. Received and forgotten as in FPS.
//
// # Complexity
//
//   - A request: O(keys of the client).
//   - A turn of FPS, AIMD and Claims is O(keys · gateways²), of Waterfill and Central O(keys · gateways).
//   - Memory: O(keys · gateways), bounded by MaxBuckets.
package baseline
