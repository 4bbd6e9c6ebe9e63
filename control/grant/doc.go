// Package grant keeps one token bucket for a key that many gateways use, without
// asking anybody about most requests.
//
// # Model
//
// Each key has one owner. The owner has the one true bucket (rate r, burst b). A
// gateway spends tokens that the owner has granted to it; when it has none, it
// holds the request and asks. So tokens travel, not counts:
//
//	tokens in the bucket + tokens granted and not spent ≤ b
//
// and no gateway can admit what a central bucket would not have admitted, except
// for what is late by one way of the network. The papers' word for this is
// conservation of a moiety: enzyme moves between compartments, its total is fixed.
//
//	gateway ── Request: I need 3, I have spent 41 ──► owner
//	gateway ◄─ Grant: 44 in all so far ───────────── owner      or: nothing before t
//	gateway ◄─ Recall: give back what you have ───── owner      when the owner is short
//
// While one gateway alone uses the key, it has the bucket itself, refill included
// (an exclusive grant): no message per request. The owner recalls the bucket when a
// second gateway asks.
//
// # The owner (owner.go, user.go, serve.go, bucket.go)
//
//	D     spent, what is granted and not spent included
//	out   granted and not spent, over all gateways
//	L     b − D, what may be granted
//
// D falls at r, down to out and never below: a token that nobody has spent cannot be
// refilled. What is granted to requests that wait is spent when it arrives, and does not
// count as out. A gateway whose request has gone meanwhile gives it back at once, and repeats
// that until the owner has it. What of it the owner had refilled meanwhile is refill turned
// away. A gateway reports its spends late, so the owner remembers for some seconds when
// refill was turned away at D = out, as at most five intervals. A report says how much refill
// the gateway's spends would have got in a bucket that saw them at once, and since when. It
// covers up to four times without a break. That much is taken out of the intervals since then
// and off D. No interval is used twice, so refill is never more than r·t. Tokens that were
// granted to requests that wait counted as spent from the start, so they are in no report.
//
// A request that waits is charged when its answer is made, later than it came. A full bucket
// turned refill away meanwhile; that much is taken back out of the intervals, as of when the
// request came, Due before the charge at most. So a client that asks for exactly its limit is
// refused nothing, and again no interval is used twice. For the same reason the bucket itself
// goes to a gateway only when it has been full for Due, which covers the way. It also goes
// when the gateway asks for more than there is, or has long been alone.
//
// On a request: enough in the bucket → grant what is needed and a part of the rest. Not
// enough → recall what the others hold, wait for their answers, then divide. Still not
// enough → say how long it takes until a lump of tokens is there. The gateway refuses on
// its own until Due before that, counted from its question. So a flood costs messages in
// proportion to what the limit gives, not to what is offered. A gateway that asks ahead,
// with no request that waits, gets no such time.
//
// # The gateway (gateway.go, take.go, owe.go, poll.go, receive.go)
//
//	state       a request                                   ends by
//	unknown     waits; the gateway asks                     Grant
//	exclusive   spends of the bucket itself                 Recall
//	granted     spends a token; asks ahead below one half   tokens used up
//	refusing    is refused at no cost                       time
//	empty       waits; the gateway asks once for all        Grant
//	silent      is left to the caller                       Grant
//	unowned     is left to the caller                       time
//
// A request waits Hold at most. After three times that without an answer the owner
// counts as unreachable. What the caller admits without tokens (Owe) is reported to the
// owner as soon as it has answered, and is debt of the bucket as of when it was admitted.
// Repeats of the question do not report it: the answer may grant tokens for the same requests,
// which come too late, and go back with the same message. So each request is charged once.
// To an unreachable owner each repeat reports it.
//
// # Standing parts (part.go, roster.go, ownerparts.go, division.go)
//
// Most of each bucket is divided among the gateways beforehand, which ask only for more than their part. An owner that
// is short calls the parts, for some minutes.
//
// # Messages
//
// Counts are cumulative within a session (one life of both sides), and each message carries all of them: the
// latest wins, so loss, repetition and reordering do no harm. A question is repeated until its Grant comes.
// The owner repeats the same Grant for a repeated question, or says that it is Pending: then it is repeated
// more and more seldom, as the Grant may be lost. A Recall is repeated until it is answered.
//
// When to send and to repeat is the caller's, who has the messages of many keys for one peer.
// There is a Line for each gateway's way to an owner, and one for each owner's way to a gateway
// (line.go). A registration that asks for nothing is acknowledged: the gateway keeps what it
// has.
//
// # Invariants
//
//   - out ≤ D, and the tokens that gateways can spend are ≤ out.
//   - One gateway alone admits what a GCRA of (r, b) admits.
//   - Each request that waits is answered within Hold.
//   - D changes by what was granted, returned, reported or refilled, by nothing else.
//   - Whatever one gateway says, the others are admitted r·t + 5·b at most (believe.go).
//   - Whatever an owner says, a gateway has one burst at most to go on with when the owner has gone.
//
// # Time and numbers
//
// Cost is counted in millionths (int64), times are nanoseconds of one's own clock:
// no message carries a time of day, only durations. Nothing here has a clock,
// goroutine or lock; a value is for one goroutine at a time.
//
// Complexity: a request at a gateway O(1); a message at an owner O(gateways that use
// the key). Neither allocates, except for a gateway that is new to a key.
//
// Source: Demers, Keshav and Shenker (1989) for the division by need; Turner (1986)
// for the bucket; escrowed quantities after O'Neil, "The Escrow Transactional Method"
// (1986); conservation after Monti and Sifalakis (2013), §3.
package grant
