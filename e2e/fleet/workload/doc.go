// Package workload is what the synthetic gateways of a fleet use, and what their agents must
// send them of it. It has no socket and no clock, so all of it can be tested.
//
// # Model
//
// There are so many keys, and each is used by a few gateways drawn at random, or by all. A
// gateway claims a constant rate of each of its keys, and makes requests for its keys in
// turn at that rate; so each request changes one count. Besides each gateway has a part of
// every flow.
//
// A [Gateway] keeps both sides: what it claims, and what its agent says that the others
// claim. A [Fleet] knows the claims of all, and so what each agent should say.
//
// # What is judged
//
//   - [Fleet.Wrong]: for each key and flow that a gateway uses, the sum of the others' claims
//     is that of the gateways that are there. Claims are constant, so the sums are exact once
//     everybody has heard everybody.
//   - [Fleet.Audit]: the counts. The sum of what the others have admitted is a count with an
//     offset that nobody knows (gateways come and go). While nobody comes or goes, the offset
//     is constant, and the count is what the others have really made, at some time in the last
//     δ. Each look at a sum therefore bounds the offset from both sides. If the bounds cross,
//     requests were lost or counted twice: by at least that many.
//
// # Lateness
//
// On a busy machine gateways and agents run late, and a count is older than δ says. Claims and
// sums pass a link each period, so each gateway measures how late it told its claims, and how
// late its agent sent it sums ([Gateway.Late]). δ is longer by so much for each that a claim
// passes: the sender and its agent, the owner of the key, and the receiver. A gateway without a
// link is as late as it is without. Besides, an agent that is not heard in time is taken to go
// on as claimed, and its count may be too high by that, until claims.CatchUp after it is heard
// again.
//
// The longer δ is, the less a look proves: a sum that stood still from the first look on would
// not be found wrong where the bounds are farther apart than what the others have admitted
// since ([Counts].Seen).
package workload
