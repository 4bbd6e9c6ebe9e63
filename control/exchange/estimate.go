package exchange

import "time"

// SilentAfter is when an agent counts as silent that is linked and sends nothing, although
// its last sums had keys or flows: with those it sends sums every period.
const SilentAfter = 10 * DefaultPeriod

// Estimator replaces the agent's Sums in a gateway while the agent is silent. It assumes
// that the other replicas go on as they last claimed: each key's Admitted grows by
// Claims·dt, so the engine keeps charging shared limits for the others. The gateway does
// what an agent does that has lost the others (see [Isolation]), after the default times.
// The agent's next Sums replace the estimate. The zero Estimator has no sums. Not safe for
// concurrent use.
type Estimator struct {
	last      *Sums // received, or estimated since
	received  int64 // ns
	estimated int64 // ns, the time for which last is right
}

// Set records Sums of the agent.
func (e *Estimator) Set(now int64, s *Sums) { e.last, e.received, e.estimated = s, now, now }

// Estimate returns an estimate for now; nil if the agent is not silent, or there are no
// other replicas. linked says that the link to the agent is up.
func (e *Estimator) Estimate(now int64, linked bool) *Sums {
	silent := time.Duration(now - e.received)
	if e.last == nil || e.last.Replicas <= 1 {
		return nil
	}
	if linked && (silent < SilentAfter || len(e.last.Keys)+len(e.last.Flows) == 0) {
		return nil
	}
	next := *e.last
	next.Keys = make([]KeySum, len(e.last.Keys))
	copy(next.Keys, e.last.Keys)
	for i := range next.Keys {
		next.Keys[i].Admitted += next.Keys[i].Claims * time.Duration(now-e.estimated).Seconds()
	}
	next.Isolation = max(next.Isolation, isolationAfter(silent))
	e.last, e.estimated = &next, now
	return &next
}

func isolationAfter(silent time.Duration) Isolation {
	switch {
	case silent >= DefaultForgetAfter:
		return Alone
	case silent >= DefaultSplitAfter:
		return Split
	default:
		return Frozen
	}
}
