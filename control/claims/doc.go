// Package claims holds what replicas gossip about each key and the laws by
// which it is merged. It does no I/O and reads no clock: now comes in as seconds
// from any origin.
//
// # Model
//
// A Record is the latest state of one key at one peer, an exchange.KeyClaim. It has a
// cumulative admitted count, the claim and its split into active and unsaturated (package
// drc), and the spent part of the peer's pool. State, not events, is sent: a lost, repeated
// or late record does no harm once a newer one is received.
//
// A peer's process has a generation that rises at every start, and within it
// records have a rising sequence. A new generation counts from 0 again, so a
// Lineage keeps what the finished ones had admitted: their sum never steps down
// by a restart. Merging records into a Lineage is idempotent, and commutative
// and associative over two successive generations, in any order of arrival; a
// record older than both is ignored.
//
// A Table holds the lineages of all peers and answers with sums over the live
// ones, an exchange.KeySum for a key.
//
// # The life of a peer
//
//	listed     known by its weight only: Absent
//	reachable  its claims count as they are
//	stale      nothing received for Stale (T1): it is taken to go on admitting at its
//	           last claim, counted from when it was last received
//	forgotten  nothing received for Forget (T2 > T1 + clock skew): the claims are dropped,
//	           the estimate stands, and the peer's weight shows up as Absent, so
//	           that a strict limit can keep its static share v_max·w/W
//	drained    it said goodbye: claims withdrawn at once, counts kept, no estimate
//	removed    the membership dropped it: its counts are folded into the key
//
// When an unreachable peer is received again the truth replaces the estimate: its next
// record of the key, or after CatchUp its last one. The sum is signed and may step down.
//
// # Bounds and costs
//
// At most MaxKeys keys are held. A record for one more evicts an idle key (no claim at
// any peer, untouched for Stale), searched by a clock hand over a few slots. When none is
// found the record is refused and counted. A key that comes back has a new Epoch:
// consumers of the cumulative sum start over. Apply is O(peers of the key), Sums as well;
// neither allocates once the table has grown. The slabs hold no pointers.
//
// # Bad numbers
//
// A record with a number that is NaN, negative or beyond its bound (MaxRate,
// MaxAdmitted) is refused as a whole. Times that run backwards count as no time.
package claims
