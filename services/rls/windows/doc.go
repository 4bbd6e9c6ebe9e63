// Package windows counts hits in fixed windows of time, as envoyproxy/ratelimit does, and sends other gateways its
// counts. It does no I/O and reads no clock: now comes in, in seconds since 1970.
//
// # Model
//
// A window of a unit begins at each multiple of the unit's length since 1970, in UTC: a day at
// midnight, a week on Thursday, as 1 January 1970 was one. Each client of a limit has a counter
// in each window, named by a hash of all three. So a counter begins at 0, only rises, and ends
// with its window:
//
//	total = own + others          after = total + hits          over the limit: after > N
//
// Refused hits count, too.
//
// # Several gateways
//
// A counter travels as the ledgers of the other limits do, as an exchange.KeyClaim. Admitted and Own have this
// gateway's count, Spent the total that it knows, and it claims no rate. What others have counted comes back as
// an exchange.KeySum:
//
//	first sum      others = min(Admitted, max(Spent, Own))
//	same epoch     others += Admitted − Admitted before
//	in any case    others = max(others, Spent − own)
//
// The last line makes up for a count that was lost. It may be of this gateway's own process before, of which other
// gateways that count the client know 8/9, or of another gateway that is gone. Spent is at most what all have
// counted, so others is, too. What is on its way when an epoch ends, because another agent becomes the counter's
// owner, may be missed. Received counts stand until the window ends, whichever gateway becomes unreachable.
//
// A gateway sends a counter once it has N/(2·gateways), or once another gateway sends it.
//
// # Bounds
//
// With τ the time until a gateway's count has reached all others, a window admits N and what the other gateways admit
// within τ. At most 16 agents send all counts to all. Beyond that only a gateway that sends a counter receives the
// others' counts of it, so that N/2 more may pass by gateways that send nothing. Gateways that cannot reach each
// other admit N each, and so they do in the seconds by which their clocks differ.
//
// There are at most as many counters as New is given; what is beyond shares one counter for each limit. A client that
// comes here takes the place of a counter that only others have. A counter takes 80 to 140 B, and is freed soon after
// its window (graceSeconds). Counts from other gateways are checked: a number that none of them can have counted is
// left out.
package windows
