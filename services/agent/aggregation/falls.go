package aggregation

import (
	"math"
	"time"

	"github.com/titrate/titrate/control/claims"
	"github.com/titrate/titrate/control/exchange"
)

// Falling claims between sites. After a request the claims of unsaturated gateways fall in each period until they
// are 0, by one law: by the same part in the same time (drc.Ledger). So a record has the rate of the fall. The owner
// that receives it lets the claim fall by itself. The owner that sends it does so again when something is admitted,
// when gateways claim something else than what has become of the record, and when half of what was spent is refilled.
//
// While a site is cut off its claims stand as they were when it was received last. Then the owner asks for the keys of
// such claims.

const (
	// usualFall is the rate of the fall that an owner expects of a new key, 1/s: most filters measure demand over a
	// second. mostFall is more than any filter has.
	usualFall, mostFall = 1, 100
	// fallStep is the part by which a claim falls before it is announced again, and mayDiffer that by which what
	// gateways claim may differ from it. Gateways' claims come up to a period and a half late.
	fallStep, mayDiffer = 1. / 16, 1. / 8
	// leastClaim is the part of its fall below which a claim is 0. A filter withdraws a claim at a fiftieth.
	leastClaim = 1. / 40
	// leastLook is the least time in which a rate can be measured, checkEvery that between two looks at a key of which
	// nothing is admitted.
	leastLook, checkEvery = 100 * time.Millisecond, 250 * time.Millisecond
)

// falling is a record, as it was at a time. The unsaturated claims fall from then on, 1/s.
type falling struct {
	exchange.KeySum
	fall float64
	at   time.Duration // 0: there is none
}

// claimed returns all claims and the unsaturated claims that have become of a record.
func (f *falling) claimed(now time.Duration) (all, unsaturated float64) {
	unsaturated = fallen(f.Unsaturated, f.fall, now-f.at)
	return max(0, f.Claims-f.Unsaturated+unsaturated), unsaturated
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
	differs := func(x, y float64) bool { return math.Abs(x-y) > max(mayDiffer*max(x, y), 2*leastClaim*f.fall) }
	return differs(a.Claims, all) || differs(a.Unsaturated, unsaturated)
}

// counts reports whether gateways here have admitted something since the record, or are others or saturated.
func (f *falling) counts(a *claims.Outside) bool {
	return a.Admitted != f.Admitted || a.Active != f.Active || a.Epoch != f.Epoch
}

// refilled reports whether half of what was spent as of the record is refilled, or all.
func (f *falling) refilled(a *claims.Outside) bool {
	const leastSpent = .5 // whose half is not worth a record
	return a.Spent == 0 && f.Spent > 0 || f.Spent > leastSpent && a.Spent < f.Spent/2
}

// next returns the record to be sent now. The rate is that of the fall since the one before, if it was nothing else.
func (f *falling) next(now time.Duration, a *claims.Outside) falling {
	n := falling{KeySum: a.KeySum, fall: f.fall, at: max(now, 1)}
	switch past := now - f.at; {
	case f.at == 0:
		n.fall = usualFall
	case f.counts(a) || past < leastLook || a.Unsaturated == 0:
	case a.Unsaturated >= f.Unsaturated:
		n.fall = 0
	default:
		n.fall = min(math.Log(f.Unsaturated/a.Unsaturated)/past.Seconds(), mostFall)
	}
	return n
}

// keyAt is a key at which an owner looks again at a time.
type keyAt struct {
	key uint64
	at  time.Duration
}

// checkAgain has the owner look at a key of which it has sent a record.
func (s *site) checkAgain(now time.Duration, key uint64, u *siteUse) {
	if all, _ := u.said.claimed(now); !u.checked && (all > 0 || u.said.Spent > 0) {
		u.checked = true
		s.checks = append(s.checks, keyAt{key, now + checkEvery})
	}
}

// checkFalls queues the keys of which another site no longer has what gateways here claim and have spent.
func (t *Aggregator) checkFalls(now time.Duration, s *site) {
	n := 0
	for ; n < len(s.checks) && s.checks[n].at <= now; n++ {
		key := s.checks[n].key
		u, info := s.uses.get(key), t.ours.get(key)
		if u == nil {
			continue
		}
		u.checked = false
		if !u.used || u.said.at == 0 || info == nil {
			continue
		}
		a := t.owned.AtHome(key, now.Seconds(), info.onlyFlow())
		if u.said.departs(now, &a) || u.said.refilled(&a) {
			s.put(key, u)
		} else {
			s.checkAgain(now, key, u)
		}
	}
	s.checks = append(s.checks[:0], s.checks[n:]...)
}

// letFall has the claims of the other sites fall that do.
func (t *Aggregator) letFall(now time.Duration, s *site) {
	if len(s.falls) == 0 || now < s.fallAt {
		return
	}
	s.fallAt = now + t.o.Period
	s.proxy.seq++
	stay := s.falls[:0]
	for _, key := range s.falls {
		u := s.uses.get(key)
		switch {
		case u == nil:
			continue
		case !u.began || u.fall == 0 || u.Unsaturated == 0:
			u.falls = false
			continue
		case u.fall*(now-u.at).Seconds() >= fallStep:
			u.fallTo(now)
			t.announceProxy(now, s, u, false)
		}
		stay = append(stay, key)
	}
	s.falls = stay
}

// willFall notes that the claim of another site falls from now on.
func (s *site) willFall(u *siteUse) {
	if u.began && !u.falls && u.fall > 0 && u.Unsaturated > 0 {
		u.falls = true
		s.falls = append(s.falls, u.Key)
	}
}

// fallTo has a claim be as of a time, which may be earlier than that of which it is.
func (u *siteUse) fallTo(at time.Duration) {
	was := u.Unsaturated
	u.Unsaturated = fallen(was, u.fall, at-u.at)
	u.Claim = max(0, u.Claim-was+u.Unsaturated)
	u.at = at
}

// stand ends the fall of a claim of a site that is cut off, as of when it was received last.
func (s *site) stand(u *siteUse) {
	if u.fall > 0 && u.at > s.heard {
		u.fallTo(s.heard)
	}
	u.fall, u.stands = 0, true
}

// askAgain asks for the claims that stood while a site was cut off.
func (s *site) askAgain() {
	for i, key := range s.uses.keys {
		if u := s.uses.values[i]; u.stands {
			s.put(key, u)
		}
	}
}
