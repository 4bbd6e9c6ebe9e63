package aggregation

import (
	"math"
	"time"

	"github.com/titrate/titrate/control/claims"
	"github.com/titrate/titrate/control/exchange"
)

// announced is the last announcement of a replica for a key.
type announced struct {
	exchange.KeyClaim // as the filter sent it
	flow              bool
	withdrawn         bool
	owed              bool          // it has fallen since it was sent
	wasOwned          bool          // Owned in the last report
	at                time.Duration // last listed, or when withdrawn
	changed           time.Duration // it claimed or admitted something last
	before            float64       // counts that the filter finished within this generation
	told              claimTold     // to other agents
	sent              time.Duration // all agents that take it were to be sent it last
	fell              time.Duration // another agent as the owner was to be sent it last
}

// claimTold is the last report of a claim.
type claimTold struct {
	at                      time.Duration // 0: nothing
	admitted, claim, active float64
	spent                   float64
}

// noteTold notes that the present claim is queued for other agents.
func (a *announced) noteTold(now time.Duration) {
	a.told = claimTold{max(now, 1), a.before + a.Admitted, a.Claim, a.Active, a.Spent}
	a.wasOwned = a.Owned
}

// moved reports whether a claim differs from the last report of it: in what is claimed, by more than a tolerance. It
// does if gateways go by claims again.
func (a *announced) moved() bool {
	w := &a.told
	if w.at == 0 || a.before+a.Admitted != w.admitted || a.Active != w.active || a.Spent != w.spent ||
		a.Owned != a.wasOwned {
		return true
	}
	return (a.Claim > 0) != (w.claim > 0) || math.Abs(a.Claim-w.claim) > tolerance*max(a.Claim, w.claim)
}

// fallEvery is the least time between two reports of a claim that only falls while the key's owner decides, ownersFall
// that to an owner from which other sites have it.
const fallEvery, ownersFall = time.Second, 200 * time.Millisecond

// onlyFalls reports whether the key's owner decides, and nothing was claimed or admitted since the last report.
func (a *announced) onlyFalls() bool {
	w := &a.told
	return a.Owned && a.before+a.Admitted == w.admitted && a.Active == w.active && falls(w.claim, a.Claim) &&
		falls(w.spent, a.Spent)
}

// falls reports whether a number becomes less without being 0.
func falls(from, to float64) bool { return from >= to && (from > 0) == (to > 0) }

// replace puts an announcement in the place of the one before, which is empty for a new key.
func (a *announced) replace(now time.Duration, by *announced) {
	by.at, by.changed, by.before = now, a.changed, a.before
	if a.withdrawn && by.Admitted < a.Admitted { // the filter has begun to count anew
		by.before += a.Admitted
	}
	if by.Claim > 0 || by.Active > 0 || by.Admitted != a.Admitted || a.at == 0 || now-a.at < often {
		by.changed = now
	}
	if !a.withdrawn {
		by.told, by.wasOwned, by.sent, by.fell, by.owed = a.told, a.wasOwned, a.sent, a.fell, a.owed
	}
	*a = *by
}

func (a *announced) record(o *local) claims.Record {
	r := claims.Record{KeyClaim: a.KeyClaim, Generation: o.tableGeneration, Seq: o.seq}
	r.Admitted += a.before
	if o.site == "" {
		r.Unsaturated = unsaturated(r.Claim, r.Active)
	}
	return r
}

// unsaturated is the claim of a replica that does not want more than it has.
func unsaturated(claim, active float64) float64 {
	if active == 0 {
		return claim
	}
	return 0
}
