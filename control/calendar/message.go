package calendar

import (
	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/slots"
)

// Units are a cost in millionths of a cost unit, as the limiter counts it: nothing is rounded on the way.
type Units int64

// Unit is one cost unit.
const Unit Units = 1_000_000

// MaxUnits bounds Units from outside: twice the most that a quota may be.
const MaxUnits = 2 * Units(config.MaxRate) * Unit

// UnitsOf returns a cost that is not negative, rounded.
func UnitsOf(cost float64) Units { return Units(max(0, cost)*float64(Unit) + .5) }

// Cost returns the units as a cost.
func (u Units) Cost() float64 { return float64(u) / float64(Unit) }

// Peer names a process of a gateway to an owner. A process that is started anew is another peer.
type Peer uint32

// Use has the cost of requests in a period, cumulative.
type Use struct {
	Admitted Units // cost of admitted requests, by the estimates that they were admitted with
	Refused  Units // cost of refused ones
	Settled  Units // Admitted, corrected by the costs that were known later
}

// Add adds a use, up to MaxUnits of each cost.
func (u *Use) Add(v Use) {
	u.Admitted = (u.Admitted + v.Admitted).bounded()
	u.Refused = (u.Refused + v.Refused).bounded()
	u.Settled = (u.Settled + v.Settled).bounded()
}

// bounded returns units within the bounds of a message, which is refused as a whole beyond them.
func (u Units) bounded() Units { return max(-MaxUnits, min(u, MaxUnits)) }

// Ask is a message of a gateway to the owner of a key. Counts are cumulative within the session, which is of one
// period.
type Ask struct {
	Owner    uint64 // life of the owner; 0: not known
	Session  uint64 // of this key at this process; never reused, a later one is greater
	Number   uint32 // of this message within the session, from 1 on
	Heard    uint32 // Number of the latest Reply received
	Period   int64  // of the session; 0: not known
	Brought  Units  // that the gateway had when the session began
	Received Units  // Reply.Granted as last received
	Returned Units
	Has      Units  // not spent; below 0 after corrections
	Want     Units  // cost of the requests that wait
	Ahead    Units  // that would do for a while
	Known    Units  // highest end of what was granted that the gateway knows
	Unbooked Units  // the end of Known that no interval had, when Granter granted it
	Granter  uint64 // life of the owner that has said Known
	Use
	Ended bool // the session has ended: the gateway has returned what it had, or another session goes on
}

// Reply is a message of an owner to a gateway about a key.
type Reply struct {
	Owner     uint64 // life of the owner
	Session   uint64 // of the gateway
	Number    uint32 // of this message within the session, from 1 on
	Seen      uint32 // Number of the latest Ask taken in
	Period    int64
	Granted   Units // in this session so far, of the period
	Left      int64 // nanoseconds of the period; 0: not known
	Amount    Units
	Remaining Units // that may still be used, by all gateways
	Known     Units // highest end of what was granted that the owner knows
	Unbooked  Units // the end of Known that none of its intervals has
	Refuse    int64 // nanoseconds for which requests without units are refused; 0: they ask
	Recall    bool  // idle units are to be returned at once; with Begin: the gateway's period has ended
	Begin     bool  // the owner does not know the session: the gateway begins another one. Else only Recall counts
}

// Want is an owner's question to the coordinators.
type Want struct {
	Session  uint64 // of the owner; never reused
	Number   uint64 // of this question; a repeat gets the same interval
	Period   int64
	Wanted   Units
	Known    Units
	Returned Units // new end of the session's last intervals; 0: as it is
	Use            // of the session
	Final    bool  // no more comes of the session and the period
}

// Booked answers a Want.
type Booked struct {
	Session  uint64
	Number   uint64
	Period   int64
	From, To Units // the interval; empty: none, but of NotStored so much was given before
	Reason   Reason
}

// Reason says why a booking has no interval, or a shorter one.
type Reason uint8

// The reasons.
const (
	Whole         Reason = iota
	UsedUp               // the rest of the amount, or nothing
	OtherPeriod          // the coordinator's period is another one
	NotConfigured        // it has no such limit
	StoreAway            // nothing could be stored; the question is to be repeated
	NotStored            // likewise, but it is known what was given before
)

// Outcome of a request at a gateway. A request that Waits asks again with Retry after each Reply, or Leaves.
type Outcome = slots.Outcome

// The outcomes.
const (
	Refused  = slots.Refused
	Admitted = slots.Admitted
	Waits    = slots.Waits
	CutOff   = slots.CutOff
)

const (
	microsecond = 1000
	millisecond = 1000 * microsecond
	second      = 1000 * millisecond
)

// Times of the protocol, nanoseconds.
const (
	// MaxWait is the longest time that a request waits for units.
	MaxWait = 50 * millisecond
	// SlowAfter is the time after which a booking counts as slow: an OPEN owner goes on by its own count.
	SlowAfter = 20 * millisecond
	// ReportEvery is the time within which a gateway says what was used.
	ReportEvery = second
	// KnownBoth is the time around the change of a period in which both neighbours are known.
	KnownBoth = 5 * second

	aheadFor    = second           // of its use a gateway asks for
	keepIdle    = 10 * second      // an idle gateway keeps units for so long
	repeatFirst = 20 * millisecond // of a question; doubles
	repeatMost  = second           // likewise
	giveUpAfter = 3 * second       // the end of a session is said for so long
	refuseFor   = second           // of a no
	recallFor   = 10 * millisecond // the owner waits so long for idle units before it says no
	bookAgain   = second           // after which a question to the coordinators is repeated
	usedUpFor   = 5 * second       // for which the owner does not ask again
	stepFor     = 30               // seconds of use in a step
	forgetUser  = 60 * second      // without a message
	keepEnded   = 3 * second       // a session that has ended, so that a late message of it does not count again
	firstSlow   = second           // SlowAfter of an owner that does not know what was used, without an answer
	reportEvery = 2 * second       // an owner says what was used, if that has changed
	slowFor     = 60 * second      // bookings count as slow after a slow one
	lastNumber  = uint32(1) << 31  // of a message in a session; another session begins then
)
