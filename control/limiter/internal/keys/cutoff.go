package keys

import (
	"math"

	"github.com/titrate/titrate/control/drc"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter/internal/members"
)

// A key with a state while this replica is cut off from the others.
//
// The ledger goes on with the whole limit: it charges what is admitted here, and what the
// others are assumed to admit. So it knows the debt of the key when the others are received
// again. Beside it the state has a bucket of this replica's part by weight, which is
// charged only with what is admitted here:
//
//	rate  r·w/W      burst  max(min(b, 1), b·w/W)
//
//	isolation  until           OPTIMISTIC admits      STRICT admits
//	Frozen     T1              ledger or part         ledger
//	Split      T2              part                   part
//	Alone      the end of it   part                   part
//	Connected  others spoke    ledger or part         ledger
//
// The part is never charged with what the others use: they have the rest of the limit. In
// Frozen the ledger lets a replica have what the others did not use when they were last
// received, also more than its part. The others go on to count its last claim until T2.
// OPTIMISTIC admits by the part besides, because a claim follows chance: the others' last
// claims may be more than their mean. This adds at most r·w/W to what the others leave.

// The cut ends for a key when the others have said what they did with it, a moment after agents are
// Connected. Until then the ledger has what they were assumed to admit.

// isCutOff reports whether the key is decided as while this replica is cut off.
func (st *state) isCutOff(m *members.View) bool {
	return m.Isolation != exchange.Connected || st.part != 0 && st.sums.Gap != 0
}

// endCut drops the part when the cut has ended.
func (st *state) endCut(m *members.View) {
	if !st.isCutOff(m) {
		st.part = 0
	}
}

// takeCutOff is Ledger.Take while this replica is cut off.
func (st *state) takeCutOff(n Numbers, m *members.View, now int64, seconds, cost, dither float64) bool {
	part := n.part(m.Weight / m.Total)
	after, fits := drc.Take(st.partTAT(now), now, part.Rate, part.Burst, cost)
	if m.Static() && !fits {
		return false
	}
	if !st.ledger.Take(seconds, cost, dither) {
		if !fits || n.Strict && !m.Static() {
			return false
		}
		st.ledger.Owe(seconds, cost, math.Inf(1))
	}
	if !fits { // the ledger gives more than the part, which is empty then
		after = now + refill(part.Burst, part.Rate)
	}
	st.part = after
	return true
}

// partTAT is the TAT of the part. It begins with what the ledger knows to be spent, as far
// as that is no debt. So many seconds of refill of the limit are as many of the part.
func (st *state) partTAT(now int64) int64 {
	if st.part == 0 {
		st.part = drc.TATFor(min(st.ledger.Spent(), st.limit.Burst), now, st.limit.Rate)
	}
	return st.part
}

// wait returns the nanoseconds until cost may pass.
func (st *state) wait(n Numbers, m *members.View, now int64, seconds, cost float64) int64 {
	wait := nanoseconds(st.ledger.Wait(seconds, cost))
	if !st.isCutOff(m) {
		return wait
	}
	part := n.part(m.Weight / m.Total)
	own := drc.GCRA{Rate: part.Rate, Burst: part.Burst}.Wait(st.partTAT(now), now, cost)
	switch {
	case m.Static():
		return own
	case n.Strict:
		return wait
	}
	return min(wait, own)
}

// spent returns D, in units of the numbers that this replica goes by: the whole limit, or its part.
func (st *state) spent(n Numbers, m *members.View, now int64) float64 {
	if !m.Static() {
		return st.ledger.Spent()
	}
	return drc.SpentAt(st.partTAT(now), now, n.Rate*m.Weight/m.Total)
}

// oweCutOff charges the part with cost that was not refused, and as much debt as a key may have.
func (st *state) oweCutOff(n Numbers, m *members.View, now int64, cost float64) {
	part := n.part(m.Weight / m.Total)
	most := now + refill(deepestDebt(part), part.Rate)
	st.part = min(max(st.partTAT(now), now)+refill(cost, part.Rate), most)
}

// A key may owe what both sides of a cut have admitted. The owners of EXACT limits cannot know it: each side had
// an owner, and an owner counts one burst of debt at most. The ledger of each replica knows it once the others have
// said what they did, and decides until the debt is repaid.

// noteHeal notes that others have just reported what they did with a key while they were unreachable. A state that does
// not count yet is in debt as soon as it does, see startLedger.
func (s *Store) noteHeal(st *state, now int64) {
	if !st.counting {
		st.healed = max(now, 1)
		return
	}
	if st.healed = 0; !(st.ledger.Spent() > 0) || !(st.limit.Rate > 0) {
		return
	}
	st.healed, st.owesUntil = max(now, 1), now+refill(1.5*st.ledger.Spent(), st.limit.Rate)
	end := st.owesUntil + learnWithin
	for until := s.hearing.owesUntil.Load(); until < end; until = s.hearing.owesUntil.Load() {
		s.hearing.owesUntil.CompareAndSwap(until, end)
	}
}

// learnWithin is the time, after a key's debt should be repaid, in which its owner is sent the spent part with the
// next request, in nanoseconds.
const learnWithin = 5e9

// reportWithin is the time after a cut in which gateways report to owners what they admitted without them, in
// nanoseconds. An owner that is sent the spent part before cannot know which of the reports it has in it.
const reportWithin = 1e9

// meetsDebt reports whether others repay a debt of a key that this replica begins to use.
func (st *state) meetsDebt() bool {
	return st.counting && st.sums.Assumed == 0 && st.ledger.Known() > st.ledger.Top()
}

// Owes reports whether any key may owe what was admitted during a cut, see AfterCut.
func (s *Store) Owes(now int64) bool { return now < s.hearing.owesUntil.Load() }

// AfterCut returns what was certainly spent of a client's key, in cost units, and since when that is known. Its
// users on both sides of a cut know of each other. It is 0 if there is no such key, if its owner knows all of it,
// or if gateways may still report it. What is beyond what ledgers give out is debt, but not for longer than 1.5
// times its refill. After that the owner decides, though a gateway that does not know of the debt has admitted more.
func (s *Store) AfterCut(g *Group, client string, now int64) (spent float64, since int64, debt bool) {
	m, n := s.view.Load(), g.Numbers(client)
	var c counter
	s.find(&c, g, client, now, false)
	st := c.state
	if st == nil {
		return 0, 0, false
	}
	defer st.mu.Unlock()
	if now >= st.owesUntil+learnWithin {
		st.healed = 0
	}
	if st.healed == 0 {
		return 0, 0, false
	}
	s.count(st, c.slot, n, m, now, s.seconds(now))
	st.ledger.Advance(s.seconds(now))
	spent = st.ledger.Known()
	if debt = now < st.owesUntil && spent > st.ledger.Top(); !debt && now-st.healed < reportWithin {
		return 0, 0, false
	}
	return spent, st.healed, debt
}
