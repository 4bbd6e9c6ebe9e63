// Package gossip carries claims between agents.
//
// # Model
//
// memberlist gives membership and failure detection, and each agent's versions
// and public key. The claims themselves are datagrams of our own at the same port
// ([transport]), one unicast packet per peer and period P, with the latest state of
// all keys that are contended here, split over as many datagrams of at most
// [MaxPacket] bytes as it needs. State, not events: what is lost is in the next
// packet again. Without claims an agent speaks every schedule.Idle·P, and every packet
// promises when the next is due.
//
// # Who may say what
//
// A packet is sealed with a key that only its sender and its addressee can know (see
// [identity]). So nobody speaks in another agent's name, and what an earlier life of
// an agent has sent does not open any more: no order of clocks is needed. Who has the
// cluster's key may still join as an agent of its own.
//
// # Versions
//
// An agent speaks version 2 with those that understand it, and 1 with those that do
// not. A packet of version 1 counts only from an agent that has announced no later
// one. What else comes is counted by reason ([Drop]).
//
// A fresh announcement of a gateway is sent at once (see [Node.Poke]), so that
// it takes one gossip delay and one period to reach another gateway, not two.
//
// # Delay
//
// Each packet acknowledges the latest one heard from its addressee and says how
// long that was held. The round trip is measured with the sender's clock alone:
// τ = (now − sent − held)/2. Per peer a peak with slow decay is kept, which one
// measurement cannot raise far (package schedule). The largest of them is the delay in
// force; the median is reported to the coordinator.
//
// # Failures
//
// A peer that memberlist gave up is still sent to at the long period for sendFailed:
// after a partition claims flow with the first packet. Its address is tried for
// keepFailed, and those of --join and of the coordinator's members for ever, unless a
// peer is alive there: so halves that have forgotten each other find together. An
// attempt is a TCP connection; one address is tried each second at first and each 5 to
// 10 s later, joinAtOnce of them at a time. [Node.Missing] names who is not there. A
// peer that leaves says so in packets of its own.
//
// # Invariants
//
//   - A packet never exceeds MaxPacket; no state is dropped for its size.
//   - Bytes from outside cost O(their length), and malformed ones are counted.
//   - A packet counts for the agent that made it, in its present life, or not at all.
//   - Cut off by [Node.Partition], nothing passes in either direction.
//   - When Close has returned, the port is free; a probe of memberlist that was
//     under way ends by its own timeout.
//
// A period costs O(peers × bytes of state) in sending, O(bytes) in receiving.
package gossip
