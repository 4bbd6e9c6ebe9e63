package allocation

import (
	"math"
	"time"

	"github.com/titrate/titrate/control/capacity"
)

// upstream is what the loop knows of an adaptive pool: its capacity is found from
// what gateways see of its answers, see capacity.Upstream.
type upstream struct {
	law      capacity.Upstream
	began    float64 // configured capacity that the estimate began with
	epoch    int64   // of the leader whose estimate it goes on from
	stepped  bool
	binding  bool // the pool was full in the last round
	answers  capacity.Answers
	inFlight float64
}

// adapt keeps the upstreams of the pools that are adaptive. An estimate begins
// with the configured capacity, and again when that changes.
func (r *Allocator) adapt(pools []Pool) {
	kept := map[string]*upstream{}
	for i := range pools {
		p := &pools[i]
		if p.Adaptive == (Range{}) {
			continue
		}
		u := r.upstreams[p.Name]
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
	r.upstreams = kept
}

// Resume takes what an agent knows of an adaptive pool's estimate from the leases of
// a leader before, until something is known here. Of several the newest counts.
func (r *Allocator) Resume(epoch int64, pool string, estimate float64) {
	u := r.upstreams[pool]
	if u == nil || u.stepped || epoch <= u.epoch || !(estimate > 0) {
		return
	}
	u.epoch = epoch
	u.law.Start(estimate)
}

// add gathers what one agent saw of a flow, over span.
func (u *upstream) add(e *entry) {
	u.answers.Completed += e.answered
	u.answers.Residence += e.residing
	u.answers.Shed += e.refused
	u.answers.InFlight += e.inFlight
}

// A round is taken to be so long, seconds: the rates that are known are those of
// its windows, however long they were.
const shortest, longest = .05, 2

// follow steps the estimates after reports over span were gathered.
func (r *Allocator) follow(span time.Duration) {
	for _, u := range r.upstreams {
		a := u.answers
		u.answers = capacity.Answers{}
		u.inFlight = a.InFlight
		if span == 0 {
			continue
		}
		h := math.Min(math.Max(span.Seconds(), shortest), longest)
		a.Span, a.Binding = h, u.binding
		a.Completed, a.Residence, a.Shed = a.Completed*h, a.Residence*h, a.Shed*h
		u.law.Step(a)
		u.stepped = true
	}
}

// present is a pool as it is to be shared now.
func (r *Allocator) present(p *Pool) Pool {
	now := *p
	if u := r.upstreams[p.Name]; u != nil {
		now.Capacity = u.law.Capacity()
	}
	return now
}

// tell notes what a round made of an adaptive pool, and says what is known of it.
func (r *Allocator) tell(out *PoolShare) {
	out.Estimate = out.Capacity
	if u := r.upstreams[out.Pool]; u != nil {
		u.binding = out.FairRate > 0
		out.Adaptive, out.Estimate = true, u.law.Estimate()
		out.InFlight, out.Backlog, out.Stay = u.inFlight, u.law.Backlog(), u.law.BaseLatency()
	}
}
