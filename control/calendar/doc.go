// Package calendar has quotas of a period of a calendar: a cost that a key may use in a period, over all gateways.
// A period is a day, week, month or year of a time zone.
//
// # Model
//
// A unit is the right to use a millionth of a cost unit in one period. The coordinators book intervals of a period's
// units for the key's owner (an agent), each unit once. The owner grants units to gateways, which spend them as
// requests are released. Units are never made again: what is lost with a process is unused, and nothing is used twice.
//
//	Σ lengths of the owner's intervals = units at the owner + Σ over gateways (granted − returned)
//
//	gateway ── Ask: 2 units wait, 41 returned so far ─────► owner ── Want: 5000 units ──► coordinator
//	gateway ◄─ Reply: 44 granted so far, 3 h are left ───── owner ◄─ Booked: 7000…12000 ── coordinator
//
// # Rules
//
// For each of rules 1 to 8 random_test.go has a variant without the rule, which fails.
//
//  1. A booking is an interval that no other booking overlaps, not a high-water mark of the owner's.
//  2. A booking has a session and a number. A repeat gets the same interval.
//  3. Counts of a gateway and an owner are cumulative within a session, so a message that is repeated or late counts
//     once.
//  4. The owner books ahead: the cost that waits and a step, and again when half a step is left. A step is the most of
//     two requests, twice the largest burst lately, and 30 seconds of use up to a thousandth of the amount.
//  5. Units have the number of their period and end with it. Only the owner says which period it is, and how long it
//     lasts. A number never goes back.
//  6. An OPEN owner whose booking is slow or cannot be stored grants beyond its intervals, up to the amount by its own
//     count. The next intervals pay for that. An owner that does not know what was used waits a second for the first
//     answer, which the coordinator gives before its store does. An owner grants so only while it reaches all agents:
//     otherwise another owner may do the same.
//  7. Owners and gateways say the highest end of what was granted that they know. So a coordinator whose store was
//     restored from a backup, and a new owner, do not begin before it. They say also how much of it was granted
//     without an interval: where an owner's intervals have these units, it takes them out.
//  8. An owner without units asks gateways for what is idle before it refuses. An owner that ends gives back what it
//     has of its last intervals.
//
// # Bounds
//
//   - Used in a period: the amount, with every loss of messages and processes, and whatever owners move. There is one
//     exception, of OPEN owners while the store is slow or away. What such an owner grants beyond its intervals is
//     admitted once more if the owner and the gateways that it answered last are lost before that is booked.
//   - Unused after a total loss: what was booked and not used, at most one step and a half; after an orderly end what
//     a booking under way brings.
//   - A request whose cost is an estimate uses its true cost, also beyond the amount.
//
// # Time and numbers
//
// Times are nanoseconds of one's own clock that does not run backwards; messages carry durations only. Nothing here has
// a clock, goroutine or lock; a value is for one goroutine at a time. A request at a gateway costs O(1), a message at
// an owner O(gateways that use the key).
//
// Source: escrowed quantities after O'Neil, "The Escrow Transactional Method" (1986); booked intervals after the HiLo
// allocation of keys.
package calendar
