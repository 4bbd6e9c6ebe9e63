package allocation

import (
	"math"
	"time"

	"github.com/titrate/titrate/control/fairshare"
	"github.com/titrate/titrate/control/pricing"
)

// PoolShare is the outcome of a round for one pool, units/s.
type PoolShare struct {
	Pool      string
	Capacity  float64 // shared now
	Demand    float64 // measured, of all flows
	Admitted  float64
	Price     float64 // 0 while slack, +Inf when guarantees alone use it up
	FairRate  float64 // share of weight 1; 0 while slack
	IdleShare float64 // of a flow without a lease of its own
	Standing  float64 // leased beyond the capacity: guarantees not used, room to swing
	// Infeasible: the guarantees that are asked for exceed the capacity.
	Infeasible bool
	// Of an adaptive pool: what it is believed to serve (Capacity where it is
	// fixed), the cost at its upstream now and of it what waits there, and the mean
	// stay of a request without a backlog, seconds.
	Adaptive                          bool
	Estimate, InFlight, Backlog, Stay float64
}

// wakers is how many idle flows may wake within one round before a pool that has
// room for them is over-committed.
const wakers = 4

// idlePart of the headroom of a full pool is for flows that have just woken.
const idlePart = .25

// trim is what a full pool is filled beyond its capacity because part of what is
// granted stays unused: probes, queues that were served out of a burst, a split
// among gateways that lags. It integrates the capacity not admitted,
//
//	spill += dt/trimTime·(1 − admitted/μ),  0 ≤ spill ≤ headroom·(1 − idlePart)
//
// and comes out of the headroom, so that the sum of shares stays below 1.02·μ.
// Without it saturated tenants pay 3–5 % of their share for the others' noise.
type trim struct {
	warm  float64 // fair rate of the last round
	spill float64 // part of the capacity
}

const (
	trimTime = 10 * time.Second
	// transient is the unused part above which a change is under way, or an outage:
	// nothing to be made good.
	transient = .1
)

// step moves the trim after a round over reports of length dt.
func (t *trim) step(dt time.Duration, full bool, unused, most float64) {
	gain := math.Min(dt.Seconds()/trimTime.Seconds(), 1)
	if !full || unused > transient {
		unused = -t.spill
	}
	t.spill = math.Min(math.Max(t.spill+gain*unused, 0), most)
}

// solver computes one pool's shares. Its slices are reused from round to round.
type solver struct {
	params  *Params
	pool    *Pool
	free    float64 // capacity that is left for limited flows
	target  float64 // what a full pool is filled to
	flows   []*flow // active and limited
	caps    []fairshare.Demand
	scratch []fairshare.Demand
	shares  []float64

	standing float64 // leased beyond the capacity for flows to swing into
}

// solve fills the pool and writes share and bound into its flows. It keeps the
// fair rate in t.
func (s *solver) solve(t *trim) PoolShare {
	out := PoolShare{Pool: s.pool.Name, Capacity: s.pool.Capacity}
	wants := 0.0
	s.standing = 0
	s.resize()
	for i, f := range s.flows {
		want := f.probe.want(f.demand.mean) + f.drain(s.params)
		s.caps[i] = fairshare.Demand{
			Weight: f.terms.weight, Guaranteed: f.terms.guaranteed, Cap: math.Min(want, f.terms.max),
		}
		wants += s.caps[i].Cap
	}
	headroom := s.params.Headroom * s.free
	if wants <= s.free {
		out.IdleShare = s.spread(math.Max(s.free-wants, headroom))
		return out
	}
	r := s.full(t, headroom)
	t.warm = r.FairRate
	out.Standing = s.standing
	out.Price, out.Infeasible = r.Price, r.Status == fairshare.Infeasible
	out.FairRate = r.FairRate
	if math.IsInf(r.FairRate, 1) { // the caps without their queues fit after all
		out.FairRate, out.Price = 0, 0
	}
	out.IdleShare = idlePart * headroom
	if out.FairRate > 0 {
		out.IdleShare = math.Min(out.IdleShare, out.FairRate)
	}
	return out
}

func (s *solver) resize() {
	if n := len(s.flows); cap(s.caps) < n {
		s.caps, s.scratch, s.shares = make([]fairshare.Demand, n, 2*n), make([]fairshare.Demand, n, 2*n), make([]float64, n, 2*n)
	} else {
		s.caps, s.scratch, s.shares = s.caps[:n], s.scratch[:n], s.shares[:n]
	}
}

// full shares a pool in which not everybody gets what he asks for. What waits is
// not a demand that lasts: it is served out of the headroom as far as that goes,
// and only the rest is filled as demand, or saturated tenants would pay for the
// queues of the others.
func (s *solver) full(t *trim, headroom float64) fairshare.Result {
	s.target = s.free * (1 + t.spill)
	headroom = headroom*(1-idlePart) - s.free*t.spill
	for i, f := range s.flows {
		s.caps[i].Cap = math.Min(f.probe.want(f.demand.mean), f.terms.max)
	}
	r := s.fill(t.warm)
	queued, asked := 0.0, 0.0
	for i, f := range s.flows {
		if s.satisfied(r, i) {
			queued += f.drain(s.params)
		}
	}
	if excess := queued - headroom; excess > 0 {
		for i, f := range s.flows {
			if s.satisfied(r, i) {
				s.caps[i].Cap = math.Min(s.caps[i].Cap+f.drain(s.params)*excess/queued, f.terms.max)
			}
		}
		r = s.fill(r.FairRate)
		queued -= excess
	}
	for i := range s.flows {
		if s.satisfied(r, i) {
			asked += s.shares[i]
		}
	}
	s.reserve(r, headroom, queued, asked)
	s.sway(r)
	return r
}

// roomSigma is how far above its mean, in standard deviations of one second, a
// flow may swing without waiting for a round.
const roomSigma = 3

// sway gives satisfied flows room to swing about their mean: up to their fair
// share, together at most Params.Room of the capacity. Nobody pays for it unless
// it is used, and what is used for longer than a round is demand, and filled as
// such. Without it a flow below its fair share queues on the noise of its own
// arrivals, and its clients are rejected for what the tenant never overused.
func (s *solver) sway(r fairshare.Result) {
	total := 0.0
	room := func(i int) float64 {
		f := s.flows[i]
		if f.bound != ByDemand || math.IsInf(r.FairRate, 1) {
			return 0
		}
		d := s.filled(i)
		d.Cap = f.terms.max
		return math.Max(math.Min(roomSigma*f.demand.deviation(), r.Share(d)-f.share), 0)
	}
	for i := range s.flows {
		total += room(i)
	}
	scale := math.Min(1, s.params.Room*s.free/math.Max(total, 1e-9))
	for i, f := range s.flows {
		f.share += scale * room(i)
	}
	s.standing = scale * total
}

// reserve gives the headroom to satisfied flows: first against what waits (queued
// in sum), then in proportion to what they asked for. It sets all shares.
func (s *solver) reserve(r fairshare.Result, headroom, queued, asked float64) {
	drained := 0.0
	for i := range s.flows {
		if s.satisfied(r, i) {
			drained += s.flows[i].drain(s.params)
		}
	}
	rest := math.Max(headroom-queued, 0)
	for i, f := range s.flows {
		share := s.shares[i]
		bound := s.bound(r, i)
		if bound == ByDemand {
			if drained > 0 {
				share += queued * f.drain(s.params) / drained
			}
			if asked > 0 {
				share += rest * s.shares[i] / asked
			}
			share = math.Min(share, f.terms.max)
		}
		f.share, f.bound = share, bound
	}
}

// fill runs the pool's law over caps.
func (s *solver) fill(warm float64) fairshare.Result {
	if s.pool.Sharing == Proportional {
		return pricing.Pool(s.target, s.caps, s.pool.Guarantee, s.pool.Alpha, warm, s.scratch, s.shares)
	}
	return fairshare.Fill(s.target, s.caps, s.pool.Guarantee, warm, s.shares)
}

// satisfied tells whether flow i got all that it asked for and could have more.
func (s *solver) satisfied(r fairshare.Result, i int) bool { return s.bound(r, i) == ByDemand }

// filled is flow i as it was filled: with the effective weight of the pool's law.
func (s *solver) filled(i int) fairshare.Demand {
	if s.pool.Sharing == Proportional && pricing.Exponent(s.pool.Alpha) != 1 {
		return s.scratch[i]
	}
	return s.caps[i]
}

// bound is what holds the share of flow i.
func (s *solver) bound(r fairshare.Result, i int) Bound {
	d := s.filled(i)
	switch r.Bound(d) {
	case fairshare.BoundCap:
		if d.Cap >= s.flows[i].terms.max {
			return ByMax
		}
		return ByDemand
	case fairshare.BoundGuarantee:
		return ByGuarantee
	default:
		return ByPool
	}
}

// spread shares a pool that has room for all: every flow gets what it asks for
// (caps) and a part of extra, half by demand and half by weight, up to its
// maximum. A flow that would wake counts as one of weight 1; its part is returned.
func (s *solver) spread(extra float64) (idle float64) {
	weights, demands := 1.0, 0.0
	for _, d := range s.caps {
		weights += d.Weight
		demands += d.Cap
	}
	byWeight, byDemand := extra/weights, 0.0
	if demands > 0 {
		byWeight, byDemand = byWeight/2, extra/2/demands
	}
	base := 0.0
	for i := range s.caps {
		d := &s.caps[i]
		base += d.Cap
		d.Guaranteed, d.Weight = d.Cap, byWeight*d.Weight+byDemand*d.Cap
		d.Cap = s.flows[i].terms.max
	}
	r := fairshare.Fill(base+extra-byWeight, s.caps, fairshare.Additive, 1, s.shares)
	for i, f := range s.flows {
		f.share, f.bound = s.shares[i], ByDemand
		if f.share >= f.terms.max && s.caps[i].Guaranteed >= f.terms.max {
			f.bound = ByMax
		}
	}
	if r.FairRate > 1 && !math.IsInf(r.FairRate, 1) {
		byWeight *= r.FairRate
	}
	return math.Min(byWeight, extra/wakers)
}
