package measure

import (
	"math"
	"time"

	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/services/simulate/system"
)

// enough is how many cost units must be expected for a deviation to be counted:
// with fewer, one request is more than 2 %.
const enough = 50

// Finish ends the recording and gives the figures.
func (p *Tape) Finish(name string, series bool) System {
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
	if series {
		s.Series = p.series()
	}
	return s
}

func (t *tally) requests() Requests {
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

func (p *Tape) pool(i int) Pool {
	truth, tape := &p.t.pools[i], &p.pools[i]
	out := Pool{Pool: truth.name, HighestSecond: tape.worst.highest, WorstExcess: max(0, tape.worst.excess)}
	var seconds, capacity, wanted, wantedCapacity float64
	for at, ph := range p.t.phases {
		if !ph.judged {
			continue
		}
		span := ph.seconds()
		seconds += span
		capacity += truth.capacity[at] * span
		out.Demand += truth.demand[at] * span
		out.Admitted += tape.served[at]
		if truth.demand[at] >= truth.capacity[at]*(1+margin) {
			out.WantedSeconds += span
			wanted += tape.served[at]
			wantedCapacity += truth.capacity[at] * span
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

func (p *Tape) flow(i int) Flow {
	truth, tape := &p.t.flows[i], &p.flows[i]
	out := Flow{Tenant: truth.tenant, Pool: truth.pool, Requests: tape.requests(), Waits: tape.waits.result(),
		Weight: p.t.s.InForce.Quota(truth.tenant, truth.pool).Weight, Wrongful: tape.wrongful, LeastServed: 1}
	var seconds float64
	for at, ph := range p.t.phases {
		if !ph.judged {
			continue
		}
		span := ph.seconds()
		seconds += span
		out.Demand += truth.rates[at] * span
		out.Entitlement += truth.fair[at] * span
		served := p.t.sum(tape.served, ph.from, ph.to)
		out.Served += served
		if due := truth.fair[at] * span; due >= enough {
			out.LeastServed = min(out.LeastServed, served/due)
		}
		if truth.saturated[at] {
			p.judge(&out, truth.fair[at], tape.served, ph)
		}
	}
	out.Wanted, out.Demand, out.Entitlement, out.Served = truth.wanted/seconds, out.Demand/seconds,
		out.Entitlement/seconds, out.Served/seconds
	return out
}

// judge takes in how far a saturated flow is off in the settled part of a phase.
func (p *Tape) judge(out *Flow, fair float64, served []float64, ph phase) {
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

// sum is what bins hold between two times; bins cut by them count in part.
func (t *Truth) sum(bins []float64, from, to time.Duration) float64 {
	total := 0.0
	for i := t.binOf(from); i < t.bins && time.Duration(i)*t.bin < to; i++ {
		start, end := time.Duration(i)*t.bin, time.Duration(i+1)*t.bin
		part := min(end, to) - max(start, from)
		total += bins[i] * float64(part) / float64(t.bin)
	}
	return total
}

func (p *Tape) key(i int) Key {
	truth, tape, k := &p.t.keys[i], &p.keys[i], &p.cast.Keys[i]
	out := Key{Tenant: k.Tenant, Limit: k.Limit, Client: k.Client, Rate: k.Rate, Burst: k.Burst,
		Offered: truth.offered, Admitted: tape.admitted, Central: truth.central, Rejected: tape.rejected,
		WorstExcess: max(-k.Burst, tape.worst.excess), HighestSecond: tape.worst.highest,
		AboveSeconds: truth.aboveSeconds, AboveMean: ratio(tape.above, truth.aboveSeconds),
		AboveCentral: ratio(truth.aboveCentral, truth.aboveSeconds),
		Within:       truth.within, Wrongful: tape.wrongful,
		WrongfulShare: ratio(float64(tape.wrongful), float64(truth.within))}
	return out
}
