// Package mesh carries claims between agents.
//
// # Model
//
// memberlist gives membership, failure detection, encryption and the port. The
// claims themselves are best-effort user messages, one unicast packet per peer
// and period P, with the latest state of all keys that are contended here, split
// over as many datagrams of at most [MaxPacket] bytes as it needs. State, not
// events: what is lost is in the next packet again. Without claims an agent
// speaks every pace.Idle·P, and every packet promises when the next is due.
//
// A fresh announcement of a gateway is sent at once (see [Mesh.Poke]), so that
// it takes one gossip delay and one period to reach another gateway, not two.
//
// # Delay
//
// Each packet acknowledges the latest one heard from its addressee and says how
// long that was held. The round trip is measured with the sender's clock alone:
// τ = (now − sent − held)/2. Per peer a peak with slow decay is kept; the
// largest of them is the delay in force.
//
// # Failures
//
// A peer that memberlist gave up is still sent to at the slow pace for
// keepFailed, and rejoined every second: after a partition claims flow with the
// first packet. A peer that leaves says so in packets of its own.
//
// # Invariants
//
//   - A packet never exceeds MaxPacket; no state is dropped for its size.
//   - Bytes from outside cost O(their length), and malformed ones are counted.
//   - A packet of an earlier incarnation of its sender is dropped.
//   - Cut off by [Mesh.Partition], nothing passes in either direction.
//   - When Close has returned, the port is free; a probe of memberlist that was
//     under way ends by its own timeout.
//
// A period costs O(peers × bytes of state) in sending, O(bytes) in receiving.
package mesh
