// Package assign divides what this gateway may use of limits and shares among Envoys that decide by themselves. It
// does no I/O and reads no clock: now comes in, in nanoseconds of any clock that does not run backwards.
//
// # Model
//
//	report ──► member ──► bucket ──► limiter.Account        what was used, evenly over the next interval
//	                        │
//	                        └──► limiter.Parts              what this gateway may use
//	                               │ fairshare.Network      max-min among the members, by their demand
//	                               ▼
//	                             member ──► action          rate and burst, for a time to live
//
// A bucket is one kind of requests: whose they are, and where to. A member is one Envoy's use of a bucket. Its demand
// is what it has admitted and refused in an interval between two reports. Parts are divided by two fills. The first
// one gives members up to their demand and half a standard deviation of its measurement. The second one divides what is
// left in equal parts, so that a member may begin to use more.
//
// Between gateways the claims divide a limit, as they do for gateways that decide on each request.
//
// # What a change costs
//
// Envoy's token bucket is full whenever its numbers change. So numbers change only if a member of the same limit needs
// more than tolerance beyond what it has, or all together have more than this gateway's part. A member's new burst is
// its part of what is free in the limit's bucket. What all have admitted beyond the bucket is a debt, which is repaid
// within settleWithin.
//
// # Bounds
//
// With Options.Streams, MembersOfStream and Members. What is beyond is refused and counted by the caller. A round costs
// O(members) and the fill's passes; the caller makes rounds as rarely as they are dear. Visit costs at most
// visitsAtOnce calls of the engine.
package assign
