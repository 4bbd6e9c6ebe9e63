package verdict

import (
	"math"
	"time"

	"github.com/titrate/titrate/lab/dev/scenario"
	"github.com/titrate/titrate/lab/judge"
)

// The bounds that a run must keep, and the conditions under which a run can be judged.
const (
	// maxDeviation of a saturated tenant from its fair share in steady.
	maxDeviation = .05
	// maxWait bounds a saturated tenant's mean wait in steady, over all gateways, in delay targets. The lateness
	// of the machine is added: of the load's starts, and on the path to the upstream. Over a minute the 99th
	// percentile is 1.5 targets at most (package control/limiter). The phase is too short to judge that: a queue
	// that is long for half a second makes its 99th percentile.
	maxWait = 1
	// minEntitlement is the least part of its entitlement that each tenant gets in every phase.
	minEntitlement = .90
	// clientMean is the long-run mean of a limited client over its rate, after
	// the one burst and the slack that it may have.
	clientMean = 1.02
	// clientLeast is the least part of its rate that a client gets when it asks for more.
	clientLeast = .98

	// maxLateP99Ms, of starts and on the path to the upstream, and maxDropped void a run.
	maxLateP99Ms = 50
	maxDropped   = .001

	// gossipDelay is the most that loopback and scheduling take.
	gossipDelay = 10 * time.Millisecond
	// follow is the time in which the coordinator follows a change of demand that
	// it cannot distinguish from noise at once (package coordinator/allocation), s.
	follow = 1.5
)

// A pool of capacity μ admits at most Mean·t + burst in any window t. The burst is the tokens in buckets, and
// the overdraft until the coordinator notices.

// pool is the scenario's.
func pool(s *scenario.Scenario) judge.Pool { return judge.Pool{Capacity: s.Pool.Capacity} }

// overdraft returns the cost that tenants may use beyond the capacity in a window of a phase, requests. It is
// the pool's swing, and the jumps of guarantees and of unshared demand, which a tenant may use at once, until
// the coordinator has followed them.
func overdraft(s *scenario.Scenario, phase int, window float64) float64 {
	total := pool(s).Swing()
	for i := range s.Tenants {
		t := &s.Tenants[i]
		if phase > 0 {
			jump := t.Sure(t.Rate(phase)) - t.Sure(t.Rate(phase-1))
			total += math.Max(0, jump) * math.Min(follow, window)
		}
	}
	return total
}

// frozen returns the cost that the tenants of limited clients may use beyond the capacity in [from, to),
// requests. While an agent is cut off, a gateway below its share may use 1.5 times its last claim, and the
// other gateways keep their rates (docs/guarantees.md).
func frozen(s *scenario.Scenario, from, to float64) (sum float64) {
	for _, c := range cuts(s) {
		seconds := max(0, min(to, c.joined)-max(from, c.from))
		for _, t := range s.Tenants {
			for _, client := range t.Clients {
				if client.Limit != nil {
					sum += client.Limit.Rate / 2 * seconds
				}
			}
		}
	}
	return sum
}

// meanBound bounds the pool's mean over the measured part of a phase, requests/s.
func meanBound(s *scenario.Scenario, phase int) float64 {
	p := &s.Phases[phase]
	length := p.End - p.Start - p.Settle
	more := overdraft(s, phase, length) + frozen(s, p.Start+p.Settle, p.End)
	return pool(s).Mean() + more/length
}

// slidingBound bounds the pool's admitted requests in any second that ends in a phase.
func slidingBound(s *scenario.Scenario, phase int) float64 {
	p := pool(s)
	bound := p.Mean() + p.Saved(len(s.Tenants)*len(s.Gateways)) + overdraft(s, phase, 1)
	if s.Phases[phase].Settle > 0 {
		bound += p.ColdStart()
	}
	return bound
}

// slack is the excess over rate·t + burst that N gateways may admit together. It is the
// stated one without the part for a cold start, and at least the one request that timing at
// the observer may add.
func slack(l *scenario.Limit, gateways int) float64 {
	limit := judge.Limit{Rate: l.Rate, Burst: l.Burst}
	if l.Exact {
		return limit.ExactSlack(gossipDelay)
	}
	stated, _ := limit.Slack(gateways, judge.Lag(gateways, gossipDelay, false))
	return max(1, stated)
}

// excessBound bounds a limited client's worst excess of the windows that end in a phase. It has the
// excess of connected gateways, and in addition the excess of two sides of a cut.
func excessBound(s *scenario.Scenario, phase int, c *scenario.Client) float64 {
	p := &s.Phases[phase]
	return whole(c, len(s.Gateways)) + allowance(s, c.Limit, p.Start, p.End)
}

// whole bounds the excess of gateways that receive each other's claims. It is the slack. If the client
// rushes, it has for a LOCAL limit also the cost that gateways that start cold one right after the
// other admit once.
func whole(c *scenario.Client, gateways int) float64 {
	bound := slack(c.Limit, gateways)
	if c.Process == scenario.Rush && !c.Limit.Exact {
		limit := judge.Limit{Rate: c.Limit.Rate, Burst: c.Limit.Burst}
		_, cold := limit.Slack(gateways, judge.Lag(gateways, gossipDelay, false))
		bound += cold
	}
	return bound
}

// grace returns the time, before and after a request, in which the ideal bucket must reject no request for the
// client to count as below its limit.
func grace(l *scenario.Limit, gateways int) time.Duration {
	return at((l.Burst + slack(l, gateways)) / l.Rate)
}
