// Package history keeps the last hour of each pool, for people who look back. It does no I/O and reads no clock.
//
// # Model
//
//	allocation.Outcome ──Add──► the step that runs ──each Step──► a ring of samples, by pool
//
// A sample is the mean over the rounds of a [Step]. It names the tenants that were admitted the most in the round that
// ended the step. All is in memory: a coordinator that begins to lead begins with nothing.
//
// # Bounds
//
// A pool has at most [Samples] samples, of some 150 bytes each: 54 kB. At most [MaxPools] pools are kept, the first
// that came. A pool that is not in the outcome of a step loses its samples. A round is O(pools). The last round
// of a step is O(flows).
package history

import (
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/allocation"
)

const (
	// Step is the time between two samples, and Samples their number in an hour.
	Step, Samples = 10 * time.Second, 360
	// MaxPools bounds the pools whose history is kept.
	MaxPools = 512
	// tenants is the number of tenants that a sample names.
	tenants = 4
)

// History has the last hour of the pools that a coordinator leads. Not safe for concurrent use. The zero History is
// empty.
type History struct {
	pools map[string]*pool
	ends  time.Time // of the step that runs
}

type pool struct {
	since  time.Time
	sum    [7]float64 // over the rounds of the step that runs
	rounds int        // of the step
	ring   []sample
	next   int // place of the next sample, once the ring is full
}

// sample is a pool in the mean of a step.
type sample struct {
	at      time.Time
	values  [7]float64 // in the order of valuesOf
	tenants []share    // by name
}

// share has the rates of a tenant.
type share struct {
	tenant          string
	share, admitted float32
}

func valuesOf(p *allocation.PoolShare) [7]float64 {
	return [...]float64{p.Demand, p.Admitted, p.Capacity, p.FairRate, p.Waiting, p.Marked, p.Refused}
}

// Add takes the outcome of a round.
func (h *History) Add(now time.Time, o *allocation.Outcome) {
	if h.pools == nil {
		h.pools, h.ends = map[string]*pool{}, now.Add(Step)
	}
	for i := range o.Pools {
		h.addPool(now, &o.Pools[i])
	}
	if now.Before(h.ends) {
		return
	}
	best := most(o)
	for name, p := range h.pools {
		if p.rounds == 0 {
			delete(h.pools, name)
			continue
		}
		p.end(now, best[name])
	}
	h.ends = now.Add(Step)
}

func (h *History) addPool(now time.Time, of *allocation.PoolShare) {
	p := h.pools[of.Pool]
	if p == nil {
		if len(h.pools) >= MaxPools {
			return
		}
		p = &pool{since: now}
		h.pools[of.Pool] = p
	}
	p.rounds++
	for i, v := range valuesOf(of) {
		p.sum[i] += v
	}
}

// end makes a sample of the step that runs.
func (p *pool) end(now time.Time, most []share) {
	s := sample{at: now, values: p.sum, tenants: most}
	for i := range s.values {
		s.values[i] /= float64(p.rounds)
	}
	if len(p.ring) < Samples {
		p.ring = append(p.ring, s)
	} else {
		p.ring[p.next], p.next = s, (p.next+1)%Samples
	}
	p.sum, p.rounds = [7]float64{}, 0
}

// most returns the tenants that were admitted the most, by pool.
func most(o *allocation.Outcome) map[string][]share {
	out := map[string][]share{}
	for i := range o.Flows {
		f := &o.Flows[i]
		list := out[f.Pool]
		one := share{f.Tenant, float32(f.Share), float32(f.Admitted)}
		if f.Admitted <= 0 {
			continue
		}
		if len(list) < tenants {
			out[f.Pool] = append(list, one)
			continue
		}
		least := 0
		for j := range list {
			if list[j].admitted < list[least].admitted {
				least = j
			}
		}
		if list[least].admitted < one.admitted {
			list[least] = one
		}
	}
	for _, list := range out {
		slices.SortFunc(list, func(a, b share) int { return strings.Compare(a.tenant, b.tenant) })
	}
	return out
}

// Of returns the last hour of a pool, nil if the pool is not known.
func (h *History) Of(name string) *quotav1.PoolHistory {
	p := h.pools[name]
	if p == nil {
		return nil
	}
	out := &quotav1.PoolHistory{Pool: "pools/" + name, Since: timestamppb.New(p.since), Step: durationpb.New(Step)}
	for i := range p.ring {
		out.Samples = append(out.Samples, p.ring[(p.next+i)%len(p.ring)].message())
	}
	return out
}

func (s *sample) message() *quotav1.PoolSample {
	v := &s.values
	m := &quotav1.PoolSample{Time: timestamppb.New(s.at), Demand: float32(v[0]), Admitted: float32(v[1]),
		Capacity: float32(v[2]), FairRate: float32(v[3]), Waiting: float32(v[4]), Marked: float32(v[5]),
		Refused: float32(v[6])}
	for _, t := range s.tenants {
		m.Tenants = append(m.Tenants, &quotav1.TenantShare{Tenant: t.tenant, Share: t.share, Admitted: t.admitted})
	}
	return m
}
