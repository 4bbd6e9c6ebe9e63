package verdict

import (
	"math"

	"github.com/titrate/titrate/services/dev/scenario"
)

// The bounds of the issue and of DESIGN.md, and what the run must be like.
const (
	// maxDeviation of a saturated tenant from its fair share in steady.
	maxDeviation = .05
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

	// gossipLag is δ of CONTROL.md §1, delay plus period of the gossip, s: the
	// product's period is 50 ms, loopback and scheduling take less than another.
	gossipLag = .1
	// round is the coordinator's period, s.
	round = .25
)

// A pool of capacity μ admits at most poolMean·μ·t + burst in any window t. The
// bound on the sliding second is that; the bound on a phase's mean leaves the burst
// out, because what is spent at once is repaid.

// poolBurst is that burst in a phase, for T tenants on N gateways, requests: the
// enzyme's bucket of each flow at each gateway, B = max(1, min(10, .25·share/N)),
// at most min(.25·μ, 10·T·N) together, which flows that had paused may spend at
// once; the room to swing, .1·μ for two rounds of coordination; and the jumps of
// guarantees: a tenant may use its guarantee at once, while the others keep their
// shares for two rounds.
func poolBurst(s *scenario.Scenario, phase int) float64 {
	mu := s.Pool.Capacity
	burst := math.Min(.25*mu, 10*float64(len(s.Tenants)*len(s.Gateways))) + .1*mu*2*round
	if phase == 0 {
		return burst
	}
	for i := range s.Tenants {
		t := &s.Tenants[i]
		jump := math.Min(t.Guaranteed, t.Rate(phase)) - math.Min(t.Guaranteed, t.Rate(phase-1))
		burst += math.Max(0, jump) * 3 * round
	}
	return burst
}

// slidingBound bounds what the pool may admit in any second that ends in a phase.
// Where everything starts cold, all replicas join all flows within one gossip lag,
// each on its immediate part φ = .25 of the share: another .12·μ, the most that
// CONTROL.md §1 measured for that.
func slidingBound(s *scenario.Scenario, phase int) float64 {
	bound := s.Pool.Capacity*poolMean + poolBurst(s, phase)
	if s.Phases[phase].Settle > 0 {
		bound += .12 * s.Pool.Capacity
	}
	return bound
}

// slack is the excess over rate·t + burst that N gateways may admit together,
// CONTROL.md §1: (Lc − b) + (N − 1) + 2^p·r·δ. One gateway has none but the
// request that timing at the observer may add.
func slack(l *scenario.Limit, gateways int) float64 {
	if gateways <= 1 {
		return 1
	}
	rd := l.Rate * gossipLag
	room := math.Max(l.Burst, 3+rd) - l.Burst
	return room + float64(gateways-1) + math.Exp2(order(rd))*rd
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

// grace is how long, before and after, the ideal bucket must turn nothing away
// for its client to count as below its limit, s.
func grace(l *scenario.Limit, gateways int) float64 {
	return (l.Burst + slack(l, gateways)) / l.Rate
}
