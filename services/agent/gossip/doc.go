// Package gossip carries claims and sums between agents.
//
// # Model
//
// memberlist gives membership and failure detection, and each agent's versions
// and public key. Claims and sums are datagrams of our own at the same port
// ([transport]), of at most [schedule.MaxPacket] bytes. Which key goes to whom is decided
// in package aggregation, what waits and what was lost in package delivery, and when a
// packet leaves in package schedule. Packets carry state, not events: a newer one replaces
// an older one, and what no peer acknowledges is sent again.
//
// # Who may say what
//
// A packet is sealed with a key that only its sender and its addressee can know (see [identity]). So no agent sends in
// another agent's name, and packets of an agent's earlier life do not open any more: no order of clocks is needed. A
// process that has the cluster's key may still join as a new agent.
//
// # Versions
//
// Two agents speak the newest version that both understand. An agent without such a version
// owns no keys and is sent nothing. What it sends is counted by reason ([schedule.Drop]).
//
// # Delay
//
// Each packet acknowledges the latest one received from its addressee and says how long that was held. The round trip
// is measured with the sender's clock alone: τ = (now − sent − held)/2. Per peer a peak with slow decay is kept, which
// one measurement cannot raise far (package schedule). The largest of them is the delay in force; the median is
// reported to the coordinator.
//
// # Failures
//
// A peer that memberlist gave up is still sent to at the long period for a while, so that after a partition claims
// flow with the first packet. Its address is tried for a day, and the addresses of --join and of the coordinator's
// members without end, unless a peer is alive there. So halves that have forgotten each other find together. An
// attempt is a TCP connection; one address is tried each second at first and each 5 to 10 s later, joinAtOnce
// addresses at a time. A peer that leaves says so in extra packets.
//
// # Invariants
//
//   - A packet never exceeds MaxPacket; no state is dropped for its size.
//   - Bytes from outside cost O(their length), and malformed ones are counted.
//   - A packet counts for the agent that made it, in its present life, or not at all.
//   - Cut off by [Node.Partition], nothing passes in either direction.
//   - When Close has returned, the port is free; a probe of memberlist that was
//     under way ends by its own timeout.
package gossip
