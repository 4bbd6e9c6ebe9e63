package verdict

import (
	"math"

	"github.com/titrate/titrate/services/dev/scenario"
)

// The bounds that a run must keep, and what the run itself must be like to be judged.
const (
	// maxDeviation of a saturated tenant from its fair share in steady.
	maxDeviation = .05
	// maxWait of a saturated tenant in steady, over all gateways, at the 99th
	// percentile of what is admitted, in delay targets, as far as so few requests tell.
	maxWait = 1.5
	// minEntitlement that each tenant gets of what it is entitled to, in every phase.
	minEntitlement = .90
	// poolMean is the long-run mean admitted over the capacity.
	poolMean = 1.02
	// clientMean is the long-run mean of a limited client over its rate, after
	// the one burst that it may have.
	clientMean = 1.02
	// clientLeast is what it gets at least of its rate when it asks for more.
	clientLeast = .98

	// maxLateP99Ms and maxDropped void a run.
	maxLateP99Ms = 50
	maxDropped   = .001

	// gossipLag is δ of docs/control.md, the gossip's delay and 2.5 periods, s: the
	// product's period is 50 ms, loopback and scheduling take less than 10 ms.
	gossipLag = .135
	// round is the coordinator's period, s.
	round = .25
	// follow is the time in which the coordinator follows a change of demand that
	// it cannot tell from noise at once (package coordinator/allocation), s.
	follow = 1.5
)

// A pool of capacity μ admits at most poolMean·μ·t + burst in any window t, the
// burst being what stands in buckets and what may be overdrawn before the
// coordinator notices.

// buckets is what T tenants on N gateways may have saved up, requests: the enzyme
// of each flow at each gateway, B = max(1, min(10, .25·share/N)).
func buckets(s *scenario.Scenario) float64 {
	return math.Min(.25*s.Pool.Capacity, 10*float64(len(s.Tenants)*len(s.Gateways)))
}

// overdraft is what tenants may use beyond the capacity in a window of a phase,
// requests: of the margin (package coordinator/allocation) .1·μ, for the two rounds in
// which the others still keep their shares; and the jumps of guarantees, which a tenant may use at once,
// until the coordinator has followed them.
func overdraft(s *scenario.Scenario, phase int, window float64) float64 {
	total := .1 * s.Pool.Capacity * 2 * round
	for i := range s.Tenants {
		t := &s.Tenants[i]
		if phase > 0 {
			jump := math.Min(t.Guaranteed, t.Rate(phase)) - math.Min(t.Guaranteed, t.Rate(phase-1))
			total += math.Max(0, jump) * math.Min(follow, window)
		}
	}
	return total
}

// meanBound bounds the pool's mean over the measured part of a phase, requests/s.
func meanBound(s *scenario.Scenario, phase int) float64 {
	p := &s.Phases[phase]
	length := p.End - p.Start - p.Settle
	return s.Pool.Capacity*poolMean + overdraft(s, phase, length)/length
}

// slidingBound bounds what the pool may admit in any second that ends in a phase.
// Where everything starts cold, all replicas join all flows within one gossip lag,
// each on its immediate part φ = .25 of the share: another .12·μ, the bound
// for such a join in the grid of docs/measurements.md.
func slidingBound(s *scenario.Scenario, phase int) float64 {
	bound := s.Pool.Capacity*poolMean + buckets(s) + overdraft(s, phase, 1)
	if s.Phases[phase].Settle > 0 {
		bound += .12 * s.Pool.Capacity
	}
	return bound
}

// slack is the excess over rate·t + burst that N gateways may admit together,
// docs/control.md: (Lc − b) + (N − 1) + (2^p + 1)·r·δ. One gateway has none but the
// request that timing at the observer may add.
func slack(l *scenario.Limit, gateways int) float64 {
	if gateways <= 1 {
		return 1
	}
	rd := l.Rate * gossipLag
	room := math.Max(l.Burst, 3+rd) - l.Burst
	return room + float64(gateways-1) + (math.Exp2(order(rd))+1)*rd
}

// order is p, the reaction order of the ledger's pacing.
func order(rd float64) float64 {
	switch {
	case rd <= .25:
		return 3
	case rd <= 1:
		return 2
	}
	return 1
}

// excessBound bounds a limited client's worst excess of the windows that end in a
// phase: the slack; and one burst more where an agent is cut off or comes back, for
// two meshes that do not hear each other keep a ledger each, until they settle.
func excessBound(s *scenario.Scenario, phase int, l *scenario.Limit) float64 {
	bound := slack(l, len(s.Gateways))
	for _, e := range s.Phases[phase].Events {
		if e.Fault == scenario.CutAgent || e.Fault == scenario.HealAgent {
			return bound + l.Burst
		}
	}
	return bound
}

// grace is how long, before and after, the ideal bucket must turn nothing away
// for its client to count as below its limit, s.
func grace(l *scenario.Limit, gateways int) float64 {
	return (l.Burst + slack(l, gateways)) / l.Rate
}
