package swarm

import (
	"math"
	"math/rand/v2"

	"github.com/titrate/titrate/control/limiter"
)

// Miss is a target that a cell misses, what was measured, and what no law could better. Use,
// over-admission and refusals are parts of 1, settling is in lags.
type Miss struct {
	Target        string // a letter of Result.Misses
	Figure, Bound float64
	// Physics: the figure is at the bound, or within two standard errors of a run so short.
	Physics bool
}

// Missed is each target that the cell misses, with its bound.
func (r Result) Missed() (missed []Miss) {
	for _, of := range []func() (Miss, bool){r.missedUse, r.missedOver, r.missedSettling, r.missedRefused} {
		if m, miss := of(); miss {
			missed = append(missed, m)
		}
	}
	return missed
}

// missedUse holds the worst use of even, lone and skewed demand against that of one bucket
// for the whole limit, with room for one request that waits.
func (r Result) missedUse() (Miss, bool) {
	use := min(r.UseEven, r.UseLone, r.UseSkewed)
	m := Miss{Target: "u", Figure: use, Bound: overload * (1 - central(overload, limiter.Bucket(r.Rate, false)+1))}
	m.Bound = min(m.Bound, 1)
	m.Physics = use >= m.Bound-errors(m.Bound, r.Rate*r.effort.span(r.Cell, r.Lag))
	return m, use < TargetUse
}

// missedOver compares the highest window after a join with a bucket that holds one full request at each replica
// that joins. With a smaller bucket no request could pass at once.
func (r Result) missedOver() (Miss, bool) {
	over := max(r.OverQuarter, r.OverStrict)
	if r.OverStrict > TargetOverStrict && r.OverQuarter <= TargetOverQuarter {
		over = r.OverStrict
	}
	m := Miss{Target: "o", Figure: over, Bound: float64(r.Replicas/2) / (r.Rate * r.effort.window(r.Cell))}
	m.Physics = over <= m.Bound
	return m, r.OverStrict > TargetOverStrict || r.OverQuarter > TargetOverQuarter
}

// missedSettling compares the settling time with the time in which a replica can distinguish a doubled demand
// from chance. In T seconds μT requests are expected and 2μT come, with a variance of 2μT. The difference is
// three standard deviations when μT = 3·√(2μT), so T = 18/μ. If the rates have not settled by the end of the
// run, the whole run counts as settling time.
func (r Result) missedSettling() (Miss, bool) {
	m := Miss{Target: "s", Figure: r.Settling, Bound: 18 / (r.Rate / float64(r.Replicas) * r.Lag)}
	took := r.Settling
	if math.IsInf(took, 1) {
		took = r.effort.watched(r.Cell, r.Lag) / r.Lag
	}
	m.Physics = took <= m.Bound
	return m, !(r.Settling <= TargetSettling)
}

// missedRefused holds what was refused against one bucket for the same demand, whose requests
// may wait as long as the queue lets them. It is all demand at the whole limit (calm), or
// that of one replica at its share (below). It is the demand that is worse against its bound.
func (r Result) missedRefused() (Miss, bool) {
	each := r.Rate / float64(r.Replicas)
	bound := func(figure, rate, load, lasts float64) Miss {
		b := central(load, limiter.Bucket(rate, false)+rate*maxWait)
		return Miss{Target: "r", Figure: figure, Bound: b, Physics: figure <= b+errors(b, load*rate*lasts)}
	}
	m := bound(r.RefusedCalm, r.Rate, calmLoad, r.effort.span(r.Cell, r.Lag))
	other := bound(r.RefusedBelow, each, belowLoad, r.effort.span(Cell{each, r.Replicas, r.Delay}, r.Lag))
	if r.RefusedCalm <= TargetRefused || r.RefusedBelow > TargetRefused && m.Physics && !other.Physics {
		m = other
	}
	return m, max(r.RefusedCalm, r.RefusedBelow) > TargetRefused
}

// errors is two standard errors of a part that was measured with n requests; of less than one
// request nothing is known.
func errors(part, n float64) float64 {
	if n < 1 {
		return 1
	}
	return 2 * math.Sqrt(part*(1-part)/n)
}

// central is the part that one token bucket refuses of Poisson arrivals of such a load, in
// parts of its rate. room is b + r·W: what the bucket holds and what may wait, in requests. It
// plays 300,000 arrivals. At a load of 0.8 it comes close to
//
//	0.2165·e^(−0.431·room)
//
// from above: 0.431 is θ in load·(e^θ − 1) = θ, by which the backlog of an M/D/1 queue falls.
func central(load, room float64) float64 {
	const arrivals = 300_000
	rng := rand.New(rand.NewPCG(1, 1))
	work, refused := 0.0, 0.0 // work: tokens missing and requests that wait
	for range arrivals {
		if work = max(0, work-rng.ExpFloat64()/load); work <= room-1 {
			work++
		} else {
			refused++
		}
	}
	return refused / arrivals
}
