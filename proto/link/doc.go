// Package link is the protocol between the filter inside Envoy and the agent on the same
// machine, over a Unix stream socket.
//
// # Model
//
// The link carries state, not events: each message replaces the last one of its kind ("latest wins").
// So either side may die and reconnect: after one message of each kind both are right again. Sums and
// Claims hold what has changed since the last one, and on a new connection all of it, so that contended
// keys that nobody uses cost nothing. A Delta holds what has changed since the configuration of one
// revision; a filter that has another one in force refuses it, and is sent the whole configuration. A
// Report and a Spent hold what is new since the last one. Of the clients that are limited the most a
// Report has one part of several, which replaces that part. Their sender collects that until a message
// can be sent, so that a dead link delays a report and loses at most the message that was being
// written.
//
//	filter (client)                     agent (server)
//	  Hello            ─────────────►
//	                   ◄─────────────   Hello
//	                   ◄─────────────   Spent                  (to a new process)
//	                   ◄─────────────   Config, Shares         (then on change)
//	                   ◄─────────────   Delta                  (a change of the Config)
//	                   ◄─────────────   Sums, Full             (then what changes)
//	  Claims, 50 ms    ─────────────►   (all within 3.2 s, then what changes, once empty)
//	  Report, 250 ms   ─────────────►
//	  Decisions        ─────────────►   (about single requests, if the agent's Hello wants them)
//	  TokenRequests    ─────────────►   (at once, if the agent's Hello takes them)
//	                   ◄─────────────   TokenAnswers           (at once)
//	  SlotAsks         ─────────────►   (at once, if the agent's Hello takes them)
//	                   ◄─────────────   SlotReplies              (at once)
//	  QuotaAsks        ─────────────►   (at once, if the agent's Hello takes them)
//	                   ◄─────────────   QuotaReplies             (at once)
//	  Refused          ─────────────►   (after each Config or Delta)
//	  Names            ─────────────►   (then on change)
//	  Spent            ─────────────►   (keys whose use has changed)
//	  Heartbeat, 1 s   ◄────────────►   Heartbeat, 1 s
//
// A peer from which nothing was received for [DeadAfter] is dead. The agent then forgets the claims of the
// replica after a time; the filter keeps the last state that it received.
//
// [Hello], [Heartbeat] and [Refused] are types of this package. The other messages are the
// types of control/config and control/exchange; they are written and read as they are.
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
// A message longer than one frame is cut into consecutive frames of one kind and one
// version. Hello, Config and Delta are JSON: they are rare, and a person can read them while
// debugging. The others are binary: a record of scalars, then lists of records. A record
// is a 16-bit length and its fields in order. A reader skips the end of a record that it
// does not know, and sets to zero the fields that an older writer did not send. So fields
// may be appended to a record without a new version. Every other change needs a new one.
//
// # Newer configurations
//
// A reader of Config or Delta notes the limits and quotas that have a field or a name which it does
// not know (config.Limit.Unknown). The filter does not enforce them and lists them in
// Refused. Unknown fields elsewhere are ignored.
//
// # Versions
//
// A build speaks version N and understands N and N−1. Hello is written in the oldest
// version that the build understands, and carries N. [Negotiate] picks the lower of both
// sides' N; all later messages carry that version ([Writer.SetVersion]).
//
// # Invariants
//
//   - No bytes from outside cause a panic, or cost more memory than a constant times the
//     bound of their kind ([MaxMessage]). Counts are checked against the bytes that have
//     arrived before memory is allocated.
//   - Malformed bytes give a [*FormatError] with the field and the offset. The connection
//     must then be closed.
//   - A number that was read is never NaN or −∞.
//   - Decode(Encode(m)) == m for each message m.
//
// Reading and writing one message is O(its size).
package link
