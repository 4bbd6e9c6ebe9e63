// Package aggregation adds up what replicas claim. It takes the claims of the gateways
// connected here (from the link) and of the others (from gossip), and returns for each
// gateway the sums over all other replicas. It does no I/O and reads no clock: now is the
// monotonic time since the agent's start.
//
// # Model
//
// A replica is the filter process of a gateway. The latest state of each replica and key is
// a record of package control/claims, in one table for local and remote replicas. The sums
// for a replica are the sums over the table without that replica. The aggregator keeps what
// the table does not: which keys are flows, the local state as it is gossiped, who is a
// member, and whether this agent hears a majority of the members.
//
//	connected     its link is up: each packet lists it, so the other agents hear it
//	disconnected  its link is down, its process may live on: it is not listed, its last
//	              claims count, here and elsewhere, until T2
//	exited        its process is gone: it is listed as drained for Linger, its claims are
//	              withdrawn at once, its counts kept
//
// # Membership and isolation
//
// While the coordinator's last lease is fresh, the members are the replicas that it lists,
// and the members before it that are still heard: a new leader may not know them yet.
// Otherwise the members are the replicas heard within T2. An agent that starts restores the
// members of its last lease, so that it does not count itself as the only one if it is cut
// off. The agent has a majority while it hears more than half of the members' agents (itself
// included). Without a majority the membership stays as it was, and isolation is Frozen,
// after T1 Split. T2 is longer than T1, so that the others count a cut-off replica's last
// claim until the replica has surely gone to the split by weight.
//
// # Invariants
//
//   - A count that a filter starts over within one generation never moves the sums down:
//     the aggregator adds what was counted before.
//   - A withdrawn key is gossiped with claim 0 for Linger, so that one lost packet does not
//     keep the claim alive.
//   - Keys that no replica claims are forgotten after forgetKey, those of local replicas
//     after forgetLocal, so that no sum steps down.
//   - At most MaxKeys keys are kept, in total and per local replica; half of that for one
//     remote replica.
//   - Generations and sequences of others are mapped to local ones (processes.go): a clock
//     that steps back makes no replica unheard.
//   - An agent reports its own replicas only, at most 256, and each number has a bound;
//     what is beyond is dropped and counted.
//
// Announce and Receive are O(records), Sums is O(keys × replicas that claim them).
package aggregation
