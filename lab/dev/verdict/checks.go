package verdict

import (
	"math"
	"slices"
	"strings"

	"github.com/titrate/titrate/lab/dev/scenario"
)

// Names of the checks.
const (
	CheckPoolMean    = "pool_mean"          // admitted/s ≤ bound
	CheckPoolSliding = "pool_sliding_1s"    // requests ≤ bound
	CheckDeviation   = "fair_deviation"     // |admitted/fair share − 1| of a saturated tenant ≤ bound, in steady
	CheckWait        = "wait_mean"          // ms of a saturated tenant's admitted requests ≤ bound, in steady
	CheckEntitlement = "entitlement"        // admitted/entitlement ≥ bound
	CheckExcess      = "client_excess"      // requests over rate·t + burst ≤ bound
	CheckRepaid      = "client_repaid"      // requests of the excess after a cut that are not repaid in time ≤ bound
	CheckClientMean  = "client_mean"        // admitted/s while it asks for more than its rate ≤ bound
	CheckClientLeast = "client_mean_least"  // the same ≥ bound
	CheckWrongful    = "client_wrongful429" // requests ≤ 0
	CheckFailed      = "failed"             // requests ≤ 0
)

// checks compares every figure with its bound.
func checks(j *evidence, l *Load, phases []Phase) []Check {
	var out []Check
	s := j.s
	for i := range phases {
		p := &phases[i]
		out = append(out,
			atMost(CheckPoolMean, p.Name, "", p.Pool.Admitted, meanBound(s, i)),
			atMost(CheckPoolSliding, p.Name, "", p.Pool.MaxSliding1s, slidingBound(s, i)))
		for _, t := range p.Tenants {
			out = append(out, tenantChecks(p.Name, &t, s.Pool.Target, l)...)
		}
		for _, c := range p.Clients {
			if c.Offered == 0 && c.WorstExcess == 0 && c.Wrongful429 == 0 {
				continue // it asks in another phase
			}
			out = append(out,
				atMost(CheckExcess, p.Name, c.Name, c.WorstExcess, excessBound(s, i, s.Client(c.Name))),
				atMost(CheckWrongful, p.Name, c.Name, float64(c.Wrongful429), 0))
		}
		out = append(out, atMost(CheckFailed, p.Name, "", float64(p.Failed), 0))
	}
	return slices.Concat(out, repaidChecks(j), meanChecks(j, phases))
}

func tenantChecks(phase string, t *Tenant, target float64, l *Load) []Check {
	var out []Check
	if phase == scenario.Steady && t.Saturated {
		out = append(out, atMost(CheckDeviation, phase, t.Name, math.Abs(t.Admitted/t.FairShare-1), maxDeviation))
		if target > 0 {
			out = append(out, atMost(CheckWait, phase, t.Name, t.WaitMeanMs,
				maxWait*target*1e3+l.LateP99Ms+l.PathP99Ms))
		}
	}
	if entitled := math.Min(t.Demand, t.FairShare); entitled > 0 {
		out = append(out, atLeast(CheckEntitlement, phase, t.Name, t.Admitted/entitled, minEntitlement))
	}
	return out
}

// repaidChecks check that the two sides of a cut repay the cost that they admitted too much. From the time at
// which they are connected again, the excess falls at the limit's rate until it is within the slack.
func repaidChecks(j *evidence) []Check {
	var out []Check
	for _, c := range cuts(j.s) {
		if c.joined >= j.s.Duration() {
			continue
		}
		phase := j.s.PhaseAt(c.joined)
		p := &j.s.Phases[phase]
		for _, t := range j.s.Tenants {
			for _, client := range t.Clients {
				if l := client.Limit; l != nil && client.Rates[phase] > l.Rate {
					out = append(out, atMost(CheckRepaid, p.Name, client.Name,
						j.clients[client.Name].unpaid(l, c.joined, p.End), whole(&client, len(j.s.Gateways))))
				}
			}
		}
	}
	return out
}

// unpaid returns the most by which the excess after from is above the rest of the debt, if the debt at from is
// repaid at the limit's rate.
func (c *clientSummary) unpaid(l *scenario.Limit, from, to float64) (most float64) {
	debt := 0.0
	first, _ := slices.BinarySearch(c.admitted, from)
	if first > 0 {
		debt = max(0, c.excess[first-1]-l.Rate*(from-c.admitted[first-1]))
	}
	for i := first; i < len(c.admitted) && c.admitted[i] < to; i++ {
		most = max(most, c.excess[i]-max(0, debt-l.Rate*(c.admitted[i]-from)))
	}
	return most
}

// meanChecks bound each limited client's mean over every stretch of phases in which it asks
// for more than its rate. The bound is its rate within 2 %, and one burst and the limit's
// slack on top.
func meanChecks(j *evidence, phases []Phase) []Check {
	var out []Check
	for _, t := range j.s.Tenants {
		for _, c := range t.Clients {
			if c.Limit == nil || c.Process == scenario.Rush { // a rush pauses, and its bucket fills
				continue
			}
			for first := 0; first < len(phases); first++ {
				end := first
				for end < len(phases) && c.Rates[end] > c.Limit.Rate {
					end++
				}
				if end > first {
					out = append(out, j.meanOf(&c, phases[first:end])...)
					first = end
				}
			}
		}
	}
	return out
}

// meanOf bounds the mean over a stretch. During a cut excessBound allows more, and bounds it; so the upper
// bound is for the time after the last cut.
func (j *evidence) meanOf(c *scenario.Client, stretch []Phase) (out []Check) {
	var names []string
	for _, p := range stretch {
		names = append(names, p.Name)
	}
	where, from, to := strings.Join(names, "+"), stretch[0].MeasuredFrom, stretch[len(stretch)-1].End
	mean := func(from float64) float64 { return j.clients[c.Name].between(from, to) / (to - from) }
	whole := from
	for _, cut := range cuts(j.s) {
		if cut.from < to {
			from = max(from, cut.joined)
		}
	}
	if from < to {
		once := c.Limit.Burst + slack(c.Limit, len(j.s.Gateways))
		out = append(out, atMost(CheckClientMean, where, c.Name, mean(from), c.Limit.Rate*clientMean+once/(to-from)))
	}
	return append(out, atLeast(CheckClientLeast, where, c.Name, mean(whole), c.Limit.Rate*clientLeast))
}

// between counts the admitted requests in [from, to), s.
func (c *clientSummary) between(from, to float64) float64 {
	first, _ := slices.BinarySearch(c.admitted, from)
	end, _ := slices.BinarySearch(c.admitted, to)
	return float64(end - first)
}

func atMost(name, phase, subject string, value, bound float64) Check {
	return Check{Name: name, Phase: phase, Subject: subject, Value: value, Bound: bound, Pass: value <= bound+1e-9}
}

func atLeast(name, phase, subject string, value, bound float64) Check {
	return Check{Name: name, Phase: phase, Subject: subject, Value: value, Bound: bound, AtLeast: true,
		Pass: value >= bound-1e-9}
}
