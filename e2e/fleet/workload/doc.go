// Package workload has the claims of a fleet's synthetic gateways, and the sums that their agents must send
// them. It has no socket and no clock, so everything can be tested.
//
// # Model
//
// There are so many keys, and each is used by a few gateways drawn at random, or by all. A gateway claims a
// constant rate of each of its keys, and makes requests for its keys in turn at that rate; so each request
// changes one count. Each gateway also has a part of every flow.
//
// A [Gateway] keeps both sides: its claims, and the sums of the others' claims that its agent sends. A [Fleet]
// knows the claims of all gateways, and so the right sums.
//
// # What is judged
//
//   - [Fleet.Wrong]: for each key and flow that a gateway uses, the received sum equals the claims
//     of the other present gateways. Claims are constant, so the sums are exact once every
//     gateway has the claims of all.
//   - [Fleet.Audit]: the counts. The received sum of the others' admitted requests has an unknown
//     offset (gateways come and go). While no gateway comes or goes, the offset is constant, and
//     the rest is the others' true number of admitted requests, at some time in the last δ. Each
//     look at a sum therefore bounds the offset from both sides. If the bounds cross, at least as
//     many requests were lost or counted twice as the bounds cross by.
//
// # Lateness
//
// On a busy machine gateways and agents run late, and a count can be older than δ. Claims and sums pass a link
// each period, so each gateway measures how late it sent its claims, and how late its agent sent it sums
// ([Gateway.Late]). δ is longer by the lateness of each process that a claim passes: the sender and its agent,
// the owner of the key, and the receiver. A gateway without a link is late for as long as it has no link. Also,
// if packets of an agent are late, the others assume its claimed rate, and its count may be too high by that.
// This lasts until claims.CatchUp after its packets arrive again.
//
// The longer δ is, the less a look proves. A sum that does not change from the first look on is not found wrong
// if the bounds are farther apart than the others' admitted requests since then, see [Counts].
package workload
