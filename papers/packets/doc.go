// Package packets is a small packet-level network simulator for the papers' experiments
// that ran in ns-2. It has TCP Reno sources with ECN, fast retransmit, fast recovery and
// timeouts, over links with a queue and a law that marks or drops.
//
// All packets have the same size; rates are packets per second, times seconds. A path is a
// list of hops, each a delay and then a link. Acknowledgements come back after a fixed delay
// and are not lost. Every packet is acknowledged at once (no delayed acknowledgements).
// What ns-2 has and this leaves out: the handshake, the limit of the advertised window.
//
// Everything is deterministic for a seed.
package packets
