package measure

import (
	"math"
	"time"

	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/lab/simulate/system"
)

// enough is the number of cost units that must be expected before a deviation is counted: with fewer, one
// request is more than 2 %.
const enough = 50

// Finish ends the recording and gives the figures.
func (p *Recorder) Finish(name string, series bool) System {
	p.Unanswered()
	s := System{Name: name, Requests: p.all.requests(), Waits: p.all.waits.result(), Settling: p.settling(),
		Pools: []Pool{}, Flows: []Flow{}, Keys: []Key{}}
	for i := range p.pools {
		s.Pools = append(s.Pools, p.pool(i))
	}
	for i := range p.flows {
		s.Flows = append(s.Flows, p.flow(i))
	}
	for i := range p.keys {
		s.Keys = append(s.Keys, p.key(i))
	}
	s.InFlight = p.inFlightResult()
	s.Quotas = p.quotaResult()
	if series {
		s.Series = p.series()
	}
	return s
}

func (t *counters) requests() Requests {
	r := Requests{Offered: t.offer, Admitted: t.counts[system.Admitted], Marked: t.marked,
		Rejected:  t.counts[system.Rejected],
		Abandoned: t.counts[system.Abandoned], Lost: t.counts[system.Lost]}
	r.Waiting = r.Offered - r.Admitted - r.Rejected - r.Abandoned - r.Lost
	for i, n := range t.reason {
		if n > 0 {
			if r.Reasons == nil {
				r.Reasons = map[string]int{}
			}
			r.Reasons[limiter.Reason(i).String()] = n
		}
	}
	return r
}

func (p *Recorder) pool(i int) Pool {
	reference, recorded := &p.t.pools[i], &p.pools[i]
	out := Pool{Pool: reference.name, HighestSecond: recorded.worst.highest, WorstExcess: max(0, recorded.worst.excess)}
	var seconds, capacity, wanted, wantedCapacity float64
	for at, ph := range p.t.phases {
		if !ph.judged {
			continue
		}
		span := ph.seconds()
		seconds += span
		capacity += reference.capacity[at] * span
		out.Demand += reference.demand[at] * span
		out.Admitted += recorded.served[at]
		if reference.demand[at] >= reference.capacity[at]*(1+margin) {
			out.WantedSeconds += span
			wanted += recorded.served[at]
			wantedCapacity += reference.capacity[at] * span
		}
	}
	out.Capacity, out.Demand, out.Admitted = capacity/seconds, out.Demand/seconds, out.Admitted/seconds
	out.Use, out.WantedUse = ratio(out.Admitted, out.Capacity), ratio(wanted, wantedCapacity)
	return out
}

// ratio is a/b, 0 without b.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func (p *Recorder) flow(i int) Flow {
	reference, recorded := &p.t.flows[i], &p.flows[i]
	out := Flow{Tenant: reference.tenant, Pool: reference.pool, Requests: recorded.requests(),
		Waits:  recorded.waits.result(),
		Weight: p.t.s.InForce.Quota(reference.tenant, reference.pool).Weight, Wrongful: recorded.wrongful,
		LeastServed: 1}
	var seconds float64
	for at, ph := range p.t.phases {
		if !ph.judged {
			continue
		}
		span := ph.seconds()
		seconds += span
		out.Demand += reference.rates[at] * span
		out.Entitlement += reference.fair[at] * span
		served := p.t.sum(recorded.served, ph.from, ph.to)
		out.Served += served
		if due := reference.fair[at] * span; due >= enough {
			out.LeastServed = min(out.LeastServed, served/due)
		}
		if reference.saturated[at] {
			p.judge(&out, reference.fair[at], recorded.served, ph)
		}
	}
	out.Wanted, out.Demand, out.Entitlement, out.Served = reference.wanted/seconds, out.Demand/seconds,
		out.Entitlement/seconds, out.Served/seconds
	return out
}

// judge takes in how far a saturated flow is off in the settled part of a phase.
func (p *Recorder) judge(out *Flow, fair float64, served []float64, ph phase) {
	first, after := p.t.within(ph.settled(), ph.to)
	span := float64(after-first) * p.t.bin.Seconds()
	due := fair * span
	if due < enough {
		return
	}
	out.SaturatedSeconds += span
	got := 0.0
	for _, x := range served[first:after] {
		got += x
	}
	if off := math.Abs(got/due - 1); off > out.WorstDeviation {
		out.WorstDeviation, out.WorstAtSeconds = off, (time.Duration(first) * p.t.bin).Seconds()
	}
}

// sum adds up bins between two times; a bin that one of the times divides counts in part.
func (t *Reference) sum(bins []float64, from, to time.Duration) float64 {
	total := 0.0
	for i := t.binOf(from); i < t.bins && time.Duration(i)*t.bin < to; i++ {
		start, end := time.Duration(i)*t.bin, time.Duration(i+1)*t.bin
		part := min(end, to) - max(start, from)
		total += bins[i] * float64(part) / float64(t.bin)
	}
	return total
}

func (p *Recorder) key(i int) Key {
	reference, recorded, k := &p.t.keys[i], &p.keys[i], &p.cast.Keys[i]
	out := Key{Tenant: k.Tenant, Limit: k.Limit, Client: k.Client, Rate: k.Rate, Burst: k.Burst,
		Offered: reference.offered, Admitted: recorded.admitted, Central: reference.central,
		Rejected:    recorded.rejected,
		WorstExcess: max(-k.Burst, recorded.worst.excess), HighestSecond: recorded.worst.highest,
		AboveSeconds: reference.aboveSeconds, AboveMean: ratio(recorded.above, reference.aboveSeconds),
		AboveCentral: ratio(reference.aboveCentral, reference.aboveSeconds),
		Within:       reference.within, Wrongful: recorded.wrongful,
		WrongfulShare: ratio(float64(recorded.wrongful), float64(reference.within))}
	return out
}
