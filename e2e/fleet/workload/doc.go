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
package workload
