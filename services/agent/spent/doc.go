// Package spent keeps what the clients of each gateway have spent and not won back yet. So an Envoy that restarts
// while its agent lives does not give every client its burst again.
//
// # Model
//
// A filter reports the keys whose use has changed (exchange.Spent). The store has, by the
// gateway's name, when each of these keys will have won its burst back, and forgets the key
// then. The next process of that name gets the keys when it connects. The store does no I/O
// and reads no clock: now is the monotonic time since the agent's start.
//
// # Invariants
//
//   - At most MaxKeys keys are kept over all gateways, 40 bytes each (10 MiB). Beyond that a key replaces one of the
//     gateway that has the most, or else one of a few samples of its own that needs less time. Keys that find no room
//     are counted.
//   - The newest process of a name replaces what older ones reported. An older process, the
//     parent in a hot restart, can only raise a key.
//
// Add is O(keys of the message), For and Sweep O(keys kept).
package spent
