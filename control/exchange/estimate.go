package exchange

import "time"

// SilentAfter is the time after which an agent that is linked and sends nothing, although
// others claim something, counts as unreachable: it should send sums every period.
const SilentAfter = 10 * DefaultPeriod

// Estimator decides when a gateway has to go on without its agent, which sends nothing. The
// gateway then assumes that the other replicas go on as they last claimed (see
// limiter.Engine.GoOn). It behaves like an agent that has lost the others (see
// [Isolation]), after the default times. The agent's next Sums end that. The zero Estimator
// has no sums. Not safe for concurrent use.
type Estimator struct {
	replicas  int
	isolation Isolation
	lag       time.Duration
	received  int64 // ns
}

// Set records Sums of the agent.
func (e *Estimator) Set(now int64, s *Sums) {
	e.replicas, e.isolation, e.lag, e.received = s.Replicas, s.Isolation, s.Lag, now
}

// Silent reports whether the agent sends nothing although there are other replicas; then it
// returns when the last sums were received and how isolated the gateway is now. linked says
// that the link to the agent is up, claimed that other replicas claim something.
func (e *Estimator) Silent(now int64, linked, claimed bool) (since int64, isolation Isolation, silent bool) {
	silence := time.Duration(now - e.received)
	if e.replicas <= 1 || linked && (silence < SilentAfter || !claimed) {
		return 0, Connected, false
	}
	return e.received, max(e.isolation, isolationAfter(silence, e.lag)), true
}

// isolationAfter is never Frozen for longer than the others surely count the last claim: a lag before
// T2 at most.
func isolationAfter(silent, lag time.Duration) Isolation {
	switch {
	case silent >= DefaultForgetAfter:
		return Alone
	case silent >= min(DefaultSplitAfter, DefaultForgetAfter-lag):
		return Split
	default:
		return Frozen
	}
}
