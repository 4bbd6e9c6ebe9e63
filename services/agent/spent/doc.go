// Package spent remembers what the clients of each gateway have yet to win back, so
// that an Envoy that is started anew beside a living agent does not give every
// client its burst again.
//
// # Model
//
// A filter reports the keys whose use has changed (exchange.Spent). The store holds, by
// the gateway's name, when each of them will have won its burst back, and forgets it
// then. What it holds is given to the next process of that name when it connects. It
// does no I/O and reads no clock: now is the monotonic time since the agent's start.
//
// # Invariants
//
//   - At most MaxKeys are held over all gateways, 40 bytes each (10 MiB). Beyond
//     that a key takes the place of one that needs less time, out of a few that
//     are looked at; keys that found no place are counted.
//   - The newest process of a name has the last word on a key. What an older one
//     says, the parent in a hot restart, can only add.
//
// Add is O(keys of the message), Of and Sweep O(keys held).
package spent
