package verdict

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/titrate/titrate/services/dev/scenario"
	"github.com/titrate/titrate/services/dev/trace"
	"github.com/titrate/titrate/services/judge"
)

// Judge computes the verdict. It neither keeps nor changes the records.
func Judge(s *scenario.Scenario, records []trace.Record) *Verdict {
	j := newEvidence(s, records)
	v := &Verdict{Load: j.load()}
	for i := range s.Phases {
		v.Phases = append(v.Phases, j.phase(i))
	}
	v.VoidReasons = voidReasons(v.Load)
	v.Void = len(v.VoidReasons) > 0
	v.Checks = checks(s, &v.Load, v.Phases)
	v.Pass = !v.Void
	for _, c := range v.Checks {
		v.Pass = v.Pass && c.Pass
	}
	return v
}

// evidence is the records in the orders that the figures need.
type evidence struct {
	s          *scenario.Scenario
	sent       []trace.Record // by time of sending
	conforming []bool         // of sent: an ideal client limit lets it pass
	admissions []float64      // of all tenants, sorted
	clients    map[string]*clientSummary
}

// clientSummary is a limited client's run, per phase.
type clientSummary struct {
	worstExcess []float64
	wrongful    []int
}

func newEvidence(s *scenario.Scenario, records []trace.Record) *evidence {
	j := &evidence{s: s, sent: slices.Clone(records), clients: map[string]*clientSummary{}}
	slices.SortStableFunc(j.sent, func(a, b trace.Record) int { return cmp.Compare(a.Sent(), b.Sent()) })
	for i := range j.sent {
		if j.sent[i].Admitted() {
			j.admissions = append(j.admissions, j.sent[i].AdmittedAt())
		}
	}
	slices.Sort(j.admissions)
	j.conforming = make([]bool, len(j.sent))
	for i := range j.conforming {
		j.conforming[i] = true
	}
	for _, t := range s.Tenants {
		for _, c := range t.Clients {
			if c.Limit != nil {
				j.clients[c.Name] = j.summarise(c.Name, c.Limit)
			}
		}
	}
	return j
}

// summarise runs the ideal bucket and the excess over one client's requests.
func (j *evidence) summarise(name string, l *scenario.Limit) *clientSummary {
	sum := &clientSummary{
		worstExcess: make([]float64, len(j.s.Phases)),
		wrongful:    make([]int, len(j.s.Phases)),
	}
	central := judge.Central{Bucket: judge.Bucket{Rate: l.Rate, Burst: l.Burst}}
	var admitted []float64 // times
	for i := range j.sent {
		r := &j.sent[i]
		if r.Client != name {
			continue
		}
		j.conforming[i] = central.Offer(at(r.Sent()), 1, r.Status == 429)
		if r.Admitted() {
			admitted = append(admitted, r.AdmittedAt())
		}
	}
	for _, sent := range central.Wrongful(grace(l, len(j.s.Gateways))) {
		sum.wrongful[j.s.PhaseAt(sent.Seconds())]++
	}
	sum.follow(j.s, l, admitted)
	return sum
}

// follow fills in the worst excess of each phase.
func (c *clientSummary) follow(s *scenario.Scenario, l *scenario.Limit, admitted []float64) {
	slices.Sort(admitted)
	level := judge.Level{Rate: l.Rate, Burst: l.Burst}
	for i, t := range admitted {
		x, p := level.Admit(at(t), 1), s.PhaseAt(t)
		if i == 0 || p != s.PhaseAt(admitted[i-1]) {
			c.worstExcess[p] = x
		}
		c.worstExcess[p] = max(c.worstExcess[p], x)
	}
}

func (j *evidence) load() Load {
	l := Load{Planned: j.s.Planned, Recorded: len(j.sent)}
	late := make([]float64, 0, len(j.sent))
	for i := range j.sent {
		if j.sent[i].Error == trace.Dropped {
			l.Dropped++
			continue
		}
		late = append(late, j.sent[i].Late*1e3)
	}
	l.LateP99Ms, l.LateMaxMs = judge.Quantile(late, .99), judge.Quantile(late, 1)
	return l
}

func voidReasons(l Load) []string {
	var why []string
	if l.Recorded != l.Planned || l.Recorded == 0 {
		why = append(why, fmt.Sprintf("%d requests recorded of %d planned", l.Recorded, l.Planned))
	}
	if d := float64(l.Dropped); d > maxDropped*float64(l.Planned) {
		why = append(why, fmt.Sprintf("%d of %d starts dropped, at most %.1f %% may be", l.Dropped, l.Planned,
			100*maxDropped))
	}
	if l.LateP99Ms > maxLateP99Ms {
		why = append(why, fmt.Sprintf("1 %% of the starts were %.0f ms late or more, at most %d ms may be", l.LateP99Ms,
			maxLateP99Ms))
	}
	return why
}

// fill sets the fair shares of a phase's tenants from their demands and the
// scenario's guarantees, in the same order.
func fill(capacity float64, tenants []Tenant, of []scenario.Tenant) {
	claims := make([]judge.Tenant, len(tenants))
	for i, t := range tenants {
		claims[i] = judge.Tenant{Weight: t.Weight, Guaranteed: of[i].Sure(t.Demand), Max: math.Inf(1), Demand: t.Demand}
	}
	for i, e := range (judge.Pool{Capacity: capacity}).Entitle(claims) {
		tenants[i].FairShare, tenants[i].Saturated = e.Share, e.Held
	}
}

// at is a time of the trace.
func at(seconds float64) time.Duration { return time.Duration(math.Round(seconds * 1e9)) }
