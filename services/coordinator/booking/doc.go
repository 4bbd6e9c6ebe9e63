// Package booking is the coordinator's law of calendar quotas: which units of a key's amount an owner may grant in a
// period, and how much was used. Package control/calendar has the owners and their messages.
//
// # Model
//
// A key has one record for each period. The units of a period are numbered from 0. Each is given to one session of an
// owner at most:
//
//	0           free          next                    amount
//	├──A──┼──B──┼░░░░┼───A────┤ nobody has these units ┤
//
// A booking takes units that came back, else the units from next on. So the intervals of all sessions are disjoint,
// and their sum is at most the amount, however many owners there are and whatever they do not know of each other.
//
//	Take(request) ──► the record changes ──► Write(values) ──► etcd ──► the answer may be sent
//
// # The journal
//
// [Book.Write] encodes what has changed since the last call: a value for all records together, with the place of each
// of their sessions. [Book.Fold] encodes one of the [Shards] parts of the book whole. A book is read back from its
// shards and the values after them ([Book.RestoreShard], [Book.Replay]). Use is in the next value of its record or
// the next shard; until then it is known to its owner, who sends it again on each stream.
//
// # Invariants
//
//   - The intervals of a record do not overlap. Their sum, and the end of the last one, are at most the amount as it
//     was when they were given.
//   - A request with the session and number of an earlier one gets the interval of that one.
//   - Nothing is given below the end of an interval that an owner knows, up to the amount: etcd may have been restored.
//   - A period's number never falls, also not under another leader whose clock is behind.
//   - A record is final an hour after the period's end, or after this coordinator began to take bookings if that is
//     later. While a session has not ended in order, an hour without a message must pass, too. It does not change then.
//   - No I/O, no clock, no goroutine: now comes in. Not safe for concurrent use.
//
// # Bounds
//
// MaxRecords records with maxNames bytes of names, maxSessions sessions in each. A session that has ended in order is
// put together with earlier sessions after a minute, when nothing repeats its end any more. Above the bound the session
// without use for longest is, too. Of a key the present period is kept, and the last Kept ones, one while there is
// hardly room. A request costs O(1), Write O(changes), Fold O(records/Shards).
package booking
