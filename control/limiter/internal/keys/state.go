package keys

import (
	"math"

	"github.com/titrate/titrate/control/drc"
	"github.com/titrate/titrate/control/limiter/internal/lock"
	"github.com/titrate/titrate/control/limiter/internal/members"
)

// A contended key has a state: a ledger that keeps up with the one global bucket. States
// are in chunks without pointers (pool.go). Which state is whose: slot.go. When Claims
// visits it: wakes.go.

type state struct {
	mu        lock.Mutex[lock.State]
	hash      uint64 // of the key; 0: free
	ledger    drc.Ledger
	limit     Numbers      // the ledger was configured with
	member    uint32       // version of the view that the ledger was configured with
	index     uint32       // its own, never changed
	counting  bool         // the ledger counts; otherwise the state keeps what others do only
	announced bool         // so the end must be announced, too
	own       bool         // it counts in the budget of this replica's own use
	awake     bool         // the next Claims visits it; a free one too, until Claims finds it
	gone      bool         // the sums say that no other replica claims it any more
	abroad    bool         // other sites use the key
	owned     bool         // a token of the key's owner has paid for the latest request
	last      announcement // what was announced last
	saidAt    int64        // when
	base      float64      // cost admitted before the ledger began, part of what is announced
	before    float64      // and of it, what may still have been spent then and was not refunded since
	counted   int64        // a TAT: what of the slot's is in base already
	sums      drc.LedgerSums
	spentAt   int64 // when the others' Spent changed last
	cut
	named  uint32 // the listing that last named the key, see [hearing]
	heard  int64  // when it was named
	random uint64
}

// cut has the state of a key in a time without the others' counts and after it, see cutoff.go.
type cut struct {
	assumed   float64 // of sums.Admitted: what the others are assumed to have admitted since
	assumedAt int64   // when that was assumed
	part      int64   // the TAT of this replica's part while it is cut off; 0: not in use
	healed    int64   // time of the first sums after a silence, see AfterCut; 0: its owner knows all that is spent
	owesUntil int64   // end of the time in which the ledger decides a debt
}

// announcement holds the numbers of a key's claim.
type announcement struct {
	admitted, claim, spent float64
	active, owned          bool
}

// nothingAnnounced differs from whatever may be announced.
var nothingAnnounced = announcement{admitted: math.NaN()}

// clear prepares a state for a key; the mutex stays as it is.
func (st *state) clear(key uint64) {
	st.hash, st.random = key, key
	st.ledger, st.limit, st.member = drc.Ledger{}, Numbers{}, 0
	st.counting, st.announced, st.own, st.gone, st.owned, st.last = false, false, false, false, false, nothingAnnounced
	st.abroad = false
	st.base, st.before, st.counted = 0, 0, 0
	st.sums, st.cut = drc.LedgerSums{}, cut{}
	st.spentAt, st.named, st.heard, st.saidAt = 0, 0, 0, 0
}

// start starts the ledger of a key that has spent so much, of which so much was
// admitted here and is not announced yet.
func (st *state) start(s *Store, n Numbers, m *members.View, seconds, spent, fresh float64) {
	st.base += fresh
	st.before = min(spent, st.base)
	st.ledger = s.newLedger(n, n.ledger(m), seconds, spent)
	st.ledger.FirstContact(seconds, st.sums, st.before, spent-fresh)
	st.limit, st.member = n, m.Version
	st.counting = true
}

// refund gives back cost. What was admitted before the ledger began the ledger counts
// among the others' admissions, so it is taken back there.
func (st *state) refund(m *members.View, now int64, seconds, cost float64) {
	if st.part != 0 {
		st.part = drc.Return(st.part, now, st.limit.Rate*m.Weight/m.Total, cost)
	}
	own := min(cost, st.ledger.Admitted())
	st.ledger.Refund(own)
	if early := min(cost-own, st.before); early > 0 {
		st.before -= early
		st.base -= early
		st.ledger.Advance(seconds)
		st.ledger.RefundEarlier(early)
	}
}

// configure brings the ledger up to date with limit and membership.
func (st *state) configure(n Numbers, m *members.View, now int64, seconds float64) {
	if int32(st.limit.version-n.version) > 0 { // a later request has brought later numbers
		n = st.limit
	}
	if st.limit == n && st.member == m.Version {
		return
	}
	if st.part != 0 && (st.limit.Rate != n.Rate || st.limit.Burst != n.Burst) {
		was, by := st.limit.part(m.Weight/m.Total), n.part(m.Weight/m.Total)
		st.part = drc.TATFor(drc.Carry(drc.SpentAt(st.part, now, was.Rate), was.Burst, by.Burst), now, by.Rate)
	}
	st.limit, st.member = n, m.Version
	st.ledger.Configure(n.ledger(m), seconds)
	st.endCut(m)
}

// hear takes in the sums of the others for the key.
func (st *state) hear(seconds float64, sums drc.LedgerSums) {
	st.sums = sums
	if st.counting {
		// On a new count the ledger takes no more than Admitted: of the others only.
		sums.Spent, sums.Own = min(sums.Spent, sums.Admitted), min(sums.Own, sums.Admitted)
		sums.Admitted += st.before
		st.ledger.Hear(seconds, sums)
	}
}

// claimedByOthers reports whether another replica claims the key.
func (st *state) claimedByOthers() bool {
	return st.sums.Claims != 0 || st.sums.Active != 0 || st.sums.Unsaturated != 0
}
