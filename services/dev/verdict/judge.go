package verdict

import (
	"cmp"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/titrate/titrate/control/fairshare"
	"github.com/titrate/titrate/services/dev/scenario"
	"github.com/titrate/titrate/services/dev/trace"
)

// Judge computes the verdict. It neither keeps nor changes the records.
func Judge(s *scenario.Scenario, records []trace.Record) *Verdict {
	j := newJudge(s, records)
	v := &Verdict{Load: j.load()}
	for i := range s.Phases {
		v.Phases = append(v.Phases, j.phase(i))
	}
	v.VoidReasons = voidReasons(v.Load)
	v.Void = len(v.VoidReasons) > 0
	v.Checks = checks(s, v.Phases)
	v.Pass = !v.Void
	for _, c := range v.Checks {
		v.Pass = v.Pass && c.Pass
	}
	return v
}

// judge holds the records in the orders that the figures need.
type judge struct {
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

func newJudge(s *scenario.Scenario, records []trace.Record) *judge {
	j := &judge{s: s, sent: slices.Clone(records), clients: map[string]*clientSummary{}}
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
func (j *judge) summarise(name string, l *scenario.Limit) *clientSummary {
	sum := &clientSummary{
		worstExcess: make([]float64, len(j.s.Phases)),
		wrongful:    make([]int, len(j.s.Phases)),
	}
	ideal := bucket{rate: l.Rate, burst: l.Burst}
	var admitted, over []float64 // times: of its admissions, of what the ideal bucket turns away
	var suspects []*trace.Record // its 429s that the ideal bucket admits
	for i := range j.sent {
		r := &j.sent[i]
		if r.Client != name {
			continue
		}
		j.conforming[i] = ideal.take(r.Sent())
		switch {
		case !j.conforming[i]:
			over = append(over, r.Sent())
		case r.Status == 429:
			suspects = append(suspects, r)
		}
		if r.Admitted() {
			admitted = append(admitted, r.AdmittedAt())
		}
	}
	clear := grace(l, len(j.s.Gateways))
	for _, r := range suspects {
		if below(r.Sent(), over, clear) {
			sum.wrongful[j.s.PhaseAt(r.T)]++
		}
	}
	sum.follow(j.s, l, admitted)
	return sum
}

// below reports whether no time in over, which is sorted, lies within clear of t.
func below(t float64, over []float64, clear float64) bool {
	i, _ := slices.BinarySearch(over, t-clear)
	return i == len(over) || over[i] > t+clear
}

// follow fills in the worst excess of each phase.
func (c *clientSummary) follow(s *scenario.Scenario, l *scenario.Limit, admitted []float64) {
	slices.Sort(admitted)
	e := excess{rate: l.Rate, burst: l.Burst}
	for i, t := range admitted {
		x, p := e.admit(t), s.PhaseAt(t)
		if i == 0 || p != s.PhaseAt(admitted[i-1]) {
			c.worstExcess[p] = x
		}
		c.worstExcess[p] = max(c.worstExcess[p], x)
	}
}

func (j *judge) load() Load {
	l := Load{Planned: j.s.Planned, Recorded: len(j.sent)}
	late := make([]float64, 0, len(j.sent))
	for i := range j.sent {
		if j.sent[i].Error == trace.Dropped {
			l.Dropped++
			continue
		}
		late = append(late, j.sent[i].Late*1e3)
	}
	l.LateP99Ms, l.LateMaxMs = Quantile(late, .99), Quantile(late, 1)
	return l
}

func voidReasons(l Load) []string {
	var why []string
	if l.Recorded != l.Planned || l.Recorded == 0 {
		why = append(why, fmt.Sprintf("%d requests recorded of %d planned", l.Recorded, l.Planned))
	}
	if d := float64(l.Dropped); d > maxDropped*float64(l.Planned) {
		why = append(why, fmt.Sprintf("%d of %d starts dropped, at most %.1f %% may be", l.Dropped, l.Planned, 100*maxDropped))
	}
	if l.LateP99Ms > maxLateP99Ms {
		why = append(why, fmt.Sprintf("1 %% of the starts were %.0f ms late or more, at most %d ms may be", l.LateP99Ms, maxLateP99Ms))
	}
	return why
}

// Quantile is the smallest of the values that at least the part q of them do not exceed;
// 0 if there are none. It sorts the values.
func Quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return stat.Quantile(q, stat.Empirical, values, nil)
}

// fill sets the fair shares of a phase's tenants from their demands and the
// scenario's guarantees, in the same order.
func fill(capacity float64, tenants []Tenant, of []scenario.Tenant) {
	demands := make([]fairshare.Demand, len(tenants))
	for i, t := range tenants {
		demands[i] = fairshare.Demand{Weight: t.Weight, Guaranteed: of[i].Guaranteed, Cap: t.Demand}
	}
	shares := make([]float64, len(tenants))
	result := fairshare.Fill(capacity, demands, fairshare.Minimum, 0, shares)
	for i := range tenants {
		tenants[i].FairShare = shares[i]
		tenants[i].Saturated = result.Bound(demands[i]) != fairshare.BoundCap
	}
}
