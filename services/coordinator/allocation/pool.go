package allocation

import (
	"math"
	"time"

	"github.com/titrate/titrate/control/fairshare"
	"github.com/titrate/titrate/control/pricing"
)

const (
	// idleFlows divides the margin for flows without a lease: each may use B/idleFlows. One of them is set aside; with
	// more that begin to send in one round, B is exceeded by as much each. Larger gives each of them less.
	idleFlows = 8
	// marginSigma is the margin of a full pool, in standard deviations of the arrivals in one second. Larger: fewer
	// refusals by noise, more overcommitment.
	marginSigma = 3
	// leastMargin is the part of ρ that a full pool has as margin without any noise.
	leastMargin = .25
)

// sharePool shares one pool among its active flows and adds the leases of idle flows that
// the pool's idle share does not fit. It is the law of the package comment.
func (al *Allocator) sharePool(p *Pool, flows []*flow, out *Outcome) PoolShare {
	s := &al.solver
	s.params, s.pool, s.free, s.flows = &al.params, p, p.Capacity, s.flows[:0]
	demand, admitted, events := 0.0, 0.0, Events{Refused: al.refused[p.Name]}
	for _, f := range flows {
		demand += f.demand.mean
		admitted += f.admitted
		events.add(f.reported, f.waiting)
		if f.settings.off {
			f.share, f.bound = f.demand.mean, ByDemand
			s.free -= f.admitted
			continue
		}
		s.flows = append(s.flows, f)
	}
	state := al.pools[p.Name]
	if state == nil {
		state = &poolState{}
		al.pools[p.Name] = state
	}
	s.free = math.Max(s.free, 0)
	s.target = s.free * (1 + state.loss)
	share := s.solve(state.fairRate)
	share.Demand, share.Admitted, share.Events = demand, admitted, events
	state.fairRate = share.FairRate
	state.stepLoss(al.span, 1-admitted/p.Capacity)
	share.Loss = state.loss
	scale := al.guaranteeScale(p)
	share.GuaranteeScale = scale
	for _, f := range flows {
		share.Overcommit += f.raiseToGuarantee(scale)
		out.Flows = append(out.Flows, f.outcome())
	}
	for _, key := range al.quotas[p.Name] {
		if al.flows[key] == nil {
			al.addIdle(key, scale, &share, out)
		} else {
			delete(al.idle, key)
		}
	}
	return share
}

// add adds a flow's.
func (e *Events) add(u usageNow, waiting float64) {
	e.Waiting += waiting
	e.Marked += u.marked
	e.Refused += u.refused
}

// poolState is the allocator's state of one pool.
type poolState struct {
	epoch    int64   // of the leader whose loss this one continues
	fairRate float64 // of the last round
	loss     float64 // κ: part of a full pool's capacity that is leased and stays unused
}

const (
	lossTime = 10 * time.Second // time constant of the loss
	maxLoss  = .04              // larger uses small pools better and may overload large ones
	// maxUnused is the unused part of a full pool above which its demand is changing, or
	// gateways are lost: the loss then sinks towards 0.
	maxUnused = .1
)

// stepLoss integrates the unused part of a full pool, after reports over span.
func (p *poolState) stepLoss(span time.Duration, unused float64) {
	if p.fairRate == 0 || !(unused <= maxUnused) {
		unused = -p.loss
	}
	p.loss = min(max(p.loss+min(span.Seconds()/lossTime.Seconds(), 1)*unused, 0), maxLoss)
}

// solver computes steps 1 and 2 of the law. Its slices are reused from round to round.
type solver struct {
	params  *Params
	pool    *Pool
	free    float64 // μ less what OFF flows are served
	target  float64 // C
	flows   []*flow // active and limited
	demands []fairshare.Demand
	scratch []fairshare.Demand
	shares  []float64
}

// solve sets share and bound of the flows. warm is the fair rate of the last round.
func (s *solver) solve(warm float64) PoolShare {
	s.resize()
	filled := s.fill(warm)
	used, variance := 0.0, 0.0
	for i, f := range s.flows {
		f.share, f.bound = s.shares[i], s.bound(filled, i)
		used += f.share
		if f.bound == ByDemand {
			variance += f.demand.variance()
		}
	}
	most := s.params.Margin * s.target
	margin := math.Max(s.target-used, math.Min(most, leastMargin*most+marginSigma*math.Sqrt(variance)))
	out := PoolShare{
		Pool: s.pool.Name, Capacity: s.pool.Capacity, Infeasible: filled.Status == fairshare.Infeasible,
		IdleShare: s.addMargin(filled, margin), Unused: math.Max(s.free-used, 0),
	}
	if !math.IsInf(filled.FairRate, 1) {
		out.FairRate, out.Price = filled.FairRate, filled.Price
	}
	if out.FairRate > 0 {
		out.IdleShare = math.Min(out.IdleShare, out.FairRate)
	}
	leased := 0.0
	for _, f := range s.flows {
		leased += f.share
	}
	out.Overcommit = math.Max(leased-s.free, 0)
	return out
}

func (s *solver) resize() {
	n := len(s.flows)
	if cap(s.demands) < n {
		s.demands, s.scratch = make([]fairshare.Demand, n, 2*n), make([]fairshare.Demand, n, 2*n)
		s.shares = make([]float64, n, 2*n)
	}
	s.demands, s.scratch, s.shares = s.demands[:n], s.scratch[:n], s.shares[:n]
}

// fill is step 1: it shares C by the law of the pool among measured demands.
func (s *solver) fill(warm float64) fairshare.Result {
	for i, f := range s.flows {
		s.demands[i] = fairshare.Demand{
			Weight: f.settings.weight, Guaranteed: f.settings.guaranteed, Cap: math.Min(f.demand.mean, f.settings.max),
		}
	}
	if s.pool.Sharing == Proportional {
		return pricing.Pool(s.target, s.demands, s.pool.Guarantee, s.pool.Alpha, warm, s.scratch, s.shares)
	}
	return fairshare.Fill(s.target, s.demands, s.pool.Guarantee, warm, s.shares)
}

// filled is flow i as it was filled: with the effective weight of the pool's law.
func (s *solver) filled(i int) fairshare.Demand {
	if s.pool.Sharing == Proportional && pricing.Exponent(s.pool.Alpha) != 1 {
		return s.scratch[i]
	}
	return s.demands[i]
}

// bound returns the rule that limits the share of flow i after step 1.
func (s *solver) bound(r fairshare.Result, i int) Bound {
	d := s.filled(i)
	switch r.Bound(d) {
	case fairshare.BoundCap:
		if d.Cap >= s.flows[i].settings.max {
			return ByMax
		}
		return ByDemand
	case fairshare.BoundGuarantee:
		return ByGuarantee
	default:
		return ByPool
	}
}

// addMargin is step 2: it shares the margin among the flows that have all that they ask
// for, each up to its fair share. It returns the share of a flow without a lease.
func (s *solver) addMargin(filled fairshare.Result, margin float64) (idle float64) {
	idle = margin / idleFlows
	margin -= idle
	noise, weights, queues := least, least, least
	for _, f := range s.flows {
		if f.bound == ByDemand {
			noise += math.Sqrt(f.demand.variance())
			weights += f.settings.weight
			queues += f.queueRate(s.params)
		}
	}
	served := math.Min(1, margin/queues)
	for i, f := range s.flows {
		fair := s.filled(i)
		s.demands[i] = fairshare.Demand{}
		if f.bound == ByDemand {
			fair.Cap = f.settings.max
			s.demands[i] = fairshare.Demand{
				Guaranteed: served * f.queueRate(s.params),
				Weight:     math.Sqrt(f.demand.variance())/noise + f.settings.weight/weights,
				Cap:        math.Max(filled.Share(fair)-f.share, 0),
			}
		}
	}
	fairshare.Fill(margin, s.demands, fairshare.Additive, margin/2, s.shares)
	for i, f := range s.flows {
		f.share += s.shares[i]
	}
	return idle
}

// least keeps quotients of sums that may be 0 finite.
const least = 1e-9

// guaranteeScale is the factor that makes all guarantees of a pool together fit it.
func (al *Allocator) guaranteeScale(p *Pool) float64 {
	total := 0.0
	for _, key := range al.quotas[p.Name] {
		total += al.config.Quotas[key].Guaranteed
	}
	if total <= p.Capacity {
		return 1
	}
	return p.Capacity / total
}

// raiseToGuarantee is step 3 for an active flow. It returns the rise of the share.
func (f *flow) raiseToGuarantee(scale float64) float64 {
	if f.settings.off {
		return 0
	}
	if f.settings.weight == 0 && f.bound == ByMax {
		f.bound = ByGuarantee
	}
	rise := math.Max(f.settings.guaranteed*scale-f.share, 0)
	f.share += rise
	return rise
}

// addIdle is step 3 for a flow without arrivals. It leases what the pool's idle share does
// not say: the guarantee, or the maximum if that is smaller.
func (al *Allocator) addIdle(key Flow, scale float64, pool *PoolShare, out *Outcome) {
	q := al.config.settings(key)
	share := math.Max(q.guaranteed*scale, math.Min(pool.IdleShare, q.max))
	if share == pool.IdleShare || q.off {
		delete(al.idle, key)
		return
	}
	lease := al.idle[key]
	if lease == nil {
		lease = &Lease{Flow: key}
		al.idle[key] = lease
	}
	pool.Overcommit += math.Max(share-pool.IdleShare, 0)
	bound := ByGuarantee
	if share < pool.IdleShare {
		bound = ByMax
	}
	out.Flows = append(out.Flows, FlowShare{
		Flow: key, Share: share, Bound: bound, Weight: q.weight, Guaranteed: q.guaranteed, Max: q.max, Lease: lease,
	})
}
