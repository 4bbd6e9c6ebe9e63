// Package tally adds up what replicas claim: it takes in the claims of the
// gateways here (from the link) and of those elsewhere (from gossip), and tells
// each gateway what all the others do. It does no I/O and reads no clock: now
// is the monotonic time since the agent's start.
//
// # Model
//
// A replica is a gateway's filter process. Its latest state per key is a record
// of package control/claims, in one table for all replicas, the local ones
// among them; the sums for a replica are those over the table without it. The
// tally keeps what the table does not: which keys are flows, the local state as
// it is gossiped, who is a member, and whether this agent hears enough of them.
//
//	connected   its link is up: it is listed in each packet, so others hear it
//	lost        its link is down, the process may live on: it is listed no more,
//	            its last claims stand, here and elsewhere, until T2
//	drained     its process is gone: listed as drained for a while, claims
//	            withdrawn at once, counts kept
//
// # Membership and isolation
//
// Members are those of the coordinator's last lease while that is fresh, and those
// that were members before and are still heard, of whom a new leader may not know
// yet; otherwise the replicas heard within T2. An agent that starts remembers those of
// its last lease, so that one which starts while it is cut off is not alone. The agent is reached while it hears
// more than half of the members' agents (itself included). When it is not, the
// membership it had stays in force, and isolation is Frozen, after T1 Split. T2
// is longer than T1, so that the others count a cut-off replica's last claim
// until it has surely fallen to its part by weight.
//
// # Invariants
//
//   - A count that a filter starts over within one generation never moves the
//     sums down: the tally adds what was counted before.
//   - A key withdrawn is gossiped with claim 0 for Linger, so that one lost
//     packet does not keep the claim alive.
//   - Keys that nobody claims are forgotten after forgetKey, those of the
//     replicas here later than elsewhere, so that no sum steps down by it.
//   - Keys held are bounded by MaxKeys, here and per local replica; those of one
//     replica elsewhere by half of that.
//   - Neither generations nor sequences of others are taken as they come (life.go):
//     a clock that steps back makes nobody unheard.
//   - An agent speaks for its own replicas only, for 256 of them at most, and each
//     number is within a bound; what is not is dropped and counted.
//
// Announce and Hear are O(records), Sums is O(keys × replicas that claim them).
package tally
