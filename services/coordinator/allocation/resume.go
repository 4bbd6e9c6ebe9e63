package allocation

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"
)

// Held has the leases of an earlier leader, as an agent has them.
type Held struct {
	Epoch int64 // of pools and flows that name none
	Pools []HeldPool
	Flows []HeldFlow
}

// HeldPool is an earlier leader's state of a pool: the rate that its upstream serves, if it is adaptive, and its loss
// κ.
type HeldPool struct {
	Pool           string
	Estimate, Loss float64
	Epoch          int64 // under which it was sent; 0: that of Held
}

// HeldFlow is a flow's share that an earlier leader has sent, and the demand then.
type HeldFlow struct {
	Flow
	Share, Demand float64
	Epoch         int64 // under which it was sent; 0: that of Held
}

// resumedSamples is the weight of a demand that an earlier leader has measured: as if it were the mean of so many
// rounds, which is Params.Smoothing at 250 ms.
const resumedSamples = 6

// Resume goes on from an agent's copy of an earlier leader's leases, so that a change of leaders alone changes no
// share. The agent uses the flows that it holds a lease of, until its reports show otherwise. Demands and estimates
// begin with those of the highest epoch, until the first reports are counted.
func (al *Allocator) Resume(now time.Time, name string, h *Held) {
	al.stirred = true
	if a := al.agents[name]; a != nil {
		for i := range h.Flows {
			if _, known := al.capacities[h.Flows[i].Pool]; !known {
				continue
			}
			if e := a.entry(h.Flows[i].Flow); e != nil {
				e.seq = a.seq
			}
		}
	}
	for _, p := range h.Pools {
		epoch := cmp.Or(p.Epoch, h.Epoch)
		al.upstreams[p.Pool].resume(epoch, p.Estimate)
		if _, known := al.capacities[p.Pool]; !known || al.goesOn(p.Pool) {
			continue
		}
		if state := al.pools[p.Pool]; state == nil || state.epoch < epoch {
			al.pools[p.Pool] = &poolState{epoch: epoch, loss: within(p.Loss, maxLoss)}
		}
	}
	for i := range h.Flows {
		if f := &h.Flows[i]; !al.goesOn(f.Pool) {
			al.resumeFlow(now, cmp.Or(f.Epoch, h.Epoch), f)
		}
	}
}

// goesOn reports whether the demand of a pool has been counted here.
func (al *Allocator) goesOn(pool string) bool { return al.counted && !al.collecting[pool] }

// Collect begins with pools that another coordinator led: Resume takes the leases that agents have of them, and reports
// count, but nothing of these pools is shared before Collected. Earlier state of the pools is dropped.
func (al *Allocator) Collect(pools []string) {
	if al.collecting == nil {
		al.collecting = make(map[string]bool, len(pools))
	}
	fresh := make(map[string]bool, len(pools))
	for _, name := range pools {
		al.collecting[name], fresh[name] = true, true
		delete(al.pools, name)
		if u := al.upstreams[name]; u != nil {
			u.epoch, u.stepped = 0, false
			u.law.Start(u.began)
		}
	}
	al.order = slices.DeleteFunc(al.order, func(f *flow) bool {
		if f.gone = fresh[f.key.Pool]; f.gone {
			delete(al.flows, f.key)
		}
		return f.gone
	})
	for _, a := range al.agents {
		a.order = slices.DeleteFunc(a.order, func(e *entry) bool {
			gone := fresh[e.key.Pool]
			if gone {
				delete(a.flows, e.key)
			}
			return gone
		})
	}
}

// Keep goes on collecting those pools alone that are led here still. It reports whether there are some.
func (al *Allocator) Keep(led func(pool string) bool) bool {
	maps.DeleteFunc(al.collecting, func(pool string, _ bool) bool { return !led(pool) })
	return len(al.collecting) > 0
}

// Collected shares all pools from the next round on.
func (al *Allocator) Collected() { al.collecting = nil }

func (al *Allocator) resumeFlow(now time.Time, epoch int64, h *HeldFlow) {
	capacity, known := al.capacities[h.Pool]
	demand := within(h.Demand, maxDemand*capacity)
	key := al.config.resolve(h.Flow)
	if !known || demand == 0 || al.flows[key] != nil && al.flows[key].epoch >= epoch {
		return
	}
	f := al.newFlow(now, key)
	f.epoch = epoch
	f.demand = estimate{mean: demand, dispersion: 1, samples: resumedSamples, resumed: true}
	f.admitted = math.Min(demand, within(h.Share, maxServed*capacity))
	f.lease.Share, f.lease.Demand, f.lease.Round = h.Share, demand, 1
}

// within brings a number into [0, most].
func within(v, most float64) float64 {
	if !(v > 0) {
		return 0
	}
	return math.Min(v, most)
}
