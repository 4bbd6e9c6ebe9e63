package grant

import "slices"

// Peer names a gateway to an owner. Any unique number will do.
type Peer uint32

// Request is a message of a gateway to the owner of a key. All counts are cumulative
// within the session, in millionths of a cost unit.
type Request struct {
	Session  uint64 // this life of the gateway; never reused
	Owner    uint64 // life of the owner that the counts belong to
	Number   uint32 // of this message: the highest one is the latest
	Seq      uint32 // of the question that is open; 0: none was asked yet
	Recalled uint32 // highest Recall.Number that this message answers

	Granted  int64 // Grant.Granted as last received
	Spent    int64 // of granted tokens
	Returned int64 // of granted tokens
	Extra    int64 // admitted without a token: own part of an unreachable owner, debt, less refunds

	Need  int64 // tokens wanted for requests that wait; 0: none
	Least int64 // cost of the cheapest of them: less is of no use
	Ahead int64 // tokens wanted for requests to come
	Use   int64 // cost admitted or waiting per second

	Waited int64 // nanoseconds for which the first request of Need has waited

	Refills [Refills]Refill // of spends not yet acknowledged, oldest first

	Exclusive bool  // the gateway had the bucket itself until this message; Level is what it left
	Released  bool  // the gateway has given back all it had and forgets the key
	Forgotten bool  // it had released the key before: the counts say nothing
	Register  bool  // first contact with this owner; Held and Level say what the gateway knows
	Held      int64 // tokens from an earlier owner that it can still spend
	Level     int64 // D, as far as the gateway knows; −1: it knows nothing
	Full      int64 // nanoseconds for which the bucket that it had itself has turned refill away
}

// Refills is the most refills that a Request reports. More make it longer.
const Refills = 4

// Refill is the refill that a gateway's bucket would have made without a break, of spends
// that begin at some time.
type Refill struct {
	Amount int64 // millionths
	Age    int64 // nanoseconds since then
}

// Grant answers a Request.
type Grant struct {
	Owner     uint64 // this life of the owner; never reused
	Session   uint64 // the gateway's, as in the Request
	Seq       uint32 // of the question that this answers
	Granted   int64  // tokens granted in this session so far
	Admit     int64  // of them, so many for requests that waited: what finds none goes back at once
	Seen      uint32 // Number of the latest Request taken in
	Wait      int64  // nanoseconds in which asking again is of no use; 0: none, or of a Pending: not known
	Others    int64  // cost per second that all other gateways use
	Level     int64  // D at this time
	Exclusive bool   // the bucket itself goes to the gateway, at Level
	Full      int64  // nanoseconds for which that bucket has turned refill away
	Valid     int64  // nanoseconds after the question was asked, when what the gateway has is void; 0: as before
	Pending   bool   // the question Seq is received and will be answered later: only Granted and Wait count too
	Begin     bool   // the owner has forgotten the session: the gateway begins another one
	NoRoom    bool   // the owner has no room for the key; only Session and Seq count
}

// Recall asks a gateway to give back what it has not spent.
type Recall struct {
	Owner   uint64
	Session uint64
	Number  uint32 // of this recall, rising
	Seq     uint32 // last question that was answered: an exclusive grant up to it is void
	Seen    uint32 // Number of the latest Request taken in
	Granted int64  // tokens granted so far, also in grants that are still on their way
}

// Outbox takes what an owner sends. No method may call the owner.
type Outbox interface {
	Grant(to Peer, g Grant)
	// Recall has a recall to be sent, and again while Owner.Recalling says that it is not answered.
	Recall(to Peer, r Recall)
	// CallPart has a call of a part to be sent, and again while Owner.Calling says so.
	CallPart(to Peer)
}

// PartCall asks a gateway to keep away from its standing part of a key, see part.go.
type PartCall struct {
	Owner uint64  // life of the owner
	At    int64   // by the owner's clock: the answer repeats it
	Lease int64   // nanoseconds from when the call comes
	Rate  float64 // of the limit: the gateway may not know the key
	Burst int64
}

// PartAnswer says that a gateway keeps away from its part, and what was spent.
type PartAnswer struct {
	Owner uint64 // of the call
	At    int64  // of the call: the lease counts from there
	Given uint64 // PartCall.Owner of the call with which the gateway has begun to keep away
	Size  int64  // burst of the part
	Spent int64  // D of the part now, as if it had been refilled
	Full  int64  // nanoseconds for which the part has been full

	Since  int64   // nanoseconds for which all that was spent is in Spends
	Base   int64   // D before
	Spends []Spend // oldest first, MostSpends at most
}

// Spend is a cost that was spent.
type Spend struct {
	Age  int64 // nanoseconds since then
	Cost int64
}

// mostRate and mostCount bound rates, cost units per second, and counts and times: no sum of two overflows.
const (
	mostRate  = 1e12
	mostCount = int64(3) << 60
)

// Usable reports whether the numbers of a call are within their bounds.
func (c *PartCall) Usable() bool {
	return c.Rate >= 1e-12 && c.Rate <= mostRate && c.Burst >= Token && c.Burst <= mostCount &&
		c.At >= 0 && c.At <= mostCount && c.Lease > 0 && c.Lease <= mostCount
}

// Usable reports whether the numbers of an answer are within their bounds.
func (a *PartAnswer) Usable() bool {
	bad := func(n int64) bool { return n < 0 || n > mostCount }
	return !slices.ContainsFunc([]int64{a.At, a.Size, a.Spent, a.Full, a.Since, a.Base}, bad) &&
		len(a.Spends) <= MostSpends &&
		!slices.ContainsFunc(a.Spends, func(e Spend) bool { return bad(e.Age) || bad(e.Cost) })
}
