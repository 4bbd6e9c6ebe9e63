package measure

import (
	"time"

	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/lab/simulate/system"
	"github.com/titrate/titrate/lab/simulate/traffic"
)

// Recorder records the answers of a system. Give it each request before the system, and each answer as it
// comes.
type Recorder struct {
	t    *Reference
	cast *traffic.Cast // as this pass has it

	id      int
	current traffic.Request
	open    bool // the current one has no answer yet
	waiting map[int]traffic.Request

	all   counters
	flows []flowRecord
	pools []poolRecord
	keys  []keyRecord
	gates [][]float64 // admitted cost by gateway and bin
	limit [][]float64 // admitted cost by limit and bin

	inFlight inFlight
	quotas   []Quota
}

// counters count requests and waits.
type counters struct {
	counts [system.Fates]int
	offer  int
	marked int
	reason [limiter.Reasons]int
	waits  waits
}

type flowRecord struct {
	counters
	served   []float64 // cost by bin
	wrongful int
}

type poolRecord struct {
	worst  worst
	served []float64 // cost by phase
}

type keyRecord struct {
	worst                        worst
	admitted, rejected, wrongful int
	above                        float64 // cost admitted in phases above the rate
}

// Record begins a recorder for a system that plays with this cast.
func (t *Reference) Record(cast *traffic.Cast) *Recorder {
	p := &Recorder{t: t, cast: cast, waiting: map[int]traffic.Request{}, flows: make([]flowRecord, len(t.flows)),
		pools: make([]poolRecord, len(t.pools)), keys: make([]keyRecord, len(t.keys))}
	p.inFlight.keys = make([]inFlightKey, len(cast.InFlight))
	p.quotas = make([]Quota, len(cast.Quotas))
	for i := range p.pools {
		p.pools[i].worst = newWorst()
	}
	for i := range p.keys {
		p.keys[i].worst = newWorst()
	}
	for i := range p.flows {
		p.flows[i].served = make([]float64, t.bins)
	}
	for i := range p.pools {
		p.pools[i].served = make([]float64, len(t.phases))
	}
	for range t.gates {
		p.gates = append(p.gates, make([]float64, t.bins))
	}
	for range t.limits {
		p.limit = append(p.limit, make([]float64, t.bins))
	}
	p.Changed(0)
	return p
}

// Changed notes that the keys have new numbers from now on, or that a pool has.
func (p *Recorder) Changed(now time.Duration) {
	for i := range p.keys {
		k := &p.cast.Keys[i]
		if l := &p.keys[i].worst.level; l.Rate != k.Rate || l.Burst != k.Burst {
			l.Set(now, k.Rate, k.Burst)
		}
	}
	at := p.t.phaseOf(now)
	for i := range p.pools {
		p.pools[i].worst.level.Set(now, p.t.pools[i].capacity[at], 0)
	}
}

// Offered notes the request that is about to be offered to the system.
func (p *Recorder) Offered(id int, r *traffic.Request) {
	p.Unanswered()
	p.id, p.current, p.open = id, *r, true
	p.all.offer++
	p.flows[p.t.flowOf[r.Client]].offer++
	for _, k := range p.cast.Clients[r.Client].InFlight {
		p.inFlight.keys[k].offered++
	}
	for _, k := range p.cast.Clients[r.Client].Spends {
		p.quotas[k].Wanted += r.Cost
	}
}

// Unanswered notes that the offer has ended: a request without an answer waits.
func (p *Recorder) Unanswered() {
	if p.open {
		p.waiting[p.id], p.open = p.current, false
	}
}

// Answer takes in an answer. One without a question is ignored.
func (p *Recorder) Answer(a system.Answer) {
	r, ok := p.current, p.open
	if p.open && a.ID == p.id {
		p.open = false
	} else if r, ok = p.waiting[a.ID]; ok {
		delete(p.waiting, a.ID)
	}
	if !ok || a.Fate >= system.Fates {
		return
	}
	judged := r.At >= p.t.warm
	p.all.count(a, a.At-r.At, judged)
	f := p.t.flowOf[r.Client]
	p.flows[f].count(a, a.At-r.At, judged)
	c := &p.cast.Clients[r.Client]
	if len(c.InFlight) > 0 {
		p.answered(a, &r, c)
	}
	for _, k := range c.Spends {
		p.quotas[k].note(a, r.Cost, &p.cast.Quotas[k])
	}
	switch a.Fate {
	case system.Admitted:
		p.admitted(a.At, &r, c, f)
	case system.Rejected:
		p.rejected(a, &r, c, f)
	}
}

func (t *counters) count(a system.Answer, waited time.Duration, judged bool) {
	t.counts[a.Fate]++
	switch {
	case a.Fate == system.Rejected && int(a.Reason) < len(t.reason):
		t.reason[a.Reason]++
	case a.Fate == system.Admitted:
		if a.Mark {
			t.marked++
		}
		if judged {
			t.waits.add(waited)
		}
	}
}

func (p *Recorder) admitted(now time.Duration, r *traffic.Request, c *traffic.Client, flow int) {
	phase := p.t.phaseOf(now)
	bin := p.t.binOf(now)
	p.gates[r.Gateway][bin] += r.Cost
	p.flows[flow].served[bin] += r.Cost
	if i := p.t.poolOf[flow]; i >= 0 {
		p.pools[i].worst.admit(now, r.Cost)
		p.pools[i].served[phase] += r.Cost
	}
	for _, k := range c.Keys {
		key := &p.keys[k]
		key.admitted++
		key.worst.admit(now, r.Cost)
		p.limit[p.t.limitOf[k]][bin] += r.Cost
		if p.t.keys[k].isAbove(phase) {
			key.above += r.Cost
		}
	}
}

func (p *Recorder) rejected(a system.Answer, r *traffic.Request, c *traffic.Client, flow int) {
	for _, k := range c.Keys {
		key, of := &p.keys[k], &p.cast.Keys[k]
		key.rejected++
		byLimit := a.Reason == limiter.ClientLimit && (a.Limit == "" || a.Limit == of.Limit)
		if r.Within && (byLimit || a.Reason == limiter.QueueTimeout && of.Queued) {
			key.wrongful++
		}
	}
	byShare := a.Reason == limiter.TenantShare || a.Reason == limiter.QueueFull || a.Reason == limiter.QueueTimeout
	if byShare && !p.t.flows[flow].saturated[p.t.phaseOf(r.At)] {
		p.flows[flow].wrongful++
	}
}
