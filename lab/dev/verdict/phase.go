package verdict

import (
	"time"

	"github.com/titrate/titrate/lab/dev/scenario"
	"github.com/titrate/titrate/lab/dev/trace"
	"github.com/titrate/titrate/lab/judge"
)

// tally counts one tenant or client over a phase's measured window.
type tally struct {
	offered, demand, admitted, rejected, marked float64
	waits                                       []float64 // ms, of the admitted
}

// phase computes the figures of phase i.
func (j *evidence) phase(i int) Phase {
	p := &j.s.Phases[i]
	out := Phase{Name: p.Name, Start: p.Start, End: p.End, MeasuredFrom: p.Start + p.Settle}
	tenants, clients := j.count(i, out.MeasuredFrom, p.End)
	seconds := p.End - out.MeasuredFrom
	for _, t := range j.s.Tenants {
		for _, c := range t.Clients {
			if c.Limit != nil { // a client's repayment reduces its tenant's entitlement
				owed := j.clients[c.Name].owed(c.Limit, out.MeasuredFrom)
				tenants[t.Name].demand -= min(owed, clients[c.Name].demand)
			}
		}
		out.Tenants = append(out.Tenants, tenants[t.Name].tenant(&t, seconds))
		for _, c := range t.Clients {
			if c.Limit != nil {
				out.Clients = append(out.Clients, j.client(&c, i, clients[c.Name], seconds))
			}
		}
	}
	fill(j.s.Pool.Capacity, out.Tenants, j.s.Tenants)
	out.Pool = Pool{Capacity: j.s.Pool.Capacity}
	for _, t := range out.Tenants {
		out.Pool.Offered += t.Offered
		out.Pool.Demand += t.Demand
		out.Pool.Admitted += t.Admitted
	}
	out.Pool.MaxSliding1s = highestSecond(j.admissions, p.Start, j.until(i))
	for k := range j.sent {
		if j.s.PhaseAt(j.sent[k].T) == i && j.sent[k].Failed() && j.sent[k].Error != trace.Dropped {
			out.Failed++
		}
	}
	return out
}

// until returns the end of phase i for figures that leave nothing out: the last phase includes requests that
// end after the run.
func (j *evidence) until(i int) float64 {
	if i == len(j.s.Phases)-1 {
		return 1e18
	}
	return j.s.Phases[i].End
}

// highestSecond is the most that was admitted in any second that ends in [from, to).
// Times are sorted, s.
func highestSecond(times []float64, from, to float64) (most float64) {
	second := judge.Window{Width: time.Second}
	for _, t := range times {
		if n := second.Admit(at(t), 1); t >= from && t < to {
			most = max(most, n)
		}
	}
	return most
}

// count tallies per tenant and per client the requests offered in [from, to), by intended time, and admitted in
// it, by time of admission.
func (j *evidence) count(phase int, from, to float64) (tenants, clients map[string]*tally) {
	tenants, clients = map[string]*tally{}, map[string]*tally{}
	for _, t := range j.s.Tenants {
		tenants[t.Name] = &tally{}
		for _, c := range t.Clients {
			clients[c.Name] = &tally{}
		}
	}
	within := func(t float64) bool { return t >= from && t < to }
	for i := range j.sent {
		r := &j.sent[i]
		t, c := tenants[r.Tenant], clients[r.Client]
		if t == nil || c == nil {
			continue // not of this scenario
		}
		if within(r.T) {
			t.offer(r, j.conforming[i])
			c.offer(r, j.conforming[i])
		}
		if r.Admitted() && within(r.AdmittedAt()) {
			t.admit(r)
			c.admit(r)
		}
	}
	return tenants, clients
}

func (t *tally) offer(r *trace.Record, conforming bool) {
	t.offered++
	if conforming {
		t.demand++
	}
	if r.Status == 429 {
		t.rejected++
	}
}

func (t *tally) admit(r *trace.Record) {
	t.admitted++
	t.waits = append(t.waits, r.WaitMs)
	if r.Mark {
		t.marked++
	}
}

func (t *tally) tenant(of *scenario.Tenant, seconds float64) Tenant {
	return Tenant{
		Name:       of.Name,
		Weight:     of.Weight,
		Offered:    t.offered / seconds,
		Demand:     t.demand / seconds,
		Admitted:   t.admitted / seconds,
		Rejected:   t.rejected / seconds,
		Marked:     t.marked / seconds,
		WaitMeanMs: judge.Mean(t.waits),
		WaitP99Ms:  judge.Quantile(t.waits, .99),
	}
}

func (j *evidence) client(of *scenario.Client, phase int, t *tally, seconds float64) Client {
	sum := j.clients[of.Name]
	return Client{
		Name:        of.Name,
		Rate:        of.Limit.Rate,
		Burst:       of.Limit.Burst,
		Exact:       of.Limit.Exact,
		Offered:     t.offered / seconds,
		Admitted:    t.admitted / seconds,
		WorstExcess: sum.worstExcess[phase],
		Wrongful429: sum.wrongful[phase],
	}
}
