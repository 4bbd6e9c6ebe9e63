// Package aggregation adds up what replicas claim. It takes the claims of the gateways
// connected here (from the link) and what other agents say (from gossip), and returns for
// each gateway the sums over all other replicas. It does no I/O and reads no clock: now is
// the monotonic time since the agent's start.
//
// # Model
//
// A replica is the filter process of a gateway. Each key (a client's key of a limit, or a flow) has
// owners among the agents. Up to [Options].Everybody agents all own it, beyond that one does, found by rendezvous
// hashing ([owners]). In a small fleet, too, one agent owns a key whose owner grants tokens
// ([exchange.KeyClaim].Exact), but for the first [Options].Shared keys of each agent. So agents differ: with each claim
// an agent says whether it takes the owner's sum. If not, it is sent the claims of all.
//
//	user   sends the owners its gateways' claims, when they have changed   use.go, register.go
//	owner  adds up the claims of all replicas, for itself, and for each
//	       agent that uses the key and is not an owner itself              owned.go
//
// An agent is user and owner at once. As an owner it has the latest record of each replica and key in a table of
// package control/claims. As a user it has a second table: the records of its gateways, and one record for each key
// with an owner's sum, its own or another's. The sums for a gateway are the sums over that second table without that
// gateway. So an unreachable owner is treated as an unreachable replica: its sum is assumed to go on as last claimed,
// and its claims are dropped after T2.
//
// A key with one owner that the gateways of one agent use alone costs nothing once it is registered: the owner says
// that no other agent uses it. When another agent does, the owner asks for what has changed meanwhile, and counts
// nothing of the first agent until it has answered. A user that receives the sum of a key that it does not use says
// so, for the owner may have missed the end.
//
//	connected     its link is up: each packet lists it, so the other agents know it
//	disconnected  its link is down, its process may live on: it is not listed, its last
//	              claims count, here and elsewhere, until T2
//	exited        its process is gone: it is listed as drained for Linger, its claims are
//	              withdrawn at once, its counts kept
//
// # Membership and isolation
//
// While the coordinator's last lease is fresh, the members are the replicas that it lists,
// and earlier members that still send: a new leader may not know them yet.
// Otherwise the members are the replicas received within T2. An agent that starts restores the
// members of its last lease, so that it does not count itself as the only one if it is cut
// off. The agent has a majority while it receives more than half of the members' agents (itself
// included). Without a majority the membership stays as it was, and isolation is Frozen,
// and T1 after the last majority Split. T2 is longer than T1, so that the others count a
// cut-off replica's last claim until the replica has surely gone to the split by weight.
//
// # Invariants
//
//   - A count that a filter starts over within one generation never moves the sums down:
//     the aggregator adds what was counted before.
//   - A withdrawn key is sent as such until it is acknowledged.
//   - Keys that no replica claims are forgotten after forgetKey, those of local replicas
//     after forgetLocal, so that no sum steps down.
//   - At most MaxKeys keys are kept as a user, as many as an owner, and twice as many for all local replicas. One
//     replica uses at most half of MaxKeys; a local one also at most as many as all local ones leave. What is beyond
//     is refused and counted.
//   - A key that is said to be of a flow and of a limit counts as both: no replica can hide another's use.
//   - When the owner of a key changes, no sum steps: see use.go.
//   - Generations and sequences of others are mapped to local ones (processes.go): a clock
//     that steps back makes no replica unheard.
//   - An agent reports its own replicas only, at most 256, and each number has a bound;
//     what is beyond is dropped and counted.
//
// Announce and Receive are O(records × agents that use the key), Sums is O(keys that have
// changed since the last one). A key that does not change costs nothing but a look within
// sweepCycle seconds. A change of the agents is O(keys). What others' gateways do costs when it
// changes. Members are counted when one comes, goes, or may be unreachable, and a key that many
// agents change between two rounds is sent to each of its users once.
package aggregation
