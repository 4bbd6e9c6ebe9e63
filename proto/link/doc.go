// Package link is what a filter (inside Envoy) and the agent beside it say to
// each other over a Unix stream socket.
//
// # Model
//
// The link carries state, not events: each message replaces what the last one
// of its kind said ("latest wins"), so either side may die, reconnect and be
// right again after one message of each kind. Only Report holds deltas; its
// sender takes them when it can send them, never before, so a dead link delays
// them but loses none.
//
//	filter (client)                     agent (server)
//	  Hello            ─────────────►
//	                   ◄─────────────   Hello
//	                   ◄─────────────   Spent                  (to a new process)
//	                   ◄─────────────   Config, Shares, Sums   (then on change)
//	  Claims, 50 ms    ─────────────►   (only with something to say)
//	  Report, 250 ms   ─────────────►
//	  Refused          ─────────────►   (after each Config)
//	  Names            ─────────────►   (then on change)
//	  Spent            ─────────────►   (news only)
//	  Heartbeat, 1 s   ◄────────────►   Heartbeat, 1 s
//
// A peer that was silent for [DeadAfter] is dead: the agent forgets the
// replica's claims by its own rules, the filter keeps what it last knew.
//
// The messages that only the link knows are [Hello], [Heartbeat] and [Refused]; the others
// are the types of control/config and control/exchange, written and read as they are.
//
// # Frames
//
// All integers are little-endian.
//
//	offset  size  what
//	0       4     length of the payload, 0 … MaxPayload
//	4       1     version that the payload is written in
//	5       1     kind of message
//	6       1     flags: bit 0 = more frames of this message follow
//	7       1     zero
//	8       …     payload
//
// A message longer than one frame is cut into consecutive frames of one kind
// and one version. Hello and Config are JSON (they are rare, and a debugger
// should be able to read them); the others are binary: a record of scalars,
// then lists of records. A record is a 16-bit length and its fields in order;
// a reader skips what it does not know at a record's end, and leaves at zero
// what an older writer did not send. So fields may be appended to a record
// without a new version; everything else needs one.
//
// # Newer configurations
//
// A reader of Config notes the limits and quotas that have a field or a name which it
// does not know (config.Limit.Unknown); the filter leaves them out and says so. Unknown
// fields elsewhere are ignored.
//
// # Versions
//
// A build speaks version N and understands N and N−1. Hello is written in the
// oldest version understood and carries N; [Negotiate] picks the lower of the
// two, both sides stamp it on all that follows ([Writer.SetVersion]). Version 2
// has Refused, Names, Spent and Config.Defaults, for a peer that speaks it only.
//
// # Invariants
//
//   - Nothing from outside panics or costs memory beyond a constant times
//     the bound of its kind ([MaxMessage]); counts are checked against the
//     bytes that are there before anything is allocated.
//   - What is malformed gives a [*FormatError] that names the field and the
//     offset; the stream is then out of step and must be closed.
//   - NaN and −∞ never get in: a reader may compute with what it is given.
//   - Decode(Encode(m)) == m for each message m.
//
// Reading and writing one message is O(its size).
package link
