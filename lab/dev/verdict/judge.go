package verdict

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/titrate/titrate/lab/dev/scenario"
	"github.com/titrate/titrate/lab/dev/trace"
	"github.com/titrate/titrate/lab/judge"
	"github.com/titrate/titrate/services/wording"
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
	v.Checks = checks(j, &v.Load, v.Phases)
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

// clientSummary is a limited client's run.
type clientSummary struct {
	admitted    []float64 // times, sorted, s
	excess      []float64 // over rate·t + burst of the worst window that ends with each request
	worstExcess []float64 // per phase
	wrongful    []int     // per phase
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

// summarise runs the ideal buckets and the excess over one client's requests.
func (j *evidence) summarise(name string, l *scenario.Limit) *clientSummary {
	sum := &clientSummary{
		worstExcess: make([]float64, len(j.s.Phases)),
		wrongful:    make([]int, len(j.s.Phases)),
	}
	bucket := judge.Bucket{Rate: l.Rate, Burst: l.Burst}
	bySending, byAdmission := judge.Central{Bucket: bucket}, judge.Central{Bucket: bucket}
	var arrivals []arrival
	for i := range j.sent {
		r := &j.sent[i]
		if r.Client != name {
			continue
		}
		j.conforming[i] = bySending.Offer(i, at(r.Sent()), 1, r.Status == 429)
		a := arrival{i, r.Sent()}
		if r.Admitted() {
			a.at = max(a.at, r.AdmittedAt())
			sum.admitted = append(sum.admitted, r.AdmittedAt())
		}
		arrivals = append(arrivals, a)
	}
	slices.SortStableFunc(arrivals, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	for _, a := range arrivals {
		byAdmission.Offer(a.request, at(a.at), 1, j.sent[a.request].Status == 429)
	}
	margin := grace(l, len(j.s.Gateways))
	late := byAdmission.Wrongful(margin)
	for _, i := range bySending.Wrongful(margin) {
		if slices.Contains(late, i) {
			sum.wrongful[j.s.PhaseAt(j.sent[i].Sent())]++
		}
	}
	sum.follow(j.s, l)
	return sum
}

// arrival is a request and the latest time at which a gateway may have decided about it, s. An admitted request
// may have been on its way to the gateway until the upstream received it.
type arrival struct {
	request int // of evidence.sent
	at      float64
}

// owed returns the excess that is left at a time, s.
func (c *clientSummary) owed(l *scenario.Limit, at float64) float64 {
	i, _ := slices.BinarySearch(c.admitted, at)
	if i == 0 {
		return 0
	}
	return max(0, c.excess[i-1]-l.Rate*(at-c.admitted[i-1]))
}

// follow fills in the excess.
func (c *clientSummary) follow(s *scenario.Scenario, l *scenario.Limit) {
	slices.Sort(c.admitted)
	level := judge.Level{Rate: l.Rate, Burst: l.Burst}
	for i, t := range c.admitted {
		x, p := level.Admit(at(t), 1), s.PhaseAt(t)
		if i == 0 || p != s.PhaseAt(c.admitted[i-1]) {
			c.worstExcess[p] = x
		}
		c.worstExcess[p] = max(c.worstExcess[p], x)
		c.excess = append(c.excess, x)
	}
}

func (j *evidence) load() Load {
	l := Load{Planned: j.s.Planned, Recorded: len(j.sent)}
	late := make([]float64, 0, len(j.sent))
	var path []float64
	for i := range j.sent {
		r := &j.sent[i]
		if r.Error == trace.Dropped {
			l.Dropped++
			continue
		}
		late = append(late, r.Late*1e3)
		if j.clients[r.Client] == nil && r.Status == 200 && r.At > 0 && r.WaitMs == 0 {
			path = append(path, max(0, r.At-r.Sent())*1e3)
		}
	}
	l.LateP99Ms, l.LateMaxMs = judge.Quantile(late, .99), judge.Quantile(late, 1)
	l.PathP99Ms = judge.Quantile(path, .99)
	return l
}

func voidReasons(l Load) []string {
	var why []string
	if l.Recorded != l.Planned || l.Recorded == 0 {
		why = append(why, fmt.Sprintf("%s recorded of %d planned", wording.Count(l.Recorded, "request"), l.Planned))
	}
	if d := float64(l.Dropped); d > maxDropped*float64(l.Planned) {
		why = append(why, fmt.Sprintf("%d of %d starts dropped, at most %.1f %% may be", l.Dropped, l.Planned,
			100*maxDropped))
	}
	if l.LateP99Ms > maxLateP99Ms {
		why = append(why, fmt.Sprintf("1 %% of the starts were %.0f ms late or more, at most %d ms may be", l.LateP99Ms,
			maxLateP99Ms))
	}
	if l.PathP99Ms > maxLateP99Ms {
		why = append(why, fmt.Sprintf("1 %% of the requests that no limit and no queue held took %.0f ms or more to "+
			"the upstream, at most %d ms may be", l.PathP99Ms, maxLateP99Ms))
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
