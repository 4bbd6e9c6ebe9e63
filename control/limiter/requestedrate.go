package limiter

import (
	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/limiter/internal/keys"
)

// A request may state its own rate for a limit that has bounds for it ([config.RateBounds]). All requests of a client
// have one bucket, of the most that may be stated:
//
//	rate R = most, burst B = burst·most/rate        [config.Limit.Bucket]
//	a request that states r counts cost·R/r         weightOf
//
// So a client that states r has the rate r and the limit's burst in proportion. A request that states nothing has the
// limit's own rate. Since r ≤ R, Σ cost ≤ Σ cost·R/r ≤ R·t + B: a client that states several rates by turns gains
// nothing, and has at most what the bounds allow. Claims, sums and tokens are of the weighted cost. Their owners take R
// and B from their own configuration, and need not know what requests state.

// weightOf returns the weight that a request's cost has in the bucket of its client, at least 1.
func (w *subject) weightOf(l *limit) float64 {
	if l.bounds == nil || l.keys.Overrides(w.under(l)) {
		return 1
	}
	rate, ok := w.statedRate(l)
	switch {
	case ok:
	case l.plans[w.planNamed(l)] != nil:
		return 1 // in a bucket of the plan
	default:
		rate = l.bounds.own
	}
	return min(l.bounds.Most/rate, l.bounds.burst)
}

// statedRate returns the rate that the subject states, within the bounds. Not ok: it states none that can be read.
func (w *subject) statedRate(l *limit) (rate float64, ok bool) {
	stated, ok := config.ParseStatedRate(w.at(l.rateAt))
	if !ok {
		return 0, false
	}
	rate, _ = l.bounds.Of(stated)
	return rate, true
}

// bounds are the bounds of requested rates, compiled.
type bounds struct {
	config.RateBounds
	own   float64 // the limit's rate, cost units/s
	burst float64 // of the bucket: cost 1 always fits into it
}

func boundsOf(c *config.Limit) *bounds {
	if c.RequestedRate == (config.RateBounds{}) {
		return nil
	}
	return &bounds{c.RequestedRate, c.Rate, c.Bucket().Burst}
}

// weigh returns what a cost counts in the bucket.
func (w *subject) weigh(l *limit, cost int64) int64 {
	weight := w.weightOf(l)
	if weight == 1 {
		return cost
	}
	most := 2 * l.bounds.burst * unit // what a key can owe
	return int64(max(-most, min(float64(cost)*weight, most)))
}

// unweighed returns the use of a bucket as the numbers that the request has.
func unweighed(u keys.Usage, weight float64) keys.Usage {
	for _, n := range [...]*float64{&u.Limit.Rate, &u.Limit.Burst, &u.Local.Rate, &u.Local.Burst, &u.Spent, &u.Known} {
		*n /= weight
	}
	return u
}

// countStated counts n requests whose stated rate a limit does not take.
func (e *Engine) countStated(w *subject, l *limit, n uint64) {
	text := w.at(l.rateAt)
	stated, ok := config.ParseStatedRate(text)
	switch _, within := l.bounds.Of(stated); {
	case text == "":
		e.stats.rateMissing.Add(n)
	case !ok:
		e.stats.rateMalformed.Add(n)
	case !within:
		e.stats.rateBounded.Add(n)
	}
}
