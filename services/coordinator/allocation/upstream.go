package allocation

import (
	"math"
	"time"

	"github.com/titrate/titrate/control/capacity"
)

// upstream is the state of the upstream of an adaptive pool. Its capacity is estimated from what gateways see of its
// answers, see capacity.Upstream.
type upstream struct {
	law      capacity.Upstream
	began    float64 // configured capacity that the estimate began with
	epoch    int64   // of the leader whose estimate this one continues
	stepped  bool
	full     bool // the pool was full in the last round
	answers  capacity.Answers
	inFlight float64
}

// configureUpstreams keeps an upstream for each adaptive pool. Its estimate begins with the configured capacity, and
// restarts when that changes.
func (al *Allocator) configureUpstreams(pools []Pool) {
	kept := map[string]*upstream{}
	for i := range pools {
		p := &pools[i]
		if p.Adaptive == (Range{}) {
			continue
		}
		u := al.upstreams[p.Name]
		if u == nil {
			u = &upstream{law: capacity.Upstream{Delay: 1}}
		}
		u.law.Bound(p.Adaptive.Min, p.Adaptive.Max)
		if u.began != p.Capacity {
			u.began = p.Capacity
			u.law.Start(p.Capacity)
		}
		kept[p.Name] = u
	}
	al.upstreams = kept
}

// resume begins with the estimate of an earlier leader.
func (u *upstream) resume(epoch int64, estimate float64) {
	if u == nil || u.stepped || epoch <= u.epoch || !(estimate > 0) {
		return
	}
	u.epoch = epoch
	u.law.Start(estimate)
}

// add adds what one agent saw of a flow.
func (u *upstream) add(e *entry) {
	u.answers.Completed += e.rate.completed
	u.answers.Residence += e.rate.residence
	u.answers.Shed += e.rate.shed
	u.answers.InFlight += e.inFlight
}

// shortestSpan and longestSpan bound the length of a round that the estimates are stepped by, seconds.
const shortestSpan, longestSpan = .05, 2

// stepUpstreams steps the estimates with what was reported over span.
func (al *Allocator) stepUpstreams(span time.Duration) {
	for name, u := range al.upstreams {
		a := u.answers
		u.answers = capacity.Answers{}
		u.inFlight = a.InFlight
		if span == 0 || al.collecting[name] {
			continue
		}
		h := math.Min(math.Max(span.Seconds(), shortestSpan), longestSpan)
		a.Span, a.Binding = h, u.full
		a.Completed, a.Residence, a.Shed = a.Completed*h, a.Residence*h, a.Shed*h
		u.law.Step(a)
		u.stepped = true
	}
}

// atPresentCapacity is the pool with the capacity to share now.
func (al *Allocator) atPresentCapacity(p *Pool) Pool {
	now := *p
	if u := al.upstreams[p.Name]; u != nil {
		now.Capacity = u.law.Capacity()
	}
	return now
}

// addUpstream adds what is known of an adaptive pool to its outcome, and notes whether the pool is full.
func (al *Allocator) addUpstream(out *PoolShare) {
	out.Estimate = out.Capacity
	if u := al.upstreams[out.Pool]; u != nil {
		u.full = out.FairRate > 0
		out.Adaptive, out.Estimate = true, u.law.Estimate()
		out.InFlight, out.Backlog, out.Stay = u.inFlight, u.law.Backlog(), u.law.BaseLatency()
	}
}
