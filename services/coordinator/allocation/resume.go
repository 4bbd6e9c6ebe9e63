package allocation

import (
	"math"
	"time"
)

// Held is what an agent knows of an earlier leader's leases.
type Held struct {
	Epoch int64
	Pools []HeldPool
	Flows []HeldFlow
}

// HeldPool is what an earlier leader knew of a pool: what its upstream serves, if it is
// adaptive, and its loss κ.
type HeldPool struct {
	Pool           string
	Estimate, Loss float64
}

// HeldFlow is a flow's share that an earlier leader has told, and the demand then.
type HeldFlow struct {
	Flow
	Share, Demand float64
}

// resumedSamples is how much of a demand counts that an earlier leader has measured: as if it
// were the mean of so many rounds, which is Params.Smoothing at 250 ms.
const resumedSamples = 6

// Resume goes on from what an agent that has connected knows of an earlier leader's leases, so
// that the change of leaders changes no share by itself: the agent uses the flows that it holds
// a lease of, until its reports show otherwise. Demands and estimates begin with those of the
// highest epoch, until the first reports are counted.
func (al *Allocator) Resume(now time.Time, name string, h *Held) {
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
		al.upstreams[p.Pool].resume(h.Epoch, p.Estimate)
		if _, known := al.capacities[p.Pool]; !known || al.counted {
			continue
		}
		if state := al.pools[p.Pool]; state == nil || state.epoch < h.Epoch {
			al.pools[p.Pool] = &poolState{epoch: h.Epoch, loss: within(p.Loss, maxLoss)}
		}
	}
	if al.counted {
		return
	}
	for i := range h.Flows {
		al.resumeFlow(now, h.Epoch, &h.Flows[i])
	}
}

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
