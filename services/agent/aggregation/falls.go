package aggregation

import (
	"math"
	"time"

	"github.com/titrate/titrate/control/claims"
	"github.com/titrate/titrate/control/exchange"
)

// Falling claims between sites. After a request the claims of unsaturated gateways fall in each period until they
// are 0, by one law: by the same part in the same time (drc.Ledger). What is spent is refilled at the limit's rate.
// So a record has both rates. The owner that receives it lets claims and spent parts fall by itself. The owner that
// sends it does so again when something is admitted, and when gateways do not say what has become of the record.
//
// While a site is cut off its claims stand as they were when it was received last. Then the owner asks for the keys of
// such claims.

const (
	// usualFall is the rate of the fall that an owner expects of a new key, 1/s: most filters measure demand over a
	// second. No filter has a fall of mostFall or a refill of mostRefill.
	usualFall, mostFall, mostRefill = 1, 100, 1e12
	// fallStep is the part by which a claim falls before it is announced again, and mayDiffer that by which what
	// gateways claim may differ from it.
	fallStep, mayDiffer = 1. / 16, 1. / 8
	// fallLate bounds how late the owner has claims that only fall: ownersFall, a wait for other records, the way.
	fallLate = 500 * time.Millisecond
	// muchAdmitted is a count since the last record with which the next one is more urgent than others, cost units.
	muchAdmitted = 2
	// leastSpent is a difference of spent parts that is not worth a record, cost units.
	leastSpent = .25
	// leastClaim is the part of its fall below which a claim is 0. A filter withdraws a claim at a fiftieth.
	leastClaim = 1. / 40
	// leastLook is the least time in which a rate can be measured. checkEvery is the time between two looks at a key of
	// which nothing is admitted, checkSpent the same if nothing is claimed.
	leastLook, checkEvery, checkSpent = 200 * time.Millisecond, 250 * time.Millisecond, 2 * time.Second
	// fallPeriods is the number of periods between two looks at what falls.
	fallPeriods = 4
)

// rates has the fall of unsaturated claims, 1/s, and the refill of what is spent, cost units/s.
type rates struct{ fall, refill float64 }

func (r rates) valid() bool {
	return r.fall >= 0 && r.fall <= mostFall && r.refill >= 0 && r.refill <= mostRefill
}

// falling is a record, as it was at a time. It falls from then on.
type falling struct {
	exchange.KeySum
	rates
	at time.Duration // 0: there is none
}

// claimed returns all claims and the unsaturated claims that have become of a record.
func (f *falling) claimed(now time.Duration) (all, unsaturated float64) {
	unsaturated = fallen(f.Unsaturated, f.fall, now-f.at)
	return max(0, f.Claims-f.Unsaturated+unsaturated), unsaturated
}

// spent returns what has become of the spent part of a record.
func (f *falling) spent(now time.Duration) float64 { return refilled(f.Spent, f.refill, now-f.at) }

// refilled returns a spent part after a time.
func refilled(spent, refill float64, after time.Duration) float64 {
	return max(0, spent-refill*after.Seconds())
}

// fallen returns a claim after a time.
func fallen(claim, fall float64, after time.Duration) float64 {
	if fall == 0 {
		return claim
	}
	if claim *= math.Exp(-fall * after.Seconds()); claim < leastClaim*fall {
		return 0
	}
	return claim
}

// departs reports whether what gateways here do with a key is not what has become of the record sent last.
func (f *falling) departs(now time.Duration, a *claims.Outside) bool {
	if f.at == 0 || f.counts(a) {
		return true
	}
	all, unsaturated := f.claimed(now)
	before := max(f.at, now-fallLate)
	allBefore, unsaturatedBefore := f.claimed(before)
	least := 2 * leastClaim * f.fall
	return outside(a.Claims, all, allBefore, least) || outside(a.Unsaturated, unsaturated, unsaturatedBefore, least) ||
		outside(a.Spent, f.spent(now), f.spent(before), leastSpent)
}

// outside reports whether a number is not between two others, by more than it may differ.
func outside(x, from, to, least float64) bool {
	return from-x > max(mayDiffer*from, least) || x-to > max(mayDiffer*x, least)
}

// counts reports whether gateways here have admitted something since the record, or are others or saturated.
func (f *falling) counts(a *claims.Outside) bool {
	return a.Admitted != f.Admitted || a.Active != f.Active || a.Epoch != f.Epoch
}

// presses returns how urgent the next record is. It is if much was admitted since this one, or gateways are saturated.
func (f *falling) presses(a *claims.Outside) urgency {
	if a.Active > 0 || f.Active > 0 || a.Admitted-f.Admitted >= muchAdmitted {
		return soonest
	}
	return inTurn
}

// next returns the record to be sent now. Its rates are those since the one before, if nothing was admitted.
func (f *falling) next(now time.Duration, a *claims.Outside) falling {
	n := falling{KeySum: a.KeySum, rates: f.rates, at: max(now, 1)}
	past := now - f.at
	if f.at == 0 {
		n.fall = usualFall
	}
	if f.at == 0 || f.counts(a) || past < leastLook {
		return n
	}
	switch {
	case a.Unsaturated == 0:
	case a.Unsaturated >= f.Unsaturated:
		n.fall = 0
	default:
		n.fall = min(math.Log(f.Unsaturated/a.Unsaturated)/past.Seconds(), mostFall)
	}
	switch refill := (f.Spent - a.Spent) / past.Seconds(); {
	case a.Spent > 0 && refill > 0:
		n.refill = refill
	case refill > 0:
		n.refill = max(f.refill, refill) // all was refilled some time ago
	}
	n.refill = min(n.refill, mostRefill)
	return n
}

// keyAt is a key at which an owner looks again at a time.
type keyAt struct {
	key uint64
	at  time.Duration
}

// checkAgain has the owner look at a key of which it has sent a record.
func (s *site) checkAgain(now time.Duration, key uint64, u *siteUse) {
	list, at := 0, now+checkEvery
	if all, _ := u.said.claimed(now); all == 0 {
		if u.said.spent(now) == 0 {
			return
		}
		list, at = 1, now+checkSpent
	}
	if u.check == 0 || u.check > at {
		u.check = at
		s.checks[list] = append(s.checks[list], keyAt{key, at})
	}
}

// checkFalls queues the keys of which another site no longer has what gateways here claim and have spent.
func (t *Aggregator) checkFalls(now time.Duration, s *site) {
	for list := range s.checks {
		n := 0
		for ; n < len(s.checks[list]) && s.checks[list][n].at <= now; n++ {
			t.checkFall(now, s, s.checks[list][n])
		}
		s.checks[list] = s.checks[list][n:]
	}
}

func (t *Aggregator) checkFall(now time.Duration, s *site, check keyAt) {
	u, info := s.uses.get(check.key), t.ours.get(check.key)
	if u == nil || u.check != check.at {
		return
	}
	u.check = 0
	if !u.used || u.said.at == 0 || info == nil {
		return
	}
	a := t.owned.AtHome(check.key, now.Seconds(), info.onlyFlow())
	if u.said.departs(now, &a) {
		s.put(check.key, u, inTurn)
	} else {
		s.checkAgain(now, check.key, u)
	}
}

// letFall has the claims of the other sites fall that do.
func (t *Aggregator) letFall(now time.Duration, s *site) {
	if len(s.falls) == 0 || now < s.fallAt {
		return
	}
	s.fallAt = now + fallPeriods*t.o.Period
	s.proxy.seq++
	stay := s.falls[:0]
	for _, key := range s.falls {
		u := s.uses.get(key)
		switch {
		case u == nil:
			continue
		case !u.began || !u.mayFall():
			u.falls = false
			continue
		case u.Unsaturated > 0 && u.fall*(now-u.at).Seconds() >= fallStep,
			u.refill*(now-u.at).Seconds() >= min(max(fallStep*u.Spent, leastSpent), u.Spent):
			u.fallTo(now)
			t.announceProxy(now, s, u, false)
		}
		stay = append(stay, key)
	}
	s.falls = stay
}

// willFall notes that the claim of another site falls from now on.
func (s *site) willFall(u *siteUse) {
	if u.began && !u.falls && u.mayFall() {
		u.falls = true
		s.falls = append(s.falls, u.Key)
	}
}

// mayFall reports whether a claim or what is spent becomes less with time.
func (u *siteUse) mayFall() bool {
	return u.fall > 0 && u.Unsaturated > 0 || u.refill > 0 && u.Spent > 0
}

// fallTo has a claim be as of a time, which may be earlier than that of which it is.
func (u *siteUse) fallTo(at time.Duration) {
	was := u.Unsaturated
	u.Unsaturated = fallen(was, u.fall, at-u.at)
	u.Claim = max(0, u.Claim-was+u.Unsaturated)
	if spent := refilled(u.Spent, u.refill, at-u.at); u.Spent > 0 {
		u.Own *= spent / u.Spent
		u.Spent = spent
	}
	u.at = at
}

// stand ends the fall of a claim of a site that is cut off, as of when it was received last.
func (s *site) stand(u *siteUse) {
	if !u.stands && u.at > s.heard {
		u.fallTo(s.heard)
	}
	u.rates, u.stands = rates{}, true
}

// askAgain asks for the claims that stood while a site was cut off.
func (s *site) askAgain() {
	for i, key := range s.uses.keys {
		if u := s.uses.values[i]; u.stands {
			s.put(key, u, inTurn)
		}
	}
}
